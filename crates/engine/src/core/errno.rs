//! The calling thread's `errno`, which Coldstream's own work must not disturb.

use std::ffi::c_int;

/// Restores `errno` when dropped.
pub struct ErrnoGuard(c_int);

impl Default for ErrnoGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl ErrnoGuard {
    /// Keeps the present `errno`.
    pub fn new() -> Self {
        Self(get())
    }
}

impl Drop for ErrnoGuard {
    fn drop(&mut self) {
        set(self.0);
    }
}

/// The calling thread's `errno`.
pub fn get() -> c_int {
    // SAFETY: libc returns the address of this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
