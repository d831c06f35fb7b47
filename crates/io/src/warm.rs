//! Bringing chosen pages of a file into the page cache: these, and no others.
//!
//! Each range is asked for with `FADV_WILLNEED`, which starts its reads without waiting for them
//! (`mm/fadvise.c`, `mm/readahead.c: force_page_cache_ra`: the pages named and no readahead around
//! them), and is then read, which waits for them. So many ranges are on their way at once.
//!
//! What is there already is left as it is: what was written through the page cache may lie in folios of
//! megabytes (ext4 since Linux 6.16), and a second read would put all of a folio among the pages in use
//! for the sake of one.
//!
//! In the end all others are read once more: the kernel takes a page that was read twice for one that is
//! in use (`mm/swap.c: folio_mark_accessed`), and one that was read once it evicts as soon as what
//! streams through a full page cache has passed by: within a second, as was measured, and before
//! the first reader came.

use crate::residency;
use crate::sys::file;
use std::collections::VecDeque;
use std::ops::Range;

/// Longest range, in bytes: the kernel cuts longer ones off at what the device takes at once.
pub const RANGE_BYTES_MAX: usize = 64 << 10;

/// [`read_ahead`] asks for so much at once, for the same reason.
const PIECE_BYTES: u64 = 128 << 10;

/// Starts to read a range of a file into the page cache, and does not wait for it.
pub fn read_ahead(descriptor: i32, offset: u64, length_bytes: u64) {
    let mut done = 0;
    while done < length_bytes {
        let piece = (length_bytes - done).min(PIECE_BYTES);
        let _ = file::advise(descriptor, offset + done, piece, libc::POSIX_FADV_WILLNEED);
        done += piece;
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Pages that were not in the page cache, and are now.
    pub pages: u64,
    /// It was over before what begins here.
    pub cut_short_at: Option<u64>,
}

/// Brings `ranges` of the file into the page cache: page-aligned, none longer than
/// [`RANGE_BYTES_MAX`], in ascending order. Starts nothing any more once `is_over` says so, and returns
/// when everything that was started is there.
///
/// `descriptor` must be nobody else's: `FADV_RANDOM` is set on it. Errors of the device are left
/// for whoever reads the pages in earnest.
pub fn warm(
    descriptor: i32,
    ranges: impl IntoIterator<Item = Range<u64>>,
    in_flight: usize,
    is_over: impl Fn() -> bool,
) -> Warmed {
    let _ = file::advise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM);
    let mut buffer = vec![0_u8; RANGE_BYTES_MAX];
    let mut wait = |range: Range<u64>| {
        let length = ((range.end - range.start) as usize).min(buffer.len());
        // SAFETY: the buffer is writable for that length.
        let _ = unsafe { file::pread(descriptor, buffer.as_mut_ptr(), length, range.start) };
    };
    let mut warmed = Warmed::default();
    let mut started = VecDeque::new();
    let mut all = Vec::new();
    for range in ranges {
        if is_over() {
            warmed.cut_short_at = Some(range.start);
            break;
        }
        let length = range.end - range.start;
        let absent = match residency::of_range(descriptor, range.start, length) {
            Ok(found) => found.pages.saturating_sub(found.resident_pages),
            Err(_) => length.div_ceil(crate::alignment::PAGE_BYTES),
        };
        if absent == 0 {
            continue;
        }
        if started.len() >= in_flight.max(1)
            && let Some(oldest) = started.pop_front()
        {
            wait(oldest);
        }
        let _ = file::advise(descriptor, range.start, length, libc::POSIX_FADV_WILLNEED);
        warmed.pages += absent;
        all.push(range.clone());
        started.push_back(range);
    }
    started.into_iter().for_each(&mut wait);
    for range in all {
        if is_over() {
            break;
        }
        wait(range);
    }
    warmed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    const PAGE: u64 = crate::alignment::PAGE_BYTES;

    /// A file of `pages` pages of which none is in the page cache; `None` where the filesystem
    /// keeps them (tmpfs).
    fn cold_file(pages: u64) -> Option<tempfile::NamedTempFile> {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).ok()?;
        std::fs::write(file.path(), vec![7; (pages * PAGE) as usize]).ok()?;
        file.as_file().sync_all().ok()?;
        let descriptor = file.as_file().as_raw_fd();
        file::advise(descriptor, 0, 0, libc::POSIX_FADV_DONTNEED).ok()?;
        let left = residency::of_range(descriptor, 0, pages * PAGE).ok()?;
        (left.resident_pages == 0).then_some(file)
    }

    fn resident(descriptor: i32, pages: u64) -> Vec<u64> {
        let mut resident = Vec::new();
        residency::each_page(descriptor, 0, pages * PAGE, |offset, is_there| {
            if is_there {
                resident.push(offset / PAGE);
            }
        })
        .unwrap();
        resident
    }

    /// The harness would capture what a macro prints.
    fn skip(why: &str) {
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
    }

    /// Whether these pages, and no others, are there when they have been warmed, and not warmed once more.
    fn warms_exactly(ranges: &[Range<u64>], file: &tempfile::NamedTempFile) -> bool {
        let descriptor = file.as_file().as_raw_fd();
        let bytes = || {
            let ranges = ranges.iter();
            ranges.map(|pages| pages.start * PAGE..pages.end * PAGE)
        };
        let asked: Vec<u64> = ranges.iter().cloned().flatten().collect();
        let warmed = warm(descriptor, bytes(), 4, || false);
        assert_eq!(
            (warmed.pages, warmed.cut_short_at),
            (asked.len() as u64, None)
        );
        resident(descriptor, 600) == asked && warm(descriptor, bytes(), 4, || false).pages == 0
    }

    #[test]
    fn exactly_the_pages_that_were_asked_for() {
        let ranges = [3..4_u64, 10..26, 40..41, 41..43, 500..501, 599..600];
        // A machine that reclaims pages by itself may take some meanwhile, but not each time.
        let mut tries = (0..3).map_while(|_| cold_file(600)).peekable();
        if tries.peek().is_none() {
            return skip("the page cache cannot be emptied here");
        }
        assert!(tries.any(|file| warms_exactly(&ranges, &file)));
    }

    #[test]
    fn nothing_is_read_once_more_when_it_is_over() {
        let Some(file) = cold_file(8) else {
            return skip("the page cache cannot be emptied here");
        };
        let asked = std::cell::Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 2
        };
        let ranges = [0..PAGE, 4 * PAGE..5 * PAGE];
        let warmed = warm(file.as_file().as_raw_fd(), ranges, 4, is_over);
        assert_eq!(warmed.cut_short_at, None);
        // For each range, and for the first to be read once more.
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn nothing_is_started_when_it_is_over() {
        let Some(file) = cold_file(8) else {
            return skip("the page cache cannot be emptied here");
        };
        let warmed = warm(
            file.as_file().as_raw_fd(),
            std::iter::once(0..PAGE),
            4,
            || true,
        );
        assert_eq!((warmed.pages, warmed.cut_short_at), (0, Some(0)));
        assert!(resident(file.as_file().as_raw_fd(), 8).is_empty());
    }
}
