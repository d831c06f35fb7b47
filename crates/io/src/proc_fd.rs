//! The file behind a descriptor, by its link in `/proc/self/fd` (`proc_pid_fd(5)`).
//!
//! The link leads to the inode itself, whatever happened to the file's name since it was opened.

use crate::sys::{Descriptor, Errno, open, path};
use std::ffi::CStr;

/// Opens the inode of `descriptor` once more with `flags`. The caller closes the new descriptor.
///
/// # Errors
/// The kernel's; `ENOENT` if `/proc` is not mounted.
pub fn reopen(descriptor: impl Into<Descriptor>, flags: i32) -> Result<i32, Errno> {
    with_link(descriptor.into(), |link| open::open(link, flags, 0))
}

/// Writes the present path of the file of `descriptor` into `path`, and returns its length in bytes.
/// The kernel appends ` (deleted)` to the path of a deleted file.
///
/// # Errors
/// The kernel's; `ENOENT` if `/proc` is not mounted.
pub fn path_of(descriptor: impl Into<Descriptor>, path: &mut [u8]) -> Result<usize, Errno> {
    with_link(descriptor.into(), |link| path::read_link(link, path))
}

/// Calls `work` with the path `/proc/self/fd/…`. It formats the number by hand: `format!` would
/// allocate.
fn with_link<T>(
    descriptor: Descriptor,
    work: impl FnOnce(&CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut path = [0_u8; 32];
    let prefix = b"/proc/self/fd/";
    path[..prefix.len()].copy_from_slice(prefix);
    let mut digits = [0_u8; 10];
    let mut number = u32::try_from(descriptor.number()).map_err(|_| Errno(libc::EBADF))?;
    let mut count = 0;
    loop {
        digits[count] = b'0' + (number % 10) as u8;
        number /= 10;
        count += 1;
        if number == 0 {
            break;
        }
    }
    for (place, digit) in digits[..count].iter().rev().enumerate() {
        path[prefix.len() + place] = *digit;
    }
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno(libc::EBADF))?;
    work(path)
}
