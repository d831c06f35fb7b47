//! Residency of a mapping: [`mincore(2)`](https://man7.org/linux/man-pages/man2/mincore.2.html).

use super::Errno;
use super::raw::syscall;

/// `mincore(2)`: writes one byte a page into `residency`, with the lowest bit set if the page is
/// resident.
///
/// # Safety
/// `address` must be a mapping of `length_bytes`; `residency` has one byte for each page of it.
///
/// # Errors
/// The kernel's, such as `ENOMEM` where nothing is mapped.
pub unsafe fn residency(
    address: *mut u8,
    length_bytes: usize,
    residency: &mut [u8],
) -> Result<(), Errno> {
    // SAFETY: the caller vouches for the range and the length of `residency`.
    let result = unsafe {
        syscall(
            libc::SYS_mincore,
            [
                address as usize,
                length_bytes,
                residency.as_mut_ptr() as usize,
            ],
        )
    };
    Errno::check(result).map(drop)
}
