//! Names of files: [`readlink(2)`](https://man7.org/linux/man-pages/man2/readlink.2.html),
//! [`mkdir(2)`](https://man7.org/linux/man-pages/man2/mkdir.2.html) and
//! [`unlink(2)`](https://man7.org/linux/man-pages/man2/unlink.2.html), relative to the current
//! directory.

use super::raw::syscall;
use super::{Descriptor, Errno};
use std::ffi::CStr;

/// `readlinkat(2)`: the bytes of a symbolic link's content that fit into `content`.
///
/// # Errors
/// The kernel's, such as `ENOENT` or `EINVAL`.
pub fn read_link(path: &CStr, content: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: `path` is a NUL-terminated string, and the kernel writes within `content`.
    Errno::check(unsafe {
        syscall(
            libc::SYS_readlinkat,
            [
                current_directory(),
                path.as_ptr() as usize,
                content.as_mut_ptr() as usize,
                content.len(),
            ],
        )
    })
}

/// `mkdirat(2)`: makes a directory with the permission bits `mode`.
///
/// # Errors
/// The kernel's, such as `EEXIST`.
pub fn make_directory(path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: `path` is a NUL-terminated string.
    let result = unsafe {
        syscall(
            libc::SYS_mkdirat,
            [current_directory(), path.as_ptr() as usize, mode as usize],
        )
    };
    Errno::check(result).map(drop)
}

/// `unlinkat(2)`: removes the name of a file.
///
/// # Errors
/// The kernel's, such as `ENOENT`.
pub fn unlink(path: &CStr) -> Result<(), Errno> {
    unlink_with_flags(path, 0)
}

/// `unlinkat(2)` with `AT_REMOVEDIR`: removes an empty directory.
///
/// # Errors
/// The kernel's, such as `ENOTEMPTY`.
pub fn remove_directory(path: &CStr) -> Result<(), Errno> {
    unlink_with_flags(path, libc::AT_REMOVEDIR)
}

fn unlink_with_flags(path: &CStr, flags: i32) -> Result<(), Errno> {
    // SAFETY: `path` is a NUL-terminated string.
    let result = unsafe {
        syscall(
            libc::SYS_unlinkat,
            [current_directory(), path.as_ptr() as usize, flags as usize],
        )
    };
    Errno::check(result).map(drop)
}

fn current_directory() -> usize {
    Descriptor::from(libc::AT_FDCWD).argument()
}
