//! Changing a file's content or size: the windows of its inode are dropped with the next read,
//! and a table that is staged hears of it before.

use super::{hidden, not_open, staged};
use crate::descriptors::Entry;
use crate::errno;
use crate::next::interpose;
use crate::runtime;
use crate::staging::write;
use coldstream_control::Counter;
use coldstream_io::append::Operation;
use libc::{c_int, c_uint, c_void, iovec, off64_t, size_t, ssize_t};

/// Makes a call that changes a file, unless the descriptor is Coldstream's own. Counted after the change: a
/// window that was read before it then differs from what is.
#[inline]
fn changed<T: From<i8>>(descriptor: c_int, next: impl FnOnce() -> T) -> T {
    let Some((runtime, known)) = runtime::known(descriptor) else {
        return next();
    };
    match known.entry() {
        Entry::Private(_) => not_open(),
        Entry::Tracked(tracked) => {
            let result = next();
            runtime.note_change(tracked);
            result
        }
    }
}

/// A change that the staging writer does not know.
#[inline]
pub(super) fn disturbed<T: From<i8>>(descriptor: c_int, next: impl FnOnce() -> T) -> T {
    let before = staged::fall_back(descriptor, Counter::DemotedCall);
    staged::unless_failed(before, || changed(descriptor, next))
}

/// `posix_fallocate` returns its error, and leaves errno as it is.
#[inline]
fn allocated(descriptor: c_int, next: impl FnOnce() -> c_int) -> c_int {
    let before = errno::get();
    match disturbed(descriptor, next) {
        -1 => {
            let error = errno::get();
            errno::set(before);
            error
        }
        result => result,
    }
}

fn preallocated(descriptor: c_int, mode: c_int, next: impl FnOnce() -> c_int) -> c_int {
    if mode == libc::FALLOC_FL_KEEP_SIZE {
        return staged::seen(descriptor, Operation::Preallocate, || {
            changed(descriptor, next)
        });
    }
    disturbed(descriptor, next)
}

interpose! {
    fn write(descriptor: c_int, buffer: *const c_void, length: size_t) -> ssize_t |next| {
        match staged::tracked(descriptor) {
            // SAFETY: the application's arguments.
            Some((runtime, tracked)) => unsafe {
                write::write(runtime, tracked, descriptor, buffer.cast(), length, next)
            },
            None => changed(descriptor, next),
        }
    }
    fn pwrite | pwrite64(descriptor: c_int, buffer: *const c_void, length: size_t, offset: off64_t) -> ssize_t |next| {
        disturbed(descriptor, next)
    }
    fn writev(descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t |next| {
        disturbed(descriptor, next)
    }
    fn pwritev | pwritev64(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t |next| {
        disturbed(descriptor, next)
    }
    fn pwritev2 | pwritev64v2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t |next| {
        disturbed(descriptor, next)
    }
    fn ftruncate | ftruncate64(descriptor: c_int, length: off64_t) -> c_int |next| {
        changed(descriptor, || staged::truncated(descriptor, length, next))
    }
    fn fallocate | fallocate64(descriptor: c_int, mode: c_int, offset: off64_t, length: off64_t) -> c_int |next| {
        preallocated(descriptor, mode, next)
    }
    fn posix_fallocate | posix_fallocate64(descriptor: c_int, offset: off64_t, length: off64_t) -> c_int |next| {
        allocated(descriptor, next)
    }
    fn sync_file_range(descriptor: c_int, offset: off64_t, length: off64_t, flags: c_uint) -> c_int |next| {
        hidden(descriptor, || staged::seen(descriptor, Operation::Sync, next))
    }
    fn fsync | fdatasync(descriptor: c_int) -> c_int |next| { hidden(descriptor, || staged::synced(descriptor, next)) }
    fn syncfs(descriptor: c_int) -> c_int |next| {
        hidden(descriptor, || staged::synced_filesystem(descriptor, next))
    }
}
