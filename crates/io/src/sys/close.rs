//! Closing descriptors: [`close(2)`](https://man7.org/linux/man-pages/man2/close.2.html) and
//! [`close_range(2)`](https://man7.org/linux/man-pages/man2/close_range.2.html).

use super::avoid;
use super::raw::syscall;
use super::{Descriptor, Errno};

/// `CLOSE_RANGE_UNSHARE` (`include/uapi/linux/close_range.h`).
const CLOSE_RANGE_UNSHARE: usize = 1 << 1;

/// `close(2)`. The caller must own the descriptor.
///
/// # Errors
/// The kernel's. Except for `EBADF`, the descriptor is closed even then.
pub fn close(descriptor: impl Into<Descriptor>) -> Result<(), Errno> {
    // SAFETY: closing a number is memory-safe.
    let result = unsafe { syscall(libc::SYS_close, [descriptor.into().argument()]) };
    Errno::check(result).map(drop)
}

/// `close_range(2)` with `CLOSE_RANGE_UNSHARE` (Linux 5.9): gives the calling thread an empty
/// descriptor table of its own.
///
/// No other thread shares the descriptors of this table. Closing one drops none of the process's record
/// locks, because these belong to the other table.
///
/// # Errors
/// `ENOSYS` on older kernels, `EPERM` under a filter. Nothing has changed then.
pub fn take_empty_descriptor_table() -> Result<(), Errno> {
    let (first, last) = (0, u32::MAX as usize);
    // SAFETY: closes descriptors only in the table that the calling thread has alone afterwards.
    let result = unsafe { syscall(libc::SYS_close_range, [first, last, CLOSE_RANGE_UNSHARE]) };
    Errno::check(result).map(drop)
}

/// Whether `close_range(2)` (Linux 5.9) may be called. It is tried with a number that no descriptor
/// has. If it is avoided, the answer is yes: a filter that kills for it leaves nobody who could be wrong.
pub fn may_close_ranges() -> bool {
    if avoid::is_avoided(libc::SYS_close_range) {
        return true;
    }
    let last = u32::MAX as usize;
    // SAFETY: closes nothing.
    let result = unsafe { syscall(libc::SYS_close_range, [last, last, 0]) };
    Errno::check(result).is_ok()
}
