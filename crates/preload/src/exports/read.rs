//! `read(2)`, `pread(2)` and their like. Here reads of background threads and of the foreground separate.

use super::next::interpose;
use crate::core::descriptor_map::Entry;
use crate::events::Reader;
use crate::reads::ReadCall;
use crate::runtime::{self, Runtime};
use coldstream_io::append::Operation;
use coldstream_io::sys::process;
use libc::{c_int, c_void, iovec, off64_t, size_t, ssize_t};

/// # Safety
/// The arguments are the application's.
#[inline(always)]
unsafe fn read_at(
    descriptor: c_int,
    buffer: *mut c_void,
    length_bytes: size_t,
    offset: off64_t,
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some((runtime, known)) = runtime::known(descriptor) else {
        return next();
    };
    let start = offset.max(0) as u64;
    let range = Operation::ReadAt {
        start,
        end: start.saturating_add(length_bytes as u64),
    };
    match runtime.before_read(known, descriptor, range) {
        Reader::Foreground => next(),
        Reader::Timed => time_read(runtime, next),
        Reader::Nobody => -1,
        Reader::Background(tracked) => {
            let call = ReadCall {
                descriptor,
                destination: buffer.cast(),
                length_bytes,
                offset,
            };
            // SAFETY: passed on.
            unsafe { runtime.read_in_background(tracked, &call, next) }
        }
    }
}

/// The foreground's read of a tracked file, and how long it took. Leaves `errno` alone.
#[cold]
fn time_read(runtime: &Runtime, next: impl FnOnce() -> ssize_t) -> ssize_t {
    let started_ns = process::monotonic_ns();
    let result = next();
    if result > 0 {
        runtime.record_read_time(process::monotonic_ns().saturating_sub(started_ns));
    }
    result
}

/// The place of a read relative to the last one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// It begins where the last one ended.
    InSequence,
    Unknown,
}

/// Makes a read that is never served, because it moves a position or has several buffers. Counts it.
#[inline(always)]
pub(super) fn read_unserved(
    descriptor: c_int,
    order: Order,
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some((runtime, known)) = runtime::known(descriptor) else {
        return next();
    };
    if order == Order::InSequence
        && let Entry::Tracked(tracked) = known.entry()
    {
        runtime.before_sequential_read(tracked, descriptor);
    }
    match runtime.before_read(known, descriptor, Operation::Read) {
        Reader::Foreground | Reader::Timed => next(),
        Reader::Nobody => -1,
        Reader::Background(_) => {
            let result = next();
            runtime.count_unserved_read(result);
            result
        }
    }
}

interpose! {
    fn pread | pread64(descriptor: c_int, buffer: *mut c_void, length: size_t, offset: off64_t) -> ssize_t |next| {
        // SAFETY: the application's arguments.
        unsafe { read_at(descriptor, buffer, length, offset, next) }
    }
    fn __pread_chk | __pread64_chk(descriptor: c_int, buffer: *mut c_void, length: size_t, offset: off64_t, room: size_t) -> ssize_t |next| {
        if length > room {
            return next();
        }
        // SAFETY: the application's arguments.
        unsafe { read_at(descriptor, buffer, length, offset, next) }
    }
    fn read(descriptor: c_int, buffer: *mut c_void, length: size_t) -> ssize_t |next| {
        read_unserved(descriptor, Order::InSequence, next)
    }
    fn __read_chk(descriptor: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t |next| {
        read_unserved(descriptor, Order::InSequence, next)
    }
    fn readv(descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t |next| {
        read_unserved(descriptor, Order::InSequence, next)
    }
    fn preadv | preadv64(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t |next| {
        read_unserved(descriptor, Order::Unknown, next)
    }
    fn preadv2 | preadv64v2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t |next| {
        read_unserved(descriptor, Order::Unknown, next)
    }
}
