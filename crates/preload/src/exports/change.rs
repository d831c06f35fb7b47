//! Changing a file's content or size: the windows of its inode are dropped with the next read.

use super::hidden;
use crate::books;
use crate::next::interpose;
use libc::{c_int, c_uint, c_void, iovec, off_t, off64_t, size_t, ssize_t};

/// Counted after the change: a window that was read before it then differs from what is.
#[inline]
fn changed<T>(descriptor: c_int, result: T) -> T {
    if let Some(books) = books::get() {
        books.note_change(descriptor);
    }
    result
}

interpose! {
    fn write(descriptor: c_int, buffer: *const c_void, length: size_t) -> ssize_t |next| {
        changed(descriptor, next())
    }
    fn pwrite(descriptor: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t |next| {
        changed(descriptor, next())
    }
    fn pwrite64(descriptor: c_int, buffer: *const c_void, length: size_t, offset: off64_t) -> ssize_t |next| {
        changed(descriptor, next())
    }
    fn writev(descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t |next| {
        changed(descriptor, next())
    }
    fn pwritev(descriptor: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t |next| {
        changed(descriptor, next())
    }
    fn pwritev64(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t |next| {
        changed(descriptor, next())
    }
    fn pwritev2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t |next| {
        changed(descriptor, next())
    }
    fn pwritev64v2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t |next| {
        changed(descriptor, next())
    }
    fn ftruncate(descriptor: c_int, length: off_t) -> c_int |next| {
        changed(descriptor, next())
    }
    fn ftruncate64(descriptor: c_int, length: off64_t) -> c_int |next| {
        changed(descriptor, next())
    }
    fn fallocate(descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int |next| {
        changed(descriptor, next())
    }
    fn fallocate64(descriptor: c_int, mode: c_int, offset: off64_t, length: off64_t) -> c_int |next| {
        changed(descriptor, next())
    }
    fn posix_fallocate(descriptor: c_int, offset: off_t, length: off_t) -> c_int |next| {
        changed(descriptor, next())
    }
    fn posix_fallocate64(descriptor: c_int, offset: off64_t, length: off64_t) -> c_int |next| {
        changed(descriptor, next())
    }
    fn sync_file_range(descriptor: c_int, offset: off64_t, length: off64_t, flags: c_uint) -> c_int |next| { hidden(descriptor, next) }
    fn fsync(descriptor: c_int) -> c_int |next| { hidden(descriptor, next) }
    fn fdatasync(descriptor: c_int) -> c_int |next| { hidden(descriptor, next) }
}
