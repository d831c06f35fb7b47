//! The file behind a descriptor, by its link in `/proc/self/fd` (`proc_pid_fd(5)`).
//!
//! The link leads to the inode itself, whatever happened to the file's name since it was opened.

use crate::sys::{Errno, file};

/// Opens the inode behind `descriptor` once more with `flags`, whatever became of its name.
/// Costs a look-up in `/proc`; fails where `/proc` is not mounted.
pub fn reopen(descriptor: i32, flags: i32) -> Result<i32, Errno> {
    with_link(descriptor, |link| file::open(link, flags, 0))
}

/// The path by which the file behind `descriptor` can be reached at present, in `path`; its length
/// in bytes. That of a deleted file has a remark behind it.
pub fn path_of(descriptor: i32, path: &mut [u8]) -> Result<usize, Errno> {
    with_link(descriptor, |link| file::read_link(link, path))
}

/// Gives `/proc/self/fd/…` to `work`.
fn with_link<T>(
    descriptor: i32,
    work: impl FnOnce(&std::ffi::CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut path = [0_u8; 32];
    let prefix = b"/proc/self/fd/";
    path[..prefix.len()].copy_from_slice(prefix);
    let mut digits = [0_u8; 10];
    let mut number = u32::try_from(descriptor).map_err(|_| Errno(libc::EBADF))?;
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
    let path = std::ffi::CStr::from_bytes_until_nul(&path).map_err(|_| Errno(libc::EBADF))?;
    work(path)
}
