//! Answers to the application: the plain call's result, or an error that Coldstream reports.

use coldstream_engine::core::errno;
use coldstream_engine::runtime::{self, Runtime};
use coldstream_io::Errno;
use libc::c_int;

/// Makes a call that names a descriptor. If the descriptor is Coldstream's own, the call fails with `EBADF`:
/// the application sees a closed descriptor.
#[inline]
pub(super) fn unless_private<T: From<i8>>(descriptor: c_int, call: impl FnOnce() -> T) -> T {
    if runtime::get().is_some_and(|runtime| runtime.core.is_private(descriptor)) {
        return not_open();
    }
    call()
}

/// The result of a call on a number that is not open.
#[cold]
pub(super) fn not_open<T: From<i8>>() -> T {
    errno::set(libc::EBADF);
    T::from(-1)
}

/// Makes a call that opens a descriptor. If the process has none left, closes Coldstream's own ones and makes
/// the call again.
#[inline]
pub(super) fn with_room(call: impl Fn() -> c_int) -> c_int {
    let result = call();
    if result < 0
        && errno::get() == libc::EMFILE
        && runtime::get().is_some_and(Runtime::free_descriptors)
    {
        return call();
    }
    result
}

/// A delayed write failed: the call is not made, its result is -1, and errno says why.
pub(super) struct Failed;

/// The result of `call`, unless the step before it has failed.
#[inline]
pub(super) fn unless_failed<T: From<i8>>(
    before: Result<(), Failed>,
    call: impl FnOnce() -> T,
) -> T {
    match before {
        Ok(()) => call(),
        Err(Failed) => T::from(-1),
    }
}

/// Sets errno to the error of a delayed write.
pub(super) fn report_to_caller<T>(before: Result<T, Errno>) -> Result<T, Failed> {
    before.map_err(|failed| {
        errno::set(failed.0);
        Failed
    })
}
