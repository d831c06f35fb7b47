//! Memory that stays resident: [`mlock(2)`](https://man7.org/linux/man-pages/man2/mlock.2.html),
//! [`munlock(2)`](https://man7.org/linux/man-pages/man2/munlock.2.html) and
//! [`mlockall(2)`](https://man7.org/linux/man-pages/man2/mlockall.2.html). None of these changes a byte.

use super::Errno;
use super::raw::syscall;

/// `mlock(2)`, or `mlock2(2)` with `MLOCK_ONFAULT` (Linux 4.4): pages become resident when they are touched.
///
/// # Errors
/// The kernel's, such as `ENOMEM` at the limit, or for memory that nobody may use.
pub fn lock(start: u64, length_bytes: u64, is_on_fault: bool) -> Result<(), Errno> {
    let (call, flags) = if is_on_fault {
        (libc::SYS_mlock2, libc::MLOCK_ONFAULT as usize)
    } else {
        (libc::SYS_mlock, 0)
    };
    // SAFETY: changes no byte of any range.
    let result = unsafe { syscall(call, [start as usize, length_bytes as usize, flags]) };
    Errno::check(result).map(drop)
}

/// `munlock(2)`: what is resident stays so, but may be swapped out again.
///
/// # Errors
/// The kernel's, such as `ENOMEM` where nothing is mapped.
pub fn unlock(start: *mut u8, length_bytes: usize) -> Result<(), Errno> {
    // SAFETY: as above.
    let result = unsafe { syscall(libc::SYS_munlock, [start as usize, length_bytes]) };
    Errno::check(result).map(drop)
}

/// `mlockall(2)`.
///
/// # Errors
/// The kernel's, such as `EPERM` or `ENOMEM`.
pub fn lock_everything(flags: i32) -> Result<(), Errno> {
    // SAFETY: as above.
    let result = unsafe { syscall(libc::SYS_mlockall, [flags as usize]) };
    Errno::check(result).map(drop)
}

/// `munlockall(2)`.
///
/// # Errors
/// The kernel's: `EINTR` if the process is being killed.
pub fn unlock_everything() -> Result<(), Errno> {
    // SAFETY: as above.
    let result = unsafe { syscall(libc::SYS_munlockall, []) };
    Errno::check(result).map(drop)
}
