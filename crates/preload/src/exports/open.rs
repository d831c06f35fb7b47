//! `open(2)`, `fopen(3)` and their like: files with an SSTable's name are tracked.

use super::answer::with_room;
use super::descriptor::before_stream_is_closed;
use super::next::interpose;
use super::staged;
use coldstream_engine::core::errno::ErrnoGuard;
use coldstream_engine::runtime;
use libc::{FILE, c_char, c_int, mode_t};

/// Opens a file below the directory `at`.
///
/// # Safety
/// `path` is the application's, and `next` makes its call.
#[inline]
unsafe fn open_at(at: c_int, path: *const c_char, flags: c_int, next: impl Fn() -> c_int) -> c_int {
    if flags & libc::O_TRUNC != 0 {
        // SAFETY: passed on.
        unsafe { before_emptied(at, path) };
    }
    let descriptor = with_room(next);
    if descriptor >= 0
        && let Some(runtime) = runtime::get()
    {
        let _errno = ErrnoGuard::new();
        // SAFETY: the kernel has just read the path as a NUL-terminated string.
        unsafe { runtime.opened(descriptor, path, flags) };
    }
    descriptor
}

/// A file is about to be emptied by its name. If it is staged, it falls back first: between the kernel's call and what
/// follows, another thread's call could drain it, and the old bytes would be in the emptied file.
///
/// # Safety
/// `path` is the application's, for the kernel to read.
#[inline]
unsafe fn before_emptied(at: c_int, path: *const c_char) {
    if let Some(runtime) = staged::any() {
        // What cannot be drained is discarded after the call.
        // SAFETY: passed on.
        let _ = unsafe { (runtime.writes).fall_back_by_name(&runtime.core, (at, path)) };
    }
}

/// Whether a stream with this mode empties its file.
///
/// # Safety
/// `mode` is the application's, for libc: it has one letter at least.
#[inline]
unsafe fn empties(mode: *const c_char) -> bool {
    // SAFETY: as the caller says.
    unsafe { *mode == b'w' as c_char }
}

/// # Safety
/// `path` and `mode` are the application's.
#[inline]
unsafe fn before_stream_is_opened(path: *const c_char, mode: *const c_char) {
    // Without a path, `freopen` opens the same file anew.
    // SAFETY: passed on.
    if !path.is_null() && unsafe { empties(mode) } {
        // SAFETY: passed on.
        unsafe { before_emptied(libc::AT_FDCWD, path) };
    }
}

/// A stream of libc was opened. Its descriptor is not followed, so the staging of its file ends.
///
/// # Safety
/// `stream` must be what the call with this `mode` returned.
#[inline]
unsafe fn opened_stream(stream: *mut FILE, mode: *const c_char) -> *mut FILE {
    if !stream.is_null()
        && let Some(runtime) = staged::any()
    {
        let _errno = ErrnoGuard::new();
        // SAFETY: passed on.
        let (descriptor, is_emptied) = unsafe { (libc::fileno(stream), empties(mode)) };
        let flags = if is_emptied { libc::O_TRUNC } else { 0 };
        runtime.fall_back_opened(descriptor, flags);
    }
    stream
}

const CREATE: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

interpose! {
    fn open | open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { open_at(libc::AT_FDCWD, path, flags, next) }
    }
    fn openat | openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { open_at(at, path, flags, next) }
    }
    fn creat | creat64(path: *const c_char, mode: mode_t) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { open_at(libc::AT_FDCWD, path, CREATE, next) }
    }
    fn __open_2 | __open64_2(path: *const c_char, flags: c_int) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { open_at(libc::AT_FDCWD, path, flags, next) }
    }
    fn __openat_2 | __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { open_at(at, path, flags, next) }
    }
    fn fopen | fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE |next| {
        // SAFETY: the application's arguments, and what the next definition returns for this mode.
        unsafe {
            before_stream_is_opened(path, mode);
            opened_stream(next(), mode)
        }
    }
    fn freopen | freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE |next| {
        // SAFETY: the application's stream, and what the next definition returns for this mode.
        unsafe {
            before_stream_is_closed(stream);
            before_stream_is_opened(path, mode);
            opened_stream(next(), mode)
        }
    }
}
