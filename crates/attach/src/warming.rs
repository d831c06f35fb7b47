//! The handover from outside: warms a finished output's hot pages, from the heat of its inputs.

use crate::catalogue::is_out_of_descriptors;
use crate::event::FileId;
use coldstream_handover::rocksdb::Output;
use coldstream_handover::{KEPT_MIN, Limits, Piece, Plan, SHARE_MIN};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::{sys::fadvise, warm};
use coldstream_policy::heat::{Heat, Origin};
use coldstream_sstable::rocksdb::SsTable;
use coldstream_sstable::{Error, ReadAt};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// The search for hot ranges ends after this time, and warming after twice of it.
const SEARCH_MAX: Duration = Duration::from_secs(1);
/// Ranges that are read at once. More than in a database: no thread of it waits.
const IN_FLIGHT: usize = 32;
const RANGE_BYTES: u64 = warm::RANGE_BYTES_MAX as u64;

/// For a file that is read for its index. Bytes that the kernel reads ahead in one are never used.
pub fn end_readahead(file: &File) {
    let _ = fadvise::advise(file, 0, 0, libc::POSIX_FADV_RANDOM);
}

/// Heat, with the time that counts.
#[derive(Clone, Copy)]
pub struct HeatNow<'a> {
    /// The heat of all files.
    pub heat: Heat<'a>,
    /// The epoch.
    pub epoch: u16,
}

/// What was warmed.
#[derive(Debug, Default)]
pub struct Warmed {
    /// Ranges that were hot, and are warm: the first read of each is a hit.
    pub ranges_warmed: u64,
    /// It took too long: later hot pages were left out, or some hot places were not found.
    pub is_cut_short: bool,
    /// Pages that were hot.
    pub pages_hot: u64,
    /// Pages that were hot, and too many.
    pub pages_left_out: u64,
    /// Pages that were read.
    pub pages_warmed: u64,
}

/// Whether an SSTable is finished: its end can be read.
#[must_use]
pub fn is_finished(file: &File) -> bool {
    end_readahead(file);
    !matches!(
        SsTable::open(file).map(drop),
        Err(Error::Unfinished | Error::Malformed { .. } | Error::Io(_))
    )
}

/// Warms the pages of `output` that were hot in `inputs`. Inputs that end within the output are taken out of the
/// list, and those that cannot be opened. Where only a descriptor is missing, they stay for the next output.
///
/// # Errors
/// The readers of the index do not know the format, or the file is damaged.
pub fn warm(
    output: FileId,
    file: &File,
    inputs: &mut Vec<FileId>,
    open: &dyn Fn(FileId) -> io::Result<File>,
    now: HeatNow<'_>,
    pages_max: usize,
) -> Result<Warmed, Error> {
    let started = Instant::now();
    let is_over = || started.elapsed() > SEARCH_MAX;
    let HeatNow { heat, epoch } = now;
    end_readahead(file);
    let mut blocks = Output::read(&SsTable::open(file)?, &is_over)?;
    inputs.retain(|input| {
        if *input == output {
            return false;
        }
        let opened = match open(*input) {
            Ok(opened) => opened,
            Err(error) => return is_out_of_descriptors(&error),
        };
        end_readahead(&opened);
        let size = opened.size().unwrap_or(0);
        if !heat.any_hot(input.key(), size, epoch) {
            return true;
        }
        let heat_at = |offset| heat.of_hot(input.key(), offset, epoch);
        let taken = SsTable::open(&opened).and_then(|sstable| {
            if !blocks.has_comparator_of(&sstable) {
                return Ok(true);
            }
            blocks.take_over(&sstable, &heat_at, &is_over)
        });
        !taken.unwrap_or(false)
    });
    let is_search_over = is_over();
    let metadata = blocks.metadata();
    let mut pieces = blocks.pieces()?;
    pieces.extend(metadata);
    let limits = Limits {
        heat_min: SHARE_MIN,
        pages_max,
    };
    let plan = Plan::choose(pieces.iter().copied(), limits)?;
    let is_late = || started.elapsed() > 2 * SEARCH_MAX;
    let ranges = plan.ranges(RANGE_BYTES);
    let warmed = warm::warm(file, ranges, IN_FLIGHT, is_late).map_err(|_| Error::OutOfMemory)?;
    let warm_end = warmed.cut_short_at.unwrap_or(u64::MAX) / PAGE_BYTES;
    Ok(Warmed {
        ranges_warmed: remember(now, output, &plan, &pieces, warm_end)?,
        is_cut_short: warmed.cut_short_at.is_some() || is_search_over,
        pages_hot: plan.hot_pages(),
        pages_left_out: plan.left_out.len() as u64,
        pages_warmed: warmed.pages,
    })
}

/// Notes the heat that the output inherits. Planned pages from `warm_end` on are not warm: there was no time. Returns how
/// many ranges are.
fn remember(
    now: HeatNow<'_>,
    output: FileId,
    plan: &Plan,
    pieces: &[Piece],
    warm_end: u64,
) -> Result<u64, Error> {
    let HeatNow { heat, epoch } = now;
    let mut warmed = 0;
    for page in Plan::beginnings(pieces, KEPT_MIN)? {
        let is_warm = plan.contains(page.number) && page.number < warm_end;
        warmed += u64::from(is_warm);
        let origin = match is_warm {
            true => Origin::Warmed,
            false => Origin::Estimated,
        };
        let (offset, warmth) = (page.number * PAGE_BYTES, page.heat.min(254.0) as u8);
        heat.set(output.key(), offset, warmth, origin, epoch);
    }
    Ok(warmed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_policy::heat::Touched;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn pages_for_which_there_was_no_time_are_not_warm() {
        let words: Vec<AtomicU64> = (0..4096).map(|_| AtomicU64::new(0)).collect();
        let (heat, epoch) = (Heat::new(&words).unwrap(), 1);
        let output = FileId {
            device: 1,
            inode: 2,
        };
        let piece = |page| Piece {
            offset: page * PAGE_BYTES,
            length: PAGE_BYTES,
            heat: 200.0,
            is_one_of_few: false,
        };
        let pieces = [3, 40, 41].map(piece);
        let limits = Limits {
            heat_min: SHARE_MIN,
            pages_max: 100,
        };
        let plan = Plan::choose(pieces, limits).unwrap();
        let now = HeatNow { heat, epoch };
        assert_eq!(remember(now, output, &plan, &pieces, 40).unwrap(), 1);
        let touch = |page| heat.touch(output.key(), page * PAGE_BYTES, PAGE_BYTES, epoch);
        assert!(matches!(touch(3), Touched::FirstSinceWarmed));
        assert!(matches!(touch(40), Touched::Plain));
    }
}
