//! The border to C: no panic crosses it, `errno` stays as it is, and results are numbers.

use coldstream_engine::core::errno::ErrnoGuard;
use coldstream_engine::core::heap;
use coldstream_io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a C function. After a panic, which is a defect, the result is `on_panic`.
pub(crate) fn guarded<T>(on_panic: T, body: impl FnOnce() -> T) -> T {
    let _errno = ErrnoGuard::new();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(on_panic)
}

/// Runs the body of a function whose result is 0 or a negative error.
pub(crate) fn status(body: impl FnOnce() -> Result<(), Errno>) -> i32 {
    guarded(-libc::EIO, || body().map_or_else(|errno| -errno.0, |()| 0))
}

/// Runs the body of a function that makes a handle, and puts the handle where `place` points to. After an error there is
/// NULL.
///
/// # Safety
/// The place is null or writable.
pub(crate) unsafe fn made<T>(place: *mut *mut T, body: impl FnOnce() -> Result<T, Errno>) -> i32 {
    if place.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: not null, and the caller's.
    unsafe { place.write(std::ptr::null_mut()) };
    status(|| {
        let made = heap::boxed(body()?).ok_or(Errno(libc::ENOMEM))?;
        // SAFETY: as above.
        unsafe { place.write(Box::into_raw(made)) };
        Ok(())
    })
}

/// Runs the body of a function whose result is a count or a negative error.
pub(crate) fn count(body: impl FnOnce() -> Result<u64, Errno>) -> i64 {
    guarded(-i64::from(libc::EIO), || match body() {
        Ok(count) => i64::try_from(count).unwrap_or(i64::MAX),
        Err(errno) => -i64::from(errno.0),
    })
}

/// What a handle of C points to.
///
/// # Errors
/// `EINVAL`: it is null.
///
/// # Safety
/// It is null, or was returned by this library and not closed since.
pub(crate) unsafe fn handle<'a, T>(handle: *const T) -> Result<&'a T, Errno> {
    // SAFETY: passed on.
    unsafe { handle.as_ref() }.ok_or(Errno(libc::EINVAL))
}
