//! The filesystem of a file: [`statfs(2)`](https://man7.org/linux/man-pages/man2/statfs.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};
use std::mem::MaybeUninit;

/// `fstatfs(2)`: the type of the filesystem that an open file lives on (`f_type`).
///
/// # Errors
/// The kernel's, such as `EBADF`.
#[allow(
    clippy::unnecessary_cast,
    reason = "musl has another type for it than glibc"
)]
pub fn filesystem_type(descriptor: impl Into<Descriptor>) -> Result<i64, Errno> {
    let mut status = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the kernel writes one `struct statfs`, for which there is room.
    let result = unsafe {
        syscall(
            libc::SYS_fstatfs,
            [descriptor.into().argument(), status.as_mut_ptr() as usize],
        )
    };
    Errno::check(result)?;
    // SAFETY: the call succeeded, so the structure is filled.
    Ok(unsafe { status.assume_init() }.f_type as i64)
}
