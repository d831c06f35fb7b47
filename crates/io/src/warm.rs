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

use crate::alignment::PAGE_BYTES;
use crate::residency;
use crate::sys::{Descriptor, fadvise, memory, pread};
use std::collections::TryReserveError;
use std::mem::MaybeUninit;
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

/// A page-aligned range of a file, at most [`RANGE_BYTES_MAX`] bytes long. All-zero memory is an empty one.
///
/// From the lowest bit on: whether some of its pages were absent, and are read; its pages (11 bits); its first page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct WarmRange(u64);

const ABSENT: u64 = 1;
const PAGES_SHIFT: u32 = 1;
const FIRST_PAGE_SHIFT: u32 = 12;
const _: () = assert!((RANGE_BYTES_MAX as u64 / PAGE_BYTES) << PAGES_SHIFT < 1 << FIRST_PAGE_SHIFT);

impl WarmRange {
    /// From a range of bytes.
    #[must_use]
    pub fn new(bytes: &Range<u64>) -> Self {
        let first_page = bytes.start / PAGE_BYTES;
        let pages = bytes.end / PAGE_BYTES - first_page;
        Self(first_page << FIRST_PAGE_SHIFT | pages << PAGES_SHIFT)
    }

    /// The offset of its first byte.
    #[must_use]
    pub fn offset(self) -> u64 {
        (self.0 >> FIRST_PAGE_SHIFT) * PAGE_BYTES
    }

    fn length_bytes(self) -> u64 {
        (self.0 & ((1 << FIRST_PAGE_SHIFT) - 1)) / (1 << PAGES_SHIFT) * PAGE_BYTES
    }

    fn is_absent(self) -> bool {
        self.0 & ABSENT != 0
    }
}

/// The most ranges of a [`WarmList`]: 512 MiB where no two pages are neighbours.
const LISTED_MAX: usize = 1 << 17;

/// Ranges for [`warm_listed`], and its buffer, in memory that is reserved once. All-zero memory is valid: it has none.
#[repr(C)]
pub struct WarmList {
    count: usize,
    ranges: [WarmRange; LISTED_MAX],
    buffer: [MaybeUninit<u8>; RANGE_BYTES_MAX],
}

impl WarmList {
    /// Takes the first of `ranges`, as many as there is room for, in place of those that it has.
    pub fn fill(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        self.count = 0;
        for (place, range) in self.ranges.iter_mut().zip(ranges) {
            *place = WarmRange::new(&range);
            self.count += 1;
        }
    }

    /// [`warm_listed`].
    pub fn warm(
        &mut self,
        descriptor: impl Into<Descriptor>,
        in_flight: usize,
        is_over: impl Fn() -> bool,
    ) -> WarmResult {
        let ranges = self.ranges.get_mut(..self.count).unwrap_or_default();
        warm_listed(descriptor, ranges, &mut self.buffer, in_flight, is_over)
    }

    /// Forgets its ranges, and gives their memory back to the system.
    pub fn give_back(&mut self) {
        self.count = 0;
        let page_bytes = memory::page_bytes() as usize;
        let start = self.ranges.as_mut_ptr().cast::<u8>();
        let first = start.align_offset(page_bytes);
        let whole = (size_of_val(&self.ranges).saturating_sub(first)) / page_bytes * page_bytes;
        // SAFETY: whole pages of `ranges`, which nobody else uses; zeros are valid ranges.
        let _ =
            unsafe { memory::advise(start.wrapping_add(first), whole, memory::ADVICE_DONT_NEED) };
    }
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
    let (mut buffer, mut listed) = (Vec::<u8>::new(), Vec::new());
    buffer.try_reserve_exact(RANGE_BYTES_MAX)?;
    for range in ranges {
        listed.try_reserve(1)?;
        #[expect(clippy::disallowed_methods, reason = "there is room")]
        listed.push(WarmRange::new(&range));
    }
    let buffer = buffer.spare_capacity_mut();
    Ok(warm_listed(
        descriptor,
        &mut listed,
        buffer,
        in_flight,
        is_over,
    ))
}

/// As [`warm`], in memory of the caller's: allocates nothing. `buffer` should have [`RANGE_BYTES_MAX`] bytes. What it
/// holds afterwards is of no use.
pub fn warm_listed(
    descriptor: impl Into<Descriptor>,
    ranges: &mut [WarmRange],
    buffer: &mut [MaybeUninit<u8>],
    in_flight: usize,
    is_over: impl Fn() -> bool,
) -> WarmResult {
    let descriptor = descriptor.into();
    let _ = fadvise::advise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM);
    let in_flight = in_flight.max(1);
    let mut wait = |range: WarmRange| {
        let length = (range.length_bytes() as usize).min(buffer.len());
        let to = buffer.as_mut_ptr().cast();
        // SAFETY: the buffer is writable for that length.
        let _ = unsafe { pread::pread(descriptor, to, length, range.offset()) };
    };
    let mut warmed = WarmResult::default();
    // Ranges before `arrived` that were started have arrived.
    let (mut started, mut arrived) = (0, 0);
    for index in 0..ranges.len() {
        let Some(range) = ranges.get_mut(index) else {
            break;
        };
        if is_over() {
            warmed.cut_short_at = Some(range.offset());
            break;
        }
        let (offset, length) = (range.offset(), range.length_bytes());
        let absent = match residency::of_range(descriptor, offset, length) {
            Ok(found) => found.pages.saturating_sub(found.resident_pages),
            Err(_) => length / PAGE_BYTES,
        };
        if absent == 0 {
            continue;
        }
        range.0 |= ABSENT;
        let _ = fadvise::advise(descriptor, offset, length, libc::POSIX_FADV_WILLNEED);
        warmed.pages += absent;
        started += 1;
        while started >= in_flight
            && let Some(oldest) = ranges.get(arrived).copied()
            && arrived <= index
        {
            arrived += 1;
            if oldest.is_absent() {
                wait(oldest);
                started -= 1;
            }
        }
    }
    let absent = |range: &WarmRange| range.is_absent();
    let not_arrived = ranges.get(arrived..).unwrap_or_default().iter();
    not_arrived.copied().filter(absent).for_each(&mut wait);
    for range in ranges.iter().copied().filter(absent) {
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

    const PAGE: u64 = PAGE_BYTES;

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
