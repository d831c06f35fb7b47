//! `read(2)`, `pread(2)` and their like. Here reads of background threads and of the foreground separate.

use super::next::interpose;
use super::staged;
use coldstream_engine::core::descriptor_map::{Entry, TrackedFile};
use coldstream_engine::core::errno;
use coldstream_engine::events::{Answer, Noted, Sample};
use coldstream_engine::reads::ReadCall;
use coldstream_engine::runtime::{self, Runtime};
use coldstream_io::append::Operation;
use coldstream_io::sys::{file, memory, process};
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
        Answer::Plain(noted) => read_in_foreground(runtime, noted, next),
        Answer::Fail => -1,
        Answer::InBackground(tracked) => {
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

/// The foreground's read of a tracked file. What was noted of it counts if it has read anything. Leaves `errno` alone.
#[inline(always)]
fn read_in_foreground(runtime: &Runtime, noted: Noted, next: impl FnOnce() -> ssize_t) -> ssize_t {
    let result = match noted.sample {
        None => next(),
        Some(sample) => time_read(runtime, sample, next),
    };
    if result > 0 {
        runtime.after_read(noted);
    }
    result
}

/// The foreground's read of a tracked file, and how long it took. Leaves `errno` alone.
#[cold]
fn time_read(runtime: &Runtime, sample: Sample, next: impl FnOnce() -> ssize_t) -> ssize_t {
    let started_ns = process::monotonic_ns();
    let result = next();
    if result > 0 {
        runtime.record_read_time(sample, started_ns, process::monotonic_ns());
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
    read_known_unserved(descriptor, order, Operation::Read, next)
}

/// As [`read_unserved`], for a call that does this to a staged file.
#[inline(always)]
pub(super) fn read_known_unserved(
    descriptor: c_int,
    order: Order,
    operation: Operation,
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
    match runtime.before_read(known, descriptor, operation) {
        // Not timed: several buffers, or a position, make it another kind of read.
        Answer::Plain(noted) => read_in_foreground(
            runtime,
            Noted {
                sample: None,
                ..noted
            },
            next,
        ),
        Answer::Fail => -1,
        Answer::InBackground(_) => {
            let result = next();
            runtime.count_unserved_read(descriptor, result);
            result
        }
    }
}

/// Makes a read into several buffers at an offset, with the flags of `preadv2`.
#[inline(always)]
fn read_vector_at(call: &VectorCall, next: impl FnOnce() -> ssize_t) -> ssize_t {
    match runtime::known(call.descriptor).map(|(runtime, known)| (runtime, known.entry())) {
        Some((runtime, Entry::Tracked(tracked))) => {
            read_tracked_vector_at(runtime, tracked, call, next)
        }
        _ => read_unserved(call.descriptor, Order::Unknown, next),
    }
}

pub(super) const WHOLE_FILE: Operation = Operation::ReadAt {
    start: 0,
    end: u64::MAX,
};

/// The offset by which `preadv2` reads at the descriptor's position.
const AT_POSITION: off64_t = -1;

/// The most buffers of one call (`UIO_MAXIOV` of the kernel). It refuses more.
const BUFFERS_MAX: c_int = 1024;

/// A call of `preadv` or `preadv2`.
struct VectorCall {
    descriptor: c_int,
    vector: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
}

impl VectorCall {
    /// What the call asks for, for a staged file. The file's end, if nobody can tell.
    fn range(&self) -> Operation {
        let start = self.offset.max(0) as u64;
        let length_bytes = self.count.max(0) as usize * size_of::<iovec>();
        if self.count > BUFFERS_MAX || !memory::readable(self.vector.cast(), length_bytes) {
            return WHOLE_FILE;
        }
        let mut end = start;
        for number in 0..self.count.max(0) as usize {
            // SAFETY: the kernel has been asked whether it can be read.
            let buffer = unsafe { self.vector.add(number).read_unaligned() };
            end = end.saturating_add(buffer.iov_len as u64);
        }
        Operation::ReadAt { start, end }
    }
}

#[inline(never)]
fn read_tracked_vector_at(
    runtime: &Runtime,
    tracked: TrackedFile,
    call: &VectorCall,
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let is_staged = runtime.writes.is_staged(&runtime.core, tracked);
    let operation = match (call.offset >= 0, is_staged) {
        (true, true) => call.range(),
        // Only its result tells what it has read.
        (true, false) => Operation::Unknown,
        (false, _) => Operation::Read,
    };
    // As for pages that are not in the page cache, the caller tries again with a call that may wait.
    let seen = match call.offset {
        AT_POSITION => WHOLE_FILE,
        _ => operation,
    };
    if call.flags & libc::RWF_NOWAIT != 0
        && call.offset >= AT_POSITION
        && staged::would_wait(runtime, tracked, call.descriptor, seen)
    {
        errno::set(libc::EAGAIN);
        return -1;
    }
    // Without an offset it reads at the position. Pages that shall not stay are the kernel's to read ahead: it drops
    // them.
    if call.offset == AT_POSITION || call.flags & file::RWF_DONTCACHE != 0 {
        return read_known_unserved(call.descriptor, Order::InSequence, operation, next);
    }
    let Ok(offset) = u64::try_from(call.offset) else {
        // The kernel refuses it.
        return next();
    };
    if !is_staged {
        runtime.before_vector_read(tracked, call.descriptor);
    }
    let result = read_known_unserved(call.descriptor, Order::Unknown, operation, next);
    // A call that must not wait starts nothing either.
    if result > 0 && call.flags & libc::RWF_NOWAIT == 0 {
        runtime.after_vector_read(tracked, call.descriptor, offset, result as u64);
    }
    result
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
        // Unlike `preadv2`, the kernel refuses negative offsets.
        if offset < 0 {
            return next();
        }
        read_vector_at(&VectorCall { descriptor, vector, count, offset, flags: 0 }, next)
    }
    fn preadv2 | preadv64v2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t |next| {
        read_vector_at(&VectorCall { descriptor, vector, count, offset, flags }, next)
    }
}
