//! `write(2)`, `ftruncate(2)`, `fallocate(2)` and their like: calls that change a file's content or size.
//!
//! After a change, the next read drops the windows of the inode. A staged file is drained, or falls back,
//! before the change.

use super::answer::{not_open, unless_failed};
use super::next::interpose;
use super::read::WHOLE_FILE;
use super::staged;
use coldstream_control::Counter;
use coldstream_engine::core::descriptor_map::{Entry, TrackedFile};
use coldstream_engine::core::{errno, is_private_still};
use coldstream_engine::runtime::{self, Runtime};
use coldstream_io::append::Operation;
use libc::{c_int, c_void, iovec, off64_t, size_t, ssize_t};

/// Makes a call that changes a file, unless the descriptor is Coldstream's own. Counts the change after the
/// call: windows that were read before it are then out of date.
#[inline]
fn count_change<T: From<i8>>(descriptor: c_int, next: impl FnOnce() -> T) -> T {
    count_change_and(descriptor, next, |_, _, _| ())
}

/// As [`count_change`]. `counted` gets the result for a tracked file.
#[inline]
fn count_change_and<T: From<i8>>(
    descriptor: c_int,
    next: impl FnOnce() -> T,
    counted: impl FnOnce(&Runtime, TrackedFile, &T),
) -> T {
    let Some((runtime, known)) = runtime::known(descriptor) else {
        return next();
    };
    match known.entry() {
        Entry::Private(private) if is_private_still(descriptor, private) => not_open(),
        Entry::Private(_) => next(),
        Entry::Tracked(tracked) => {
            let result = next();
            runtime.core.record_change(tracked);
            counted(runtime, tracked, &result);
            result
        }
    }
}

/// Makes a plain write. Counts the change, and the bytes if the writer is a background thread.
#[inline]
fn count_write(descriptor: c_int, next: impl FnOnce() -> ssize_t) -> ssize_t {
    count_change_and(descriptor, next, |runtime, _, written| {
        runtime.count_plain_write(descriptor, *written);
    })
}

/// As [`count_write`], for a `write` of `buffer`. If it is a compaction's first write, the file is staged now.
///
/// # Safety
/// `buffer` and `length_bytes` are what the application gave to `write`.
#[inline]
unsafe fn count_append(
    descriptor: c_int,
    buffer: *const c_void,
    length_bytes: size_t,
    next: impl Fn() -> ssize_t,
) -> ssize_t {
    if let Some((runtime, known)) = runtime::known(descriptor)
        && let Entry::Tracked(tracked) = known.entry()
        && tracked.writable
        && runtime.take_in_at_first_write(tracked, descriptor)
    {
        // SAFETY: passed on.
        return unsafe { runtime.write(tracked, descriptor, buffer.cast(), length_bytes, next) };
    }
    count_change_and(descriptor, next, |runtime, tracked, written| {
        // SAFETY: the kernel has read so much from there.
        unsafe { runtime.follow_append((tracked, descriptor), buffer.cast(), *written) };
        runtime.count_plain_write(descriptor, *written);
    })
}

/// Makes a write that a staged file cannot follow: the file falls back first.
#[inline]
fn write_fallen_back(descriptor: c_int, next: impl FnOnce() -> ssize_t) -> ssize_t {
    let before = staged::fall_back(descriptor, Counter::StagingEndedCall);
    unless_failed(before, || count_write(descriptor, next))
}

/// Makes a change that a staged file cannot follow: the file falls back first.
#[inline]
pub(super) fn with_fallen_back<T: From<i8>>(descriptor: c_int, next: impl FnOnce() -> T) -> T {
    let before = staged::fall_back(descriptor, Counter::StagingEndedCall);
    unless_failed(before, || count_change(descriptor, next))
}

/// `posix_fallocate` returns its error, and leaves errno as it is.
#[inline]
fn fallocate_posix(descriptor: c_int, next: impl FnOnce() -> c_int) -> c_int {
    let before = errno::get();
    match with_fallen_back(descriptor, next) {
        -1 => {
            let error = errno::get();
            errno::set(before);
            error
        }
        result => result,
    }
}

fn fallocate_tracked(descriptor: c_int, mode: c_int, next: impl FnOnce() -> c_int) -> c_int {
    if mode == libc::FALLOC_FL_KEEP_SIZE {
        return staged::with_drained(descriptor, Operation::Preallocate, || {
            count_change(descriptor, next)
        });
    }
    with_fallen_back(descriptor, next)
}

interpose! {
    fn write(descriptor: c_int, buffer: *const c_void, length: size_t) -> ssize_t |next| {
        match staged::find(descriptor) {
            // SAFETY: the application's arguments.
            Some((runtime, tracked)) => unsafe {
                runtime.write(tracked, descriptor, buffer.cast(), length, next)
            },
            // SAFETY: as above.
            None => unsafe { count_append(descriptor, buffer, length, next) },
        }
    }
    fn pwrite | pwrite64(descriptor: c_int, buffer: *const c_void, length: size_t, offset: off64_t) -> ssize_t |next| {
        write_fallen_back(descriptor, next)
    }
    fn writev(descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t |next| {
        write_fallen_back(descriptor, next)
    }
    fn pwritev | pwritev64(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t |next| {
        write_fallen_back(descriptor, next)
    }
    fn pwritev2 | pwritev64v2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t |next| {
        // It would wait until they are on the device.
        if flags & libc::RWF_NOWAIT != 0
            && let Some((runtime, tracked)) = staged::find(descriptor)
            && staged::would_wait(runtime, tracked, descriptor, WHOLE_FILE)
        {
            errno::set(libc::EAGAIN);
            return -1;
        }
        write_fallen_back(descriptor, next)
    }
    fn ftruncate | ftruncate64(descriptor: c_int, length: off64_t) -> c_int |next| {
        count_change(descriptor, || staged::truncate(descriptor, length, next))
    }
    fn fallocate | fallocate64(descriptor: c_int, mode: c_int, offset: off64_t, length: off64_t) -> c_int |next| {
        fallocate_tracked(descriptor, mode, next)
    }
    fn posix_fallocate | posix_fallocate64(descriptor: c_int, offset: off64_t, length: off64_t) -> c_int |next| {
        fallocate_posix(descriptor, next)
    }
}
