//! `stat(2)`, `lseek(2)`, `rename(2)`, `truncate(2)` and their like: calls that see or set positions, sizes
//! and names.
//!
//! Sizes of staged files count the staged bytes, which no call waits for. Before other calls they are drained. Background reads need nothing here: they are served by
//! offset, present size and identity.

use super::answer::{report_to_caller, unless_failed, unless_private};
use super::next::interpose;
use super::staged;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::append::Size;
use coldstream_io::sys::file;
use libc::{c_char, c_int, c_uint, c_void, off64_t};

/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;

/// Observes a descriptor. `status` is the `struct stat` that a successful call fills.
///
/// # Safety
/// As for [`observe_name`].
#[inline]
unsafe fn observe(descriptor: c_int, status: *mut c_void, next: impl Fn() -> c_int) -> c_int {
    match staged::find(descriptor) {
        // SAFETY: passed on.
        Some(_) => unsafe { observe_name(status, next) },
        None => next(),
    }
}

/// Observes a file by its name. If it is staged, its size counts the staged bytes.
///
/// # Safety
/// `status` is the `struct stat` that a successful call fills.
#[inline]
unsafe fn observe_name(status: *mut c_void, next: impl Fn() -> c_int) -> c_int {
    let status = status.cast::<libc::stat>();
    let found = || {
        // SAFETY: filled; device and inode lie at the same offsets in all of glibc's variants.
        let status = unsafe { &*status };
        Some((status.st_dev, status.st_ino))
    };
    staged::observe(next, found, |size| {
        // SAFETY: filled, and the application's for the kernel to write.
        let status = unsafe { &mut *status };
        let kernels = status.st_size as u64;
        if size.bytes <= kernels {
            return;
        }
        status.st_size = size.bytes as i64;
        status.st_blocks += sectors_between(kernels, size.bytes) as i64;
        let (seconds, nanoseconds) = seconds_of(size);
        if (seconds, nanoseconds) > (status.st_mtime, status.st_mtime_nsec) {
            (status.st_mtime, status.st_mtime_nsec) = (seconds, nanoseconds);
            (status.st_ctime, status.st_ctime_nsec) = (seconds, nanoseconds);
        }
    })
}

/// As [`observe_name`], of `struct statx`.
///
/// # Safety
/// As for [`observe_name`].
unsafe fn observe_name_extended(status: *mut c_void, next: impl Fn() -> c_int) -> c_int {
    let status = status.cast::<libc::statx>();
    let found = || {
        // SAFETY: as above.
        let status = unsafe { &*status };
        let device = libc::makedev(status.stx_dev_major, status.stx_dev_minor);
        (status.stx_mask & libc::STATX_INO != 0).then_some((device, status.stx_ino))
    };
    staged::observe(next, found, |size| {
        // SAFETY: as above.
        let status = unsafe { &mut *status };
        if size.bytes <= status.stx_size || status.stx_mask & libc::STATX_SIZE == 0 {
            return;
        }
        status.stx_blocks += sectors_between(status.stx_size, size.bytes);
        status.stx_size = size.bytes;
        let (seconds, nanoseconds) = seconds_of(size);
        let modified = &status.stx_mtime;
        if (seconds, nanoseconds) > (modified.tv_sec, i64::from(modified.tv_nsec)) {
            for time in [&mut status.stx_mtime, &mut status.stx_ctime] {
                (time.tv_sec, time.tv_nsec) = (seconds, nanoseconds as u32);
            }
        }
    })
}

/// How many sectors the bytes between two sizes take, in whole pages: as for bytes that wait in the page cache.
fn sectors_between(from: u64, to: u64) -> u64 {
    (to.next_multiple_of(PAGE_BYTES) - from.next_multiple_of(PAGE_BYTES)) / SECTOR_BYTES
}

/// The time of the last write, as in `struct stat`.
fn seconds_of(size: Size) -> (i64, i64) {
    const SECOND_NS: u64 = 1_000_000_000;
    let (seconds, nanoseconds) = (size.written_ns / SECOND_NS, size.written_ns % SECOND_NS);
    (seconds as i64, nanoseconds as i64)
}

/// Gives a file another name. Drains it first if it is staged: other processes may open it by that name.
///
/// # Safety
/// The paths are the application's, for the kernel to read.
#[inline]
unsafe fn rename_file(
    named: impl IntoIterator<Item = (c_int, *const c_char)>,
    next: impl FnOnce() -> c_int,
) -> c_int {
    if let Some(runtime) = staged::any() {
        for (at, path) in named {
            // SAFETY: passed on.
            if let Ok(stamp) = unsafe { file::stamp_at(at, path) } {
                runtime.before_rename(&stamp);
            }
        }
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
            let fallen_back = unsafe {
                runtime
                    .writes
                    .fall_back_by_name(&runtime.core, (libc::AT_FDCWD, path))
            };
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
    fn fstat | fstat64(descriptor: c_int, status: *mut c_void) -> c_int |next| {
        // SAFETY: the kernel has filled `status` if `next` succeeded.
        unless_private(descriptor, || unsafe { observe(descriptor, status, next) })
    }
    fn __fxstat | __fxstat64(version: c_int, descriptor: c_int, status: *mut c_void) -> c_int |next| {
        // SAFETY: the kernel has filled `status` if `next` succeeded.
        unless_private(descriptor, || unsafe { observe(descriptor, status, next) })
    }
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
        unsafe { observe_name(status, next) }
    }
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, status: *mut c_void) -> c_int |next| {
        // SAFETY: the kernel has filled `status` if `next` succeeded.
        unsafe { observe_name_extended(status, next) }
    }
    fn link | rename(from: *const c_char, to: *const c_char) -> c_int |next| {
        // SAFETY: the application's arguments.
        unsafe { rename_file([(libc::AT_FDCWD, from)], next) }
    }
    fn linkat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int) -> c_int |next| {
        // SAFETY: the application's arguments.
        unsafe { rename_file([(from_at, from)], next) }
    }
    fn renameat(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int |next| {
        // SAFETY: the application's arguments.
        unsafe { rename_file([(from_at, from)], next) }
    }
    fn renameat2(from_at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int |next| {
        // Both may be exchanged.
        // SAFETY: the application's arguments.
        unsafe { rename_file([(from_at, from), (to_at, to)], next) }
    }
}
