//! The calling thread's `errno`, which Coldstream's own work must not disturb.

use std::ffi::c_int;

/// Restores `errno` when dropped.
pub(crate) struct ErrnoGuard(c_int);

impl ErrnoGuard {
    pub(crate) fn new() -> Self {
        Self(get())
    }
}

impl Drop for ErrnoGuard {
    fn drop(&mut self) {
        set(self.0);
    }
}

pub(crate) fn get() -> c_int {
    // SAFETY: libc returns the address of this thread's errno.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
