//! `stat(2)`, `lseek(2)`, `rename(2)`, `truncate(2)` and their like: calls that see or set positions, sizes
//! and names.
//!
//! Staged files are drained before these calls. Background reads need nothing here: they are served by
//! offset, present size and identity.

use super::answer::{report_to_caller, unless_failed, unless_private};
use super::next::interpose;
use super::staged;
use coldstream_io::append::Operation;
use libc::{c_char, c_int, c_uint, c_void, off64_t};

/// Observes a descriptor.
#[inline]
fn observe(descriptor: c_int, next: impl FnOnce() -> c_int) -> c_int {
    staged::with_drained(descriptor, Operation::Observe, next)
}

/// Observes a file by its name. If it is a staged file, drains it and observes it again.
///
/// # Safety
/// `status` is the `struct stat` that a successful call has filled.
#[inline]
unsafe fn observe_name(status: *const c_void, next: impl Fn() -> c_int) -> c_int {
    let result = next();
    let found = || {
        // SAFETY: passed on; device and inode lie at the same offsets in all of glibc's variants.
        let status = unsafe { &*status.cast::<libc::stat>() };
        Some((status.st_dev, status.st_ino))
    };
    if result == 0 && staged::must_look_again(found) {
        return next();
    }
    result
}

/// As [`observe_name`], of `struct statx`.
///
/// # Safety
/// As for [`observe_name`].
unsafe fn observe_name_extended(status: *const c_void, next: impl Fn() -> c_int) -> c_int {
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

/// Observes a descriptor (`AT_EMPTY_PATH`) or a name (`by_name`). Even with that flag the descriptor may be a
/// directory's, and the call has a name too. Then no staged file is drained here.
fn observe_descriptor_or_name<N: Fn() -> c_int>(
    descriptor: c_int,
    flags: c_int,
    next: N,
    by_name: impl FnOnce(N) -> c_int,
) -> c_int {
    let before = if flags & libc::AT_EMPTY_PATH != 0 {
        staged::drain_before(descriptor, Operation::Observe)
    } else {
        Ok(())
    };
    unless_failed(before, || by_name(next))
}

/// Renames a file. Drains staged files first: other processes may open the file by its new name.
#[inline]
fn rename_file(next: impl FnOnce() -> c_int) -> c_int {
    if let Some(runtime) = staged::any() {
        runtime.before_rename();
    }
    next()
}

/// Changes a file's size by its name. Fails if the file cannot be drained, as `ftruncate` does. Otherwise the
/// staged bytes would later be written into the changed file.
///
/// # Safety
/// `path` is the application's, for the kernel to read.
#[inline]
unsafe fn truncate_by_name(path: *const c_char, next: impl FnOnce() -> c_int) -> c_int {
    let before = match staged::any() {
        Some(runtime) => {
            // SAFETY: passed on.
            let fallen_back = unsafe { runtime.writes.fall_back_by_name(&runtime.core, path) };
            report_to_caller(fallen_back)
        }
        None => Ok(()),
    };
    unless_failed(before, next)
}

interpose! {
    fn lseek | lseek64(descriptor: c_int, offset: off64_t, whence: c_int) -> off64_t |next| {
        unless_private(descriptor, || staged::lseek_staged(descriptor, offset, whence, next))
    }
    fn truncate | truncate64(path: *const c_char, length: off64_t) -> c_int |next| {
        // SAFETY: the application's argument.
        unsafe { truncate_by_name(path, next) }
    }
    fn fstat | fstat64(descriptor: c_int, status: *mut c_void) -> c_int |next| { unless_private(descriptor, || observe(descriptor, next)) }
    fn __fxstat | __fxstat64(version: c_int, descriptor: c_int, status: *mut c_void) -> c_int |next| { unless_private(descriptor, || observe(descriptor, next)) }
    fn stat | stat64 | lstat | lstat64(path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: the kernel has filled `status` if `next` succeeded.
        unsafe { observe_name(status, next) }
    }
    fn __xstat | __xstat64 | __lxstat | __lxstat64(version: c_int, path: *const c_char, status: *mut c_void) -> c_int |next| {
        // SAFETY: the kernel has filled `status` if `next` succeeded.
        unsafe { observe_name(status, next) }
    }
    fn __fxstatat | __fxstatat64(version: c_int, at: c_int, path: *const c_char, status: *mut c_void, flags: c_int) -> c_int |next| {
        // SAFETY: the kernel has filled `status` if `next` succeeded.
        unsafe { observe_name(status, next) }
    }
    fn fstatat | fstatat64(at: c_int, path: *const c_char, status: *mut c_void, flags: c_int) -> c_int |next| {
        // SAFETY: the kernel has filled `status` if `next` succeeded.
        unsafe { observe_descriptor_or_name(at, flags, next, |next| observe_name(status, next)) }
    }
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, status: *mut c_void) -> c_int |next| {
        // SAFETY: the kernel has filled `status` if `next` succeeded.
        unsafe { observe_descriptor_or_name(at, flags, next, |next| observe_name_extended(status, next)) }
    }
    fn link | rename(from: *const c_char, to: *const c_char) -> c_int |next| { rename_file(next) }
    fn linkat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int) -> c_int |next| { rename_file(next) }
    fn renameat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int |next| { rename_file(next) }
    fn renameat2(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int |next| { rename_file(next) }
}
