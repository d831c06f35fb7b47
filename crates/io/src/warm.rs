//! Brings chosen pages of a file into the page cache, and no others.
//!
//! - `FADV_WILLNEED` starts the reads of a range, and does not wait for them. The kernel reads exactly the
//!   named pages, without readahead around them (`mm/fadvise.c`, `mm/readahead.c: force_page_cache_ra`).
//! - A read of the range then waits for them. A fixed number of ranges is in flight at once.
//! - Resident pages are not read. Pages that were written through the page cache may lie in folios of
//!   megabytes (ext4 since Linux 6.16). A second read would activate a whole folio for a single page.
//! - In the end every other page is read a second time. The kernel activates a page at its second read
//!   (`mm/swap.c: folio_mark_accessed`). With a full page cache it soon evicts pages that were read once: in
//!   our measurements within a second, before the first reader came.

use crate::residency;
use crate::sys::{Descriptor, fadvise, pread};
use std::collections::{TryReserveError, VecDeque};
use std::ops::Range;

/// The longest range in bytes. The kernel cuts longer ones off at the device's largest request.
pub const RANGE_BYTES_MAX: usize = 64 << 10;

/// Bytes that [`read_ahead`] asks for at once, for the same reason.
const PIECE_BYTES: u64 = 128 << 10;

/// Starts to read a range of a file into the page cache, and does not wait for it. Errors are left to the
/// later read.
pub fn read_ahead(descriptor: impl Into<Descriptor>, offset: u64, length_bytes: u64) {
    let descriptor = descriptor.into();
    let mut done = 0;
    while done < length_bytes {
        let piece = (length_bytes - done).min(PIECE_BYTES);
        let _ = fadvise::advise(descriptor, offset + done, piece, libc::POSIX_FADV_WILLNEED);
        done += piece;
    }
}

/// Starts the kernel's own readahead at an absent page, and does not wait for it. The descriptor must not have
/// `FADV_RANDOM`. The kernel reads as far ahead as pages before this one are in the page cache, and as the descriptor's
/// readahead allows (`mm/readahead.c: page_cache_sync_ra`). It does nothing before Linux 5.10, or where the filesystem
/// does not know `RWF_NOWAIT`.
pub fn start_kernel_readahead(descriptor: impl Into<Descriptor>, offset: u64) {
    let mut byte = 0;
    // SAFETY: one byte of the stack is writable.
    let _ =
        unsafe { pread::pread_with_flags(descriptor, &raw mut byte, 1, offset, libc::RWF_NOWAIT) };
}

/// Result of [`warm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmResult {
    /// Pages that were absent and are now in the page cache.
    pub pages: u64,
    /// Offset of the first range that was left out, if `is_over` ended the work.
    pub cut_short_at: Option<u64>,
}

