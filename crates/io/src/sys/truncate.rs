//! The size of a file: [`ftruncate(2)`](https://man7.org/linux/man-pages/man2/ftruncate.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// `ftruncate(2)`: cuts the file, or extends it with a hole, to `size_bytes`.
///
/// # Errors
/// The kernel's, such as `EBADF` or `EINVAL`.
pub fn truncate(descriptor: impl Into<Descriptor>, size_bytes: u64) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    let result = unsafe {
        syscall(
            libc::SYS_ftruncate,
            [descriptor.into().argument(), size_bytes as usize],
        )
    };
    Errno::check(result).map(drop)
}
