//! The file position: [`lseek(2)`](https://man7.org/linux/man-pages/man2/lseek.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// `lseek(2)` with `SEEK_CUR`: the file position.
///
/// # Errors
/// `EBADF`, `ESPIPE`.
pub fn position(descriptor: impl Into<Descriptor>) -> Result<u64, Errno> {
    let current = libc::SEEK_CUR as usize;
    // SAFETY: no memory is passed.
    let result = unsafe { syscall(libc::SYS_lseek, [descriptor.into().argument(), 0, current]) };
    Errno::check(result).map(|position| position as u64)
}

/// `lseek(2)` with `SEEK_SET`: moves the file position to `position`.
///
/// # Errors
/// The kernel's, such as `EBADF` or `ESPIPE`.
pub fn set_position(descriptor: impl Into<Descriptor>, position: u64) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    let result = unsafe {
        syscall(
            libc::SYS_lseek,
            [
                descriptor.into().argument(),
                position as usize,
                libc::SEEK_SET as usize,
            ],
        )
    };
    Errno::check(result).map(drop)
}
