//! The handover from outside: warms a finished output's hot pages, from the heat of its inputs.

use crate::catalogue::is_out_of_descriptors;
use crate::event::FileId;
use coldstream_handover::rocksdb::Output;
use coldstream_handover::{Heirs, Limits, Plan, SHARE_MIN};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::{sys::fadvise, warm};
use coldstream_policy::heat::Heat;
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
/// list, and those that cannot be opened. Where only a descriptor is missing, they stay for the next output. So do those
/// that cannot be read, and `refuse` is told why.
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
    refuse: &dyn Fn(&Error),
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
        match taken {
            Ok(ends_within) => !ends_within,
            Err(error) => {
                refuse(&error);
                true
            }
        }
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
    let heirs = Heirs::of(&plan, &pieces)?;
    let is_late = || started.elapsed() > 2 * SEARCH_MAX;
    let ranges = plan.ranges(RANGE_BYTES);
    let warmed = warm::warm(file, ranges, IN_FLIGHT, is_late).map_err(|_| Error::OutOfMemory)?;
    let warm_end = warmed.cut_short_at.unwrap_or(u64::MAX) / PAGE_BYTES;
    Ok(Warmed {
        ranges_warmed: heirs.record(heat, output.key(), epoch, warm_end),
        is_cut_short: warmed.cut_short_at.is_some() || is_search_over,
        pages_hot: plan.hot_pages(),
        pages_left_out: plan.left_out.len() as u64,
        pages_warmed: warmed.pages,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_policy::heat::GROUP_WORDS;
    use coldstream_testkit::database::sstables;
    use coldstream_testkit::process::Program;
    use coldstream_testkit::tools;
    use std::cell::Cell;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn an_input_that_cannot_be_read_is_told_and_stays() {
        if tools::find_library("librocksdb.so").is_none() {
            return;
        }
        let scene = tempfile::tempdir().unwrap();
        let program = tools::compile("hot_keys.c", scene.path(), "hot_keys", &["-lrocksdb"]);
        let database = scene.path().join("database");
        let options = "disable_auto_compactions=true;create_if_missing=true";
        (Program::new(&program).argument("load").argument(&database))
            .arguments(["1000", "1", "100", "0", options, "engine"])
            .run()
            .well();
        let output = File::open(&sstables(&database)[0]).unwrap();
        let damaged = scene.path().join("000007.sst");
        // What is left is its end, with the magic number.
        let mut bytes = std::fs::read(&sstables(&database)[0]).unwrap();
        let end = bytes.len() - 53;
        bytes[..end].fill(7);
        std::fs::write(&damaged, bytes).unwrap();
        let words: Vec<AtomicU64> = (0..GROUP_WORDS * 64).map(|_| AtomicU64::new(0)).collect();
        let (heat, epoch) = (Heat::new(&words).unwrap(), 1);
        let id = |inode| FileId { device: 1, inode };
        heat.touch(id(7).key(), 0, 4096, epoch);
        let mut inputs = vec![id(7)];
        let told = Cell::new(0);
        let now = HeatNow { heat, epoch };
        let open = |_| File::open(&damaged);
        let refuse = |error: &Error| {
            assert!(matches!(error, Error::Malformed { .. }), "{error}");
            told.set(told.get() + 1);
        };
        warm(id(8), &output, &mut inputs, &open, now, 100, &refuse).unwrap();
        assert_eq!(told.get(), 1);
        assert_eq!(inputs, [id(7)], "the next output may have more luck");
    }
}
