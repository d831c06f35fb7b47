//! Page-cache statistics of a range: `cachestat(2)`, Linux 6.5 (`mm/filemap.c`,
//! `include/uapi/linux/mman.h`). It has no man page.

use super::avoid::SYS_CACHESTAT;
use super::raw::syscall;
use super::{Descriptor, Errno};

/// What `cachestat(2)` reports of a range (`struct cachestat`), in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CacheStatistics {
    /// Pages in the page cache.
    pub cached_pages: u64,
    /// Dirty pages among them.
    pub dirty_pages: u64,
    /// Pages under writeback among them.
    pub writeback_pages: u64,
    /// Evicted pages.
    pub evicted_pages: u64,
    /// Pages that were evicted a short time ago: reading them again is a refault.
    pub recently_evicted_pages: u64,
}

/// `cachestat(2)` of `length_bytes` from `offset` on (0 bytes: to the end of the file).
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` if the caller neither owns the file nor may write to it.
pub fn cache_statistics(
    descriptor: impl Into<Descriptor>,
    offset: u64,
    length_bytes: u64,
) -> Result<CacheStatistics, Errno> {
    let range = [offset, length_bytes];
    let mut statistics = CacheStatistics::default();
    // SAFETY: the kernel reads two words and writes five at these addresses.
    let result = unsafe {
        syscall(
            SYS_CACHESTAT,
            [
                descriptor.into().argument(),
                range.as_ptr() as usize,
                &raw mut statistics as usize,
                0,
            ],
        )
    };
    Errno::check(result).map(|_| statistics)
}
