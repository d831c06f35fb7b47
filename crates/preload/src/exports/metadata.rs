//! Calls that observe or move a table: positions, sizes, names. Background reads are served by
//! position, current size and identity, so that they need nothing here; bytes that are staged go
//! to the kernel first.

use super::{hidden, staged};
use crate::next::interpose;
use coldstream_control::Counter;
use coldstream_io::append::Operation;
use libc::{c_char, c_int, c_uint, c_void, off_t, off64_t};

/// Looks at a descriptor.
#[inline]
fn seen(descriptor: c_int, next: impl FnOnce() -> c_int) -> c_int {
    staged::seen(descriptor, Operation::Observe, next)
}

/// Looks at a name: once more, if it was that of a staged table.
///
/// # Safety
/// `status` is the `struct stat` that a successful call has filled.
#[inline]
unsafe fn named(status: *const c_void, next: impl Fn() -> c_int) -> c_int {
    let result = next();
    let found = || {
        // SAFETY: passed on; device and inode lie at the same place in all of glibc's variants.
        let status = unsafe { &*status.cast::<libc::stat>() };
        Some((status.st_dev, status.st_ino))
    };
    if result == 0 && staged::must_look_again(found) {
        return next();
    }
    result
}

/// As [`named`], of `struct statx`.
///
/// # Safety
/// As for [`named`].
unsafe fn named_extended(status: *const c_void, next: impl Fn() -> c_int) -> c_int {
    let result = next();
    let found = || {
        // SAFETY: passed on.
        let status = unsafe { &*status.cast::<libc::statx>() };
        let device = libc::makedev(status.stx_dev_major, status.stx_dev_minor);
        (status.stx_mask & libc::STATX_INO != 0).then_some((device, status.stx_ino))
    };
    if result == 0 && staged::must_look_again(found) {
        return next();
    }
    result
}

/// Looks at a descriptor (`AT_EMPTY_PATH`) or, as `named`, at a name. With that flag the descriptor may be a
/// directory's, beside a name: one that is no staged table is not concerned.
fn seen_or_named<N: Fn() -> c_int>(
    descriptor: c_int,
    flags: c_int,
    next: N,
    named: impl FnOnce(N) -> c_int,
) -> c_int {
    if flags & libc::AT_EMPTY_PATH != 0
        && let Err(failed) = staged::look(descriptor, Operation::Observe)
    {
        return failed;
    }
    named(next)
}

/// Gives a file another name, under which others may look at it.
#[inline]
fn renamed(next: impl FnOnce() -> c_int) -> c_int {
    staged::settle_all();
    next()
}

/// Changes a file by its name.
#[inline]
fn changed_by_name(next: impl FnOnce() -> c_int) -> c_int {
    if let Some(books) = staged::any() {
        let _ = books.settle_all(Some(Counter::DemotedCall));
    }
    next()
}

interpose! {
    fn lseek(descriptor: c_int, offset: off_t, whence: c_int) -> off_t |next| {
        hidden(descriptor, || staged::sought(descriptor, offset, whence, next))
    }
    fn lseek64(descriptor: c_int, offset: off64_t, whence: c_int) -> off64_t |next| {
        hidden(descriptor, || staged::sought(descriptor, offset, whence, next))
    }
    fn truncate(path: *const c_char, length: off_t) -> c_int |next| { changed_by_name(next) }
    fn truncate64(path: *const c_char, length: off64_t) -> c_int |next| { changed_by_name(next) }
    fn fstat(descriptor: c_int, status: *mut c_void) -> c_int |next| { hidden(descriptor, || seen(descriptor, next)) }
    fn fstat64(descriptor: c_int, status: *mut c_void) -> c_int |next| { hidden(descriptor, || seen(descriptor, next)) }
    fn __fxstat(version: c_int, descriptor: c_int, status: *mut c_void) -> c_int |next| { hidden(descriptor, || seen(descriptor, next)) }
    fn __fxstat64(version: c_int, descriptor: c_int, status: *mut c_void) -> c_int |next| { hidden(descriptor, || seen(descriptor, next)) }
    fn stat(path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn stat64(path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn lstat(path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn lstat64(path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn __xstat(version: c_int, path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn __xstat64(version: c_int, path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn __lxstat(version: c_int, path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn __lxstat64(version: c_int, path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn __fxstatat(version: c_int, at: c_int, path: *const c_char, status: *mut c_void, flags: c_int) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn __fxstatat64(version: c_int, at: c_int, path: *const c_char, status: *mut c_void, flags: c_int) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { named(status, next) }
    }
    fn fstatat(at: c_int, path: *const c_char, status: *mut c_void, flags: c_int) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { seen_or_named(at, flags, next, |next| named(status, next)) }
    }
    fn fstatat64(at: c_int, path: *const c_char, status: *mut c_void, flags: c_int) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { seen_or_named(at, flags, next, |next| named(status, next)) }
    }
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, status: *mut c_void) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { seen_or_named(at, flags, next, |next| named_extended(status, next)) }
    }
    fn link(from: *const c_char, to: *const c_char) -> c_int |next| { renamed(next) }
    fn linkat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int) -> c_int |next| { renamed(next) }
    fn rename(from: *const c_char, to: *const c_char) -> c_int |next| { renamed(next) }
    fn renameat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int |next| { renamed(next) }
    fn renameat2(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int |next| { renamed(next) }
    fn unlink(path: *const c_char) -> c_int |next| { next() }
    fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int |next| { next() }
}