/// Brings `ranges` of a file into the page cache, `in_flight` of them at once.
///
/// The ranges are page-aligned, in ascending order, and [`RANGE_BYTES_MAX`] long at most. Once `is_over`
/// returns true no further range is started. The function returns when all started ranges have arrived.
///
/// Nobody else may use `descriptor`: `FADV_RANDOM` is set on it. Errors of the device are left to the
/// later readers of the pages.
///
/// # Errors
/// There is no memory for it. Nothing was read.
pub fn warm(
    descriptor: impl Into<Descriptor>,
    ranges: impl IntoIterator<Item = Range<u64>>,
    in_flight: usize,
    is_over: impl Fn() -> bool,
) -> Result<WarmResult, TryReserveError> {
    let descriptor = descriptor.into();
    let _ = fadvise::advise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM);
    let in_flight = in_flight.max(1);
    let (mut buffer, mut started) = (Vec::<u8>::new(), VecDeque::new());
    buffer.try_reserve_exact(RANGE_BYTES_MAX)?;
    started.try_reserve(in_flight)?;
    let buffer = buffer.spare_capacity_mut();
    let mut wait = |range: Range<u64>| {
        let length = ((range.end - range.start) as usize).min(buffer.len());
        // SAFETY: the buffer is writable for that length.
        let _ =
            unsafe { pread::pread(descriptor, buffer.as_mut_ptr().cast(), length, range.start) };
    };
    let mut warmed = WarmResult::default();
    let mut to_read_again = Vec::new();
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
        if started.len() >= in_flight
            && let Some(oldest) = started.pop_front()
        {
            wait(oldest);
        }
        let _ = fadvise::advise(descriptor, range.start, length, libc::POSIX_FADV_WILLNEED);
        warmed.pages += absent;
        #[expect(clippy::disallowed_methods, reason = "there is room")]
        {
            // Without memory the kernel may evict the range earlier.
            if to_read_again.try_reserve(1).is_ok() {
                to_read_again.push(range.clone());
            }
            started.push_back(range);
        }
    }
    started.into_iter().for_each(&mut wait);
    for range in to_read_again {
        if is_over() {
            break;
        }
        wait(range);
    }
    Ok(warmed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    const PAGE: u64 = crate::alignment::PAGE_BYTES;

    /// A file of `pages` pages, none of them in the page cache. `None` if the filesystem keeps them there
    /// (tmpfs).
    fn cold_file(pages: u64) -> Option<tempfile::NamedTempFile> {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).ok()?;
        std::fs::write(file.path(), vec![7; (pages * PAGE) as usize]).ok()?;
        file.as_file().sync_all().ok()?;
        let descriptor = file.as_file().as_raw_fd();
        fadvise::advise(descriptor, 0, 0, libc::POSIX_FADV_DONTNEED).ok()?;
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

    /// Not `eprintln!`: the test harness would capture it.
    fn skip(why: &str) {
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
    }

    /// Whether exactly these pages are resident after a warm-up, and a second warm-up finds no work.
    fn warms_exactly(ranges: &[Range<u64>], file: &tempfile::NamedTempFile) -> bool {
        let descriptor = file.as_file().as_raw_fd();
        let bytes = || {
            let ranges = ranges.iter();
            ranges.map(|pages| pages.start * PAGE..pages.end * PAGE)
        };
        let asked: Vec<u64> = ranges.iter().cloned().flatten().collect();
        let warmed = warm(descriptor, bytes(), 4, || false).unwrap();
        assert_eq!(
            (warmed.pages, warmed.cut_short_at),
            (asked.len() as u64, None)
        );
        resident(descriptor, 600) == asked
            && warm(descriptor, bytes(), 4, || false).unwrap().pages == 0
    }

    #[test]
    fn exactly_the_given_pages_are_warmed() {
        let ranges = [3..4_u64, 10..26, 40..41, 41..43, 500..501, 599..600];
        // The machine may reclaim some pages meanwhile, but not every time.
        let mut tries = (0..3).map_while(|_| cold_file(600)).peekable();
        if tries.peek().is_none() {
            return skip("the page cache cannot be emptied here");
        }
        assert!(tries.any(|file| warms_exactly(&ranges, &file)));
    }

    #[test]
    fn no_second_read_when_it_is_over() {
        let Some(file) = cold_file(8) else {
            return skip("the page cache cannot be emptied here");
        };
        let asked = std::cell::Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 2
        };
        let ranges = [0..PAGE, 4 * PAGE..5 * PAGE];
        let warmed = warm(file.as_file().as_raw_fd(), ranges, 4, is_over).unwrap();
        assert_eq!(warmed.cut_short_at, None);
        // Once for each range, and once before the first second read.
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn no_range_is_started_when_it_is_over() {
        let Some(file) = cold_file(8) else {
            return skip("the page cache cannot be emptied here");
        };
        let warmed = warm(
            file.as_file().as_raw_fd(),
            std::iter::once(0..PAGE),
            4,
            || true,
        )
        .unwrap();
        assert_eq!((warmed.pages, warmed.cut_short_at), (0, Some(0)));
        assert!(resident(file.as_file().as_raw_fd(), 8).is_empty());
    }
}
