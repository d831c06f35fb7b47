//! Opening a file: [`open(2)`](https://man7.org/linux/man-pages/man2/open.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};
use std::ffi::CStr;

/// `openat(2)` relative to the current directory, always with `O_CLOEXEC`. The caller closes the
/// descriptor.
///
/// `mode` has the permission bits of a file that the call creates.
///
/// # Errors
/// The kernel's, such as `ENOENT`, `EACCES` or `EMFILE`.
pub fn open(path: &CStr, flags: i32, mode: u32) -> Result<i32, Errno> {
    // SAFETY: `path` is a NUL-terminated string.
    let result = unsafe {
        syscall(
            libc::SYS_openat,
            [
                Descriptor::from(libc::AT_FDCWD).argument(),
                path.as_ptr() as usize,
                (flags | libc::O_CLOEXEC) as usize,
                mode as usize,
            ],
        )
    };
    Errno::check(result).map(|descriptor| descriptor as i32)
}
