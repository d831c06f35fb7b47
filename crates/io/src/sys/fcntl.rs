//! Flags and duplicates of a descriptor:
//! [`fcntl(2)`](https://man7.org/linux/man-pages/man2/fcntl.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// `fcntl(2)` with `F_GETFL`: access mode and status flags of the open file, such as `O_DIRECT`.
///
/// # Errors
/// `EBADF` if the number names no open file.
pub fn status_flags(descriptor: impl Into<Descriptor>) -> Result<i32, Errno> {
    fcntl(descriptor.into(), libc::F_GETFL, 0)
}

/// `fcntl(2)` with `F_GETFD`: whether `execve(2)` closes the descriptor.
///
/// # Errors
/// `EBADF` if the number names no open file.
pub fn is_closed_at_exec(descriptor: impl Into<Descriptor>) -> Result<bool, Errno> {
    fcntl(descriptor.into(), libc::F_GETFD, 0).map(|flags| flags & libc::FD_CLOEXEC != 0)
}

/// `O_NOATIME` if the descriptor has it, and 0 otherwise. A second descriptor for the same reader
/// must leave the access time alone, too.
pub fn access_time_flag(descriptor: impl Into<Descriptor>) -> i32 {
    status_flags(descriptor).map_or(0, |flags| flags & libc::O_NOATIME)
}

/// `fcntl(2)` with `F_DUPFD_CLOEXEC`: a duplicate with the first free number from `lowest` on.
/// `execve(2)` closes it.
///
/// # Errors
/// `EMFILE` if there is no such number; `EBADF`.
pub fn duplicate_above(descriptor: impl Into<Descriptor>, lowest: i32) -> Result<i32, Errno> {
    fcntl(descriptor.into(), libc::F_DUPFD_CLOEXEC, lowest)
}

/// `fcntl(2)` with a command that takes a number and no pointer.
fn fcntl(descriptor: Descriptor, command: i32, argument: i32) -> Result<i32, Errno> {
    // SAFETY: the command takes numbers only.
    let result = unsafe {
        syscall(
            libc::SYS_fcntl,
            [descriptor.argument(), command as usize, argument as usize],
        )
    };
    Errno::check(result).map(|result| result as i32)
}
