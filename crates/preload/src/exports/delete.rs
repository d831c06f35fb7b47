//! `unlink(2)`, `unlinkat(2)` and `remove(3)`: the space of a deleted SSTable must not be held by Coldstream.

use super::next::interpose;
use coldstream_engine::core::errno::ErrnoGuard;
use coldstream_engine::runtime;
use coldstream_io::sys::file;
use libc::{c_char, c_int};

/// Deletes the file at `path`, relative to `at`.
///
/// # Safety
/// `path` is the application's, for the kernel to read.
unsafe fn delete(at: c_int, path: *const c_char, next: impl FnOnce() -> c_int) -> c_int {
    let Some(runtime) = runtime::get().filter(|runtime| runtime.sweeps_at_deletion()) else {
        return next();
    };
    let device = {
        let _errno = ErrnoGuard::new();
        // SAFETY: passed on.
        unsafe { file::device_of_link(at, path) }
    };
    let result = next();
    if result == 0
        && let Ok(device) = device
    {
        runtime.deleted(device);
    }
    result
}

interpose! {
    fn unlink | remove(path: *const c_char) -> c_int |next| {
        // SAFETY: the application's argument.
        unsafe { delete(libc::AT_FDCWD, path, next) }
    }
    fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int |next| {
        // SAFETY: the application's argument.
        unsafe { delete(at, path, next) }
    }
}
