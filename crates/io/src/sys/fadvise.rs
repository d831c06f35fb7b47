//! Advice about future reads:
//! [`posix_fadvise(2)`](https://man7.org/linux/man-pages/man2/posix_fadvise.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// `fadvise64(2)` for `length_bytes` from `offset` on (0 bytes: to the end of the file), with an
/// advice `POSIX_FADV_*`.
///
/// # Errors
/// The kernel's, such as `EBADF` or, for a pipe, `ESPIPE`.
pub fn advise(
    descriptor: impl Into<Descriptor>,
    offset: u64,
    length_bytes: u64,
    advice: i32,
) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    let result = unsafe {
        syscall(
            libc::SYS_fadvise64,
            [
                descriptor.into().argument(),
                offset as usize,
                length_bytes as usize,
                advice as usize,
            ],
        )
    };
    Errno::check(result).map(drop)
}
