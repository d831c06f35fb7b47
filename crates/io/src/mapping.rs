//! Anonymous memory from the kernel, for maps and windows. The application's allocator may not be
//! called inside an interposed call.
//!
//! A large mapping is a reservation: most of it is never touched. So it stays unlocked ([`unlocked`]), and what
//! `mlockall` has made resident can be given back ([`give_untouched_back`]).

use crate::sys::{Errno, memory, unlocked};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a forked child finds in place of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFork {
    /// Zeros: the child starts with empty state (`MADV_WIPEONFORK`, Linux 4.14).
    Wipe,
    /// Nothing at all (`MADV_DONTFORK`). A page must not be copied while the device may be writing
    /// into it.
    Unmap,
}

/// Mappings from this length on are reservations.
const RESERVATION_BYTES_MIN: usize = 64 << 10;

/// Maps `length_bytes` of zeroed private memory for the life of the process. The system gives each
/// page when it is first touched.
///
/// # Errors
/// The kernel's, such as `ENOMEM`; `EINVAL` before Linux 4.14 with [`OnFork::Wipe`].
pub fn map_for_life(length_bytes: usize, on_fork: OnFork) -> Result<*mut u8, Errno> {
    let is_reservation = length_bytes >= RESERVATION_BYTES_MIN;
    let base = if is_reservation {
        unlocked::map(length_bytes)?
    } else {
        memory::map_anonymous(length_bytes, libc::MAP_NORESERVE)?
    };
    let advice = match on_fork {
        OnFork::Wipe => memory::ADVICE_WIPE_ON_FORK,
        OnFork::Unmap => memory::ADVICE_DONT_FORK,
    };
    // SAFETY: neither advice changes the content that this process sees.
    if let Err(errno) = unsafe { memory::advise(base, length_bytes, advice) } {
        // SAFETY: nobody else uses the mapping yet.
        let _ = unsafe { memory::unmap(base, length_bytes) };
        return Err(errno);
    }
    // A core dump of a database should hold its state, and no copies of its files.
    // SAFETY: as above. If the kernel refuses, nothing else is lost.
    let _ = unsafe { memory::advise(base, length_bytes, memory::ADVICE_DONT_DUMP) };
    if is_reservation {
        unlocked::list(base, length_bytes, on_fork == OnFork::Wipe);
    }
    Ok(base)
}

/// Gives those resident pages back to the system that hold nothing but zeros, and for which `may_give` is true. It gets
/// the range of a page in bytes from `start`.
///
/// # Safety
/// The range is part of a mapping of [`map_for_life`]. Others may read it meanwhile, and write to it by atomics. What
/// they write to a page for which `may_give` is true can be lost.
pub unsafe fn give_untouched_back(
    start: *mut u8,
    length_bytes: usize,
    mut may_give: impl FnMut(Range<usize>) -> bool,
) {
    /// Pages of one question: bounds the vector on the stack.
    const PAGES: usize = 512;
    let page_bytes = memory::page_bytes() as usize;
    let first = start.align_offset(page_bytes);
    let pages = length_bytes.saturating_sub(first) / page_bytes;
    let mut run: Range<usize> = 0..0;
    for chunk in (0..pages).step_by(PAGES) {
        let mut residency = [0; PAGES];
        let chunk_pages = (pages - chunk).min(PAGES);
        let address = start.wrapping_add(first + chunk * page_bytes);
        // SAFETY: part of a mapping, and a byte for each page. If the kernel refuses, no page counts as resident.
        let _ = unsafe { memory::residency(address, chunk_pages * page_bytes, &mut residency) };
        for (index, state) in residency.iter().take(chunk_pages).enumerate() {
            let offset = first + (chunk + index) * page_bytes;
            let page = offset..offset + page_bytes;
            // SAFETY: a page of the mapping.
            let is_given = state & 1 != 0
                && may_give(page.clone())
                && unsafe { is_zero(start.wrapping_add(offset), page_bytes) };
            if !is_given {
                continue;
            }
            if page.start != run.end {
                give_back(start, &run);
                run.start = page.start;
            }
            run.end = page.end;
        }
    }
    give_back(start, &run);
}

/// Whether a page is all zeros. Other threads may write to it by atomics.
///
/// # Safety
/// `page` is a mapped page of that length.
unsafe fn is_zero(page: *const u8, page_bytes: usize) -> bool {
    let count = page_bytes / size_of::<AtomicU64>();
    // SAFETY: a page is aligned, and the caller vouches for its length.
    let words = unsafe { std::slice::from_raw_parts(page.cast::<AtomicU64>(), count) };
    words.iter().all(|word| word.load(Ordering::Relaxed) == 0)
}

/// Gives a range of zeros back, unless it is empty.
fn give_back(start: *mut u8, range: &Range<usize>) {
    if !range.is_empty() {
        // SAFETY: zeros become zeros; the caller of `give_untouched_back` vouches for the range.
        let _ = unsafe {
            memory::advise(
                start.wrapping_add(range.start),
                range.len(),
                memory::ADVICE_DONT_NEED,
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of a range that are resident.
    fn resident(start: *mut u8, pages: usize) -> Vec<bool> {
        let mut vector = vec![0; pages];
        // SAFETY: the mapping is this test's.
        unsafe { memory::residency(start, pages * 4096, &mut vector) }.unwrap();
        vector.iter().map(|state| state & 1 != 0).collect()
    }

    #[test]
    fn only_zeros_that_may_go_are_given_back() {
        let page_bytes = memory::page_bytes() as usize;
        if page_bytes != 4096 {
            return;
        }
        let start = map_for_life(32 * 4096, OnFork::Wipe).unwrap();
        // SAFETY: the mapping is this test's.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, 32 * 4096) };
        bytes.fill(1);
        bytes.fill(0);
        bytes[5 * 4096 + 77] = 1;
        // SAFETY: as above.
        unsafe {
            give_untouched_back(start.wrapping_add(1), 31 * 4096, |page| {
                page != (9 * 4096 - 1..10 * 4096 - 1)
            });
        }
        let kept: Vec<usize> = (0..32).filter(|page| resident(start, 32)[*page]).collect();
        // The first page and the last one are not whole.
        assert_eq!(kept, [0, 5, 9, 31]);
        assert_eq!(bytes[5 * 4096 + 77], 1);
    }
}
