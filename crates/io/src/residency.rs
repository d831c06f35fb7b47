//! Which pages of a file are in the page cache.
//!
//! `cachestat(2)` (Linux 6.5) answers for a range in one call. Older kernels need `mincore(2)` on a
//! mapping. Both need ownership of the file, or write permission. To other callers `mincore` reports
//! every page as resident (since Linux 5.2): Coldstream then leaves the pages alone.

use crate::alignment::PAGE_BYTES;
use crate::sys::cachestat::{CacheStatistics, cache_statistics};
use crate::sys::{Descriptor, Errno, memory};

/// How much of a range is resident, in pages of 4 KiB. A larger page of the kernel's counts as
/// several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Pages of the range that are in the page cache.
    pub resident_pages: u64,
    /// Dirty pages and pages under writeback among them. `None` if the kernel cannot say.
    pub unwritten_pages: Option<u64>,
    /// Pages of the range.
    pub pages: u64,
}

impl Residency {
    /// Whether a read of the whole range needs nothing from the device.
    pub fn is_complete(&self) -> bool {
        self.resident_pages >= self.pages
    }
}

/// Pages that `length_bytes` from a page-aligned offset on touch.
fn pages_of(length_bytes: u64) -> u64 {
    length_bytes.div_ceil(PAGE_BYTES)
}

/// Converts what the kernel counts in pages of `page_bytes`.
fn of_statistics(statistics: &CacheStatistics, length_bytes: u64, page_bytes: u64) -> Residency {
    let each = page_bytes / PAGE_BYTES;
    Residency {
        resident_pages: statistics.cached_pages * each,
        unwritten_pages: Some((statistics.dirty_pages + statistics.writeback_pages) * each),
        pages: length_bytes.div_ceil(page_bytes) * each,
    }
}

/// Residency of a range. `offset` is rounded down to a page.
///
/// # Errors
/// The kernel's, such as `EBADF`; those of [`each_page`] where there is no `cachestat(2)`.
pub fn of_range(
    descriptor: impl Into<Descriptor>,
    offset: u64,
    length_bytes: u64,
) -> Result<Residency, Errno> {
    let descriptor = descriptor.into();
    match of_range_for_certain(descriptor, offset, length_bytes) {
        Ok(residency) => Ok(residency),
        Err(Errno(libc::ENOSYS | libc::EPERM)) => {
            let (start, length_bytes) = from_page(offset, length_bytes);
            let mut resident_pages = 0;
            each_page(descriptor, start, length_bytes, |_, resident| {
                resident_pages += u64::from(resident);
            })?;
            Ok(Residency {
                resident_pages,
                unwritten_pages: None,
                pages: pages_of(length_bytes),
            })
        }
        Err(errno) => Err(errno),
    }
}

/// As [`of_range`], by `cachestat(2)` only: `mincore(2)` may report every page as resident. Pages count that are on their
/// way into the page cache.
///
/// # Errors
/// The kernel's, such as `EPERM` or `ENOSYS`.
pub fn of_range_for_certain(
    descriptor: impl Into<Descriptor>,
    offset: u64,
    length_bytes: u64,
) -> Result<Residency, Errno> {
    let (start, length_bytes) = from_page(offset, length_bytes);
    let statistics = cache_statistics(descriptor, start, length_bytes)?;
    Ok(of_statistics(
        &statistics,
        length_bytes,
        memory::page_bytes(),
    ))
}

/// A range from the beginning of its first page on: its start and its length, in bytes.
fn from_page(offset: u64, length_bytes: u64) -> (u64, u64) {
    let start = offset & !(memory::page_bytes() - 1);
    (start, length_bytes + (offset - start))
}

/// Calls `visit(page offset in bytes, resident)` for each page of a range, by `mincore(2)`.
/// `offset` must be page-aligned. The range may end behind the file: pages there are absent.
///
/// # Errors
/// `EOPNOTSUPP` if the kernel's pages are larger than 4 KiB; the kernel's, such as `EACCES`.
pub fn each_page(
    descriptor: impl Into<Descriptor>,
    offset: u64,
    length_bytes: u64,
    mut visit: impl FnMut(u64, bool),
) -> Result<(), Errno> {
    /// Pages of one call: bounds the vector on the stack.
    const CHUNK_PAGES: usize = 1024;
    let descriptor = descriptor.into();
    if memory::page_bytes() != PAGE_BYTES {
        // The kernel would answer for its larger pages, and leave the rest of the vector unchanged.
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let mut done = 0;
    while done < length_bytes {
        let chunk_bytes = (length_bytes - done).min(CHUNK_PAGES as u64 * PAGE_BYTES);
        let pages = pages_of(chunk_bytes) as usize;
        let mut vector = [0_u8; CHUNK_PAGES];
        let mapped = memory::map(
            pages * PAGE_BYTES as usize,
            // A mapping that can be read is read from the device at once where future mappings are locked.
            libc::PROT_NONE,
            libc::MAP_SHARED,
            descriptor,
            offset + done,
        )?;
        // SAFETY: the mapping has `pages` pages, and the slice has at least `pages` bytes.
        let result = unsafe { memory::residency(mapped, pages * PAGE_BYTES as usize, &mut vector) };
        // SAFETY: mapped here, used by nobody else.
        let _ = unsafe { memory::unmap(mapped, pages * PAGE_BYTES as usize) };
        result?;
        for (page, state) in vector.iter().take(pages).enumerate() {
            visit(offset + done + page as u64 * PAGE_BYTES, state & 1 != 0);
        }
        done += chunk_bytes;
    }
    Ok(())
}

/// As [`each_page`], for a mapping of the application: `visit(offset in the mapping, resident)`. It needs no
/// descriptor and makes no mapping. The application may unmap it meanwhile.
///
/// # Errors
/// `EOPNOTSUPP` if the kernel's pages are larger than 4 KiB; the kernel's, such as `ENOMEM` where nothing is
/// mapped any more.
pub fn each_mapped_page(
    address: usize,
    length_bytes: usize,
    mut visit: impl FnMut(u64, bool),
) -> Result<(), Errno> {
    const CHUNK_PAGES: usize = 1024;
    if memory::page_bytes() != PAGE_BYTES {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let mut done = 0;
    while done < length_bytes {
        let chunk_bytes = (length_bytes - done).min(CHUNK_PAGES * PAGE_BYTES as usize);
        let pages = pages_of(chunk_bytes as u64) as usize;
        let mut vector = [0_u8; CHUNK_PAGES];
        let chunk = (address + done) as *mut u8;
        // SAFETY: the kernel answers for any range of addresses, and the vector has a byte for each page.
        unsafe { memory::residency(chunk, pages * PAGE_BYTES as usize, &mut vector)? };
        for (page, state) in vector.iter().take(pages).enumerate() {
            visit((done + page * PAGE_BYTES as usize) as u64, state & 1 != 0);
        }
        done += chunk_bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_pages_count_in_pages_of_4_kib() {
        let statistics = CacheStatistics {
            cached_pages: 16,
            dirty_pages: 1,
            ..CacheStatistics::default()
        };
        let found = of_statistics(&statistics, 1 << 20, 64 << 10);
        assert!(found.is_complete());
        assert_eq!((found.pages, found.resident_pages), (256, 256));
        assert_eq!(found.unwritten_pages, Some(16));
        assert!(!of_statistics(&statistics, (1 << 20) + 1, 64 << 10).is_complete());
        assert!(!of_statistics(&statistics, 1 << 20, 4096).is_complete());
    }
}
