//! `open(2)`, `fopen(3)` and their like: files with an SSTable's name are tracked.

use super::answer::with_room;
use super::descriptor::before_stream_is_closed;
use super::next::interpose;
use super::staged;
use coldstream_engine::core::errno::ErrnoGuard;
use coldstream_engine::runtime;
use libc::{FILE, c_char, c_int, mode_t};

/// # Safety
/// `path` must be what the successful `open` was given.
#[inline]
unsafe fn opened(descriptor: c_int, path: *const c_char, flags: c_int) -> c_int {
    if descriptor >= 0
        && let Some(runtime) = runtime::get()
    {
        let _errno = ErrnoGuard::new();
        // SAFETY: the kernel has just read the path as a NUL-terminated string.
        unsafe { runtime.opened(descriptor, path, flags) };
    }
    descriptor
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
        // SAFETY: libc has just taken the mode, which has one letter at least.
        let is_emptied = unsafe { *mode } == b'w' as c_char;
        // SAFETY: passed on.
        let descriptor = unsafe { libc::fileno(stream) };
        let flags = if is_emptied { libc::O_TRUNC } else { 0 };
        runtime.opened_unfollowed(descriptor, flags);
    }
    stream
}

const CREATE: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

interpose! {
    fn open | open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { opened(with_room(next), path, flags) }
    }
    fn openat | openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { opened(with_room(next), path, flags) }
    }
    fn creat | creat64(path: *const c_char, mode: mode_t) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { opened(with_room(next), path, CREATE) }
    }
    fn __open_2 | __open64_2(path: *const c_char, flags: c_int) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { opened(with_room(next), path, flags) }
    }
    fn __openat_2 | __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int |next| {
        // SAFETY: as the application's call.
        unsafe { opened(with_room(next), path, flags) }
    }
    fn fopen | fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE |next| {
        // SAFETY: what the next definition returns for this mode.
        unsafe { opened_stream(next(), mode) }
    }
    fn freopen | freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE |next| {
        // SAFETY: the application's stream, and what the next definition returns for this mode.
        unsafe {
            before_stream_is_closed(stream);
            opened_stream(next(), mode)
        }
    }
}
