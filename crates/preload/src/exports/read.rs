//! Reading: where background threads part from the foreground.

use super::change::with_fallen_back;
use super::staged::{self, Failed};
use super::unless_private;
use crate::core::descriptor_map::{Entry, TrackedDescriptor, TrackedFile};
use crate::core::errno::{self, ErrnoGuard};
use crate::exports::next::interpose;
use crate::reads;
use crate::runtime::{self, Runtime};
use crate::thread::{self, Caller};
use coldstream_control::Counter;
use coldstream_io::append::Operation;
use coldstream_io::sys::process;
use libc::{c_int, c_uint, c_void, iovec, off64_t, size_t, ssize_t};

/// Whose read of a known descriptor this is.
enum Reader {
    /// The foreground's: goes on as it is.
    Foreground,
    /// The foreground's, to be timed.
    Timed,
    /// A background thread's.
    Background(TrackedFile),
    /// The descriptor is one that the application does not have, or not everything of its table can
    /// be brought to the kernel: fails, and errno says why.
    Nobody,
}

/// Before a staged table is read, what `operation` would miss goes to the kernel.
// Out of the way of calls on other descriptors, which are inlined.
#[inline(never)]
fn reader(
    runtime: &'static Runtime,
    known: TrackedDescriptor,
    descriptor: c_int,
    operation: Operation,
) -> Reader {
    let Entry::Tracked(tracked) = known.entry() else {
        if !runtime.is_private_still(descriptor) {
            return Reader::Foreground;
        }
        errno::set(libc::EBADF);
        return Reader::Nobody;
    };
    if runtime.is_staged(tracked) && !runtime.are_seen_by_a_child() {
        return reader_of_staged(runtime, tracked, descriptor, operation);
    }
    let scans = |ahead| runtime.read_ahead(tracked, descriptor, ahead);
    let caller = thread::note_read(descriptor, operation, scans);
    let Caller::Foreground { in_scan, in_turn } = caller else {
        return Reader::Background(tracked);
    };
    runtime.note_foreground_use(tracked.slot, operation, in_scan);
    if in_turn && runtime.is_timed() {
        Reader::Timed
    } else {
        Reader::Foreground
    }
}

/// What is being written is the kernel's to read, once it has everything.
#[cold]
fn reader_of_staged(
    runtime: &'static Runtime,
    tracked: TrackedFile,
    descriptor: c_int,
    operation: Operation,
) -> Reader {
    let before = runtime.before(
        tracked,
        descriptor,
        operation,
        Counter::StagingEndedPosition,
    );
    if staged::report_to_caller(before).is_err() {
        return Reader::Nobody;
    }
    if let Caller::Foreground { in_scan, in_turn } =
        thread::note_read(descriptor, operation, |_| ())
    {
        runtime.note_foreground_use(tracked.slot, operation, in_scan);
        if in_turn {
            runtime.is_timed();
        }
    }
    Reader::Foreground
}

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
    match reader(runtime, known, descriptor, range) {
        Reader::Foreground => next(),
        Reader::Timed => timed(runtime, next),
        Reader::Nobody => -1,
        // SAFETY: passed on.
        Reader::Background(tracked) => unsafe {
            reads::read(
                runtime,
                tracked,
                descriptor,
                buffer.cast(),
                length_bytes,
                offset,
                next,
            )
        },
    }
}

/// The foreground's read of a table, and how long it took. Leaves `errno` alone.
#[cold]
fn timed(runtime: &Runtime, next: impl FnOnce() -> ssize_t) -> ssize_t {
    let begun = process::monotonic_ns();
    let result = next();
    if result > 0 {
        runtime.note_timed_read(process::monotonic_ns().saturating_sub(begun));
    }
    result
}

/// What is known of a read of which it is not known where it reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// It begins where the last one ended.
    InSequence,
    Unknown,
}

/// A read that is never served (it moves a position, or scatters): counted.
#[inline(always)]
fn read_otherwise(descriptor: c_int, order: Order, next: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some((runtime, known)) = runtime::known(descriptor) else {
        return next();
    };
    if order == Order::InSequence
        && let Entry::Tracked(tracked) = known.entry()
    {
        runtime.note_in_sequence(tracked, descriptor);
    }
    match reader(runtime, known, descriptor, Operation::Read) {
        Reader::Foreground | Reader::Timed => next(),
        Reader::Nobody => -1,
        Reader::Background(_) => {
            let result = next();
            let _errno = ErrnoGuard::new();
            runtime.count(Counter::FallbackCall, 1);
            reads::count_plain(runtime, result);
            result
        }
    }
}

/// Advice that a range will be needed, from a background thread whose reads are served.
fn advice_is_done_with(runtime: &Runtime, tracked: TrackedFile, descriptor: c_int) -> bool {
    !runtime.is_staged(tracked)
        && thread::is_background_reader()
        && reads::swallow_advice(runtime, tracked, descriptor)
}

