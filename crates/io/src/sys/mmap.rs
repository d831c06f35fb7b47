//! Mappings: [`mmap(2)`](https://man7.org/linux/man-pages/man2/mmap.2.html) and
//! [`munmap(2)`](https://man7.org/linux/man-pages/man2/munmap.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// Bytes of the kernel's pages: 4 KiB, or on aarch64 perhaps 16 or 64 KiB
/// ([`getauxval(3)`](https://man7.org/linux/man-pages/man3/getauxval.3.html)).
pub fn page_bytes() -> u64 {
    // SAFETY: reads the auxiliary vector, which never changes; any type may be asked for.
    unsafe { libc::getauxval(libc::AT_PAGESZ) }
}

/// `mmap(2)` of a file, at an address that the kernel chooses. `offset` is a multiple of
/// [`page_bytes`].
///
/// # Errors
/// The kernel's, such as `EACCES`, `ENODEV` or `ENOMEM`.
pub fn map(
    length_bytes: usize,
    protection: i32,
    flags: i32,
    descriptor: impl Into<Descriptor>,
    offset: u64,
) -> Result<*mut u8, Errno> {
    // SAFETY: without MAP_FIXED no existing mapping is touched.
    let result = unsafe {
        syscall(
            libc::SYS_mmap,
            [
                0,
                length_bytes,
                protection as usize,
                (flags & !libc::MAP_FIXED) as usize,
                descriptor.into().argument(),
                offset as usize,
            ],
        )
    };
    Errno::check(result).map(|address| address as *mut u8)
}

/// `mmap(2)` of zeroed memory that belongs to this process alone, with further `MAP_*` flags.
///
/// # Errors
/// The kernel's, such as `ENOMEM`.
pub fn map_anonymous(length_bytes: usize, more_flags: i32) -> Result<*mut u8, Errno> {
    const NO_FILE: i32 = -1;
    map(
        length_bytes,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more_flags,
        NO_FILE,
        0,
    )
}

/// [`mremap(2)`](https://man7.org/linux/man-pages/man2/mremap.2.html): makes a mapping longer. It may move. What is
/// added has the properties of what was there: protection, advice, and whether it is locked.
///
/// # Safety
/// The range must be a mapping of which nobody keeps an address.
///
/// # Errors
/// The kernel's, such as `ENOMEM`.
pub unsafe fn grow(
    address: *mut u8,
    length_bytes: usize,
    new_length_bytes: usize,
) -> Result<*mut u8, Errno> {
    // SAFETY: the caller vouches for the range.
    let result = unsafe {
        syscall(
            libc::SYS_mremap,
            [
                address as usize,
                length_bytes,
                new_length_bytes,
                libc::MREMAP_MAYMOVE as usize,
            ],
        )
    };
    Errno::check(result).map(|address| address as *mut u8)
}

/// `munmap(2)`.
///
/// # Safety
/// Nothing may use the range any more.
///
/// # Errors
/// `EINVAL` for a bad range.
pub unsafe fn unmap(address: *mut u8, length_bytes: usize) -> Result<(), Errno> {
    // SAFETY: the caller vouches for the range.
    let result = unsafe { syscall(libc::SYS_munmap, [address as usize, length_bytes]) };
    Errno::check(result).map(drop)
}