fn advise(
    descriptor: c_int,
    offset: off64_t,
    length_bytes: off64_t,
    advice: c_int,
    next: impl FnOnce() -> c_int,
) -> c_int {
    let Some(runtime) = runtime::get() else {
        return next();
    };
    if runtime.is_private(descriptor) {
        return libc::EBADF;
    }
    let Some(tracked) = runtime.tracked(descriptor) else {
        return next();
    };
    let wanted = advice == libc::POSIX_FADV_WILLNEED && offset >= 0 && length_bytes >= 0;
    if wanted && advice_is_done_with(runtime, tracked, descriptor) {
        return 0;
    }
    let how = [
        libc::POSIX_FADV_NORMAL,
        libc::POSIX_FADV_SEQUENTIAL,
        libc::POSIX_FADV_RANDOM,
    ];
    // Whatever range they name, the kernel takes them for the whole (`mm/fadvise.c`).
    if length_bytes >= 0 && how.contains(&advice) && runtime.advised(tracked, descriptor, advice) {
        return 0;
    }
    next()
}

/// A table behind a descriptor of the application.
fn readable_table(descriptor: c_int) -> Option<(&'static Runtime, TrackedFile)> {
    let runtime = runtime::get()?;
    Some((runtime, runtime.tracked(descriptor)?))
}

fn map(
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    (length, offset): (size_t, off64_t),
    next: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS == 0
        && runtime::get().is_some_and(|runtime| runtime.is_private(descriptor))
    {
        errno::set(libc::EBADF);
        return libc::MAP_FAILED;
    }
    if descriptor >= 0 {
        let end = (offset.max(0) as u64).saturating_add(length as u64);
        if before_mapping(protection, flags, descriptor, end).is_err() {
            return libc::MAP_FAILED;
        }
    }
    let mapped = next();
    if descriptor >= 0
        && mapped != libc::MAP_FAILED
        && let Some(runtime) = runtime::get()
    {
        runtime.note_mapping(descriptor, protection, flags);
        runtime.advise_mapping(descriptor, mapped as usize, length);
        if runtime.tracked(descriptor).is_none() {
            runtime.hand_over_after_mapping(descriptor);
        }
    }
    mapped
}

/// A mapping of a staged table up to `end`: harmless while no byte that is yet to come can show
/// in it.
fn before_mapping(
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    end: u64,
) -> Result<(), Failed> {
    let Some((_, tracked)) = staged::tracked(descriptor) else {
        return Ok(());
    };
    let only_reads = protection & libc::PROT_WRITE == 0 || flags & libc::MAP_PRIVATE != 0;
    let operation = if only_reads && !tracked.writable {
        Operation::Map { end }
    } else {
        Operation::Unknown
    };
    staged::look(descriptor, operation)
}

/// Bytes sent from one descriptor to another, from the position at `position`.
#[inline]
fn sendfile_tracked(
    to: c_int,
    from: c_int,
    position: *const off64_t,
    length_bytes: size_t,
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    match readable_table(from) {
        Some((runtime, tracked))
            if runtime.follow_sending(tracked, from, position, length_bytes) =>
        {
            with_fallen_back(to, || {
                let result = next();
                let _errno = ErrnoGuard::new();
                runtime.count(Counter::SendfileBytes, u64::try_from(result).unwrap_or(0));
                result
            })
        }
        _ => copy_tracked(to, from, next),
    }
}

/// Bytes moved from one descriptor to another.
#[inline]
fn copy_tracked(to: c_int, from: c_int, next: impl FnOnce() -> ssize_t) -> ssize_t {
    with_fallen_back(to, || read_otherwise(from, Order::InSequence, next))
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
        read_otherwise(descriptor, Order::InSequence, next)
    }
    fn __read_chk(descriptor: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t |next| {
        read_otherwise(descriptor, Order::InSequence, next)
    }
    fn readv(descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t |next| {
        read_otherwise(descriptor, Order::InSequence, next)
    }
    fn preadv | preadv64(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t |next| {
        read_otherwise(descriptor, Order::Unknown, next)
    }
    fn preadv2 | preadv64v2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t |next| {
        read_otherwise(descriptor, Order::Unknown, next)
    }
    fn readahead(descriptor: c_int, offset: off64_t, length: size_t) -> ssize_t |next| {
        unless_private(descriptor, || match readable_table(descriptor) {
            Some((runtime, tracked))
                if offset >= 0 && advice_is_done_with(runtime, tracked, descriptor) =>
            {
                0
            }
            _ => next(),
        })
    }
    fn posix_fadvise | posix_fadvise64(descriptor: c_int, offset: off64_t, length: off64_t, advice: c_int) -> c_int |next| {
        advise(descriptor, offset, length, advice, next)
    }
    fn mmap | mmap64(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, descriptor: c_int, offset: off64_t) -> *mut c_void |next| {
        map(protection, flags, descriptor, (length, offset), next)
    }
    fn sendfile | sendfile64(to: c_int, from: c_int, offset: *mut off64_t, length: size_t) -> ssize_t |next| {
        sendfile_tracked(to, from, offset, length, next)
    }
    fn copy_file_range | splice(from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, length: size_t, flags: c_uint) -> ssize_t |next| {
        copy_tracked(to, from, next)
    }
}
