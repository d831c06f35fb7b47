//! `sendfile(2)`, `copy_file_range(2)`, `splice(2)`: the kernel moves bytes between descriptors.

use super::change::with_fallen_back;
use super::next::interpose;
use super::read::{Order, read_known_unserved};
use super::staged;
use coldstream_control::Counter;
use coldstream_engine::core::errno::ErrnoGuard;
use coldstream_engine::runtime;
use coldstream_engine::sending::SendCall;
use coldstream_io::append::Operation;
use libc::{c_int, c_uint, off64_t, size_t, ssize_t};

/// Sends bytes from one descriptor to another, from the position at `position`.
#[inline]
fn send(
    to: c_int,
    from: c_int,
    position: *const off64_t,
    length_bytes: size_t,
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let call = SendCall {
        descriptor: from,
        position,
        length_bytes: length_bytes as u64,
    };
    let runtime = runtime::get();
    let tracked = runtime.and_then(|runtime| runtime.core.tracked(from));
    match (runtime, tracked) {
        (Some(runtime), Some(tracked)) if runtime.before_send(tracked, &call) => {
            with_fallen_back(to, || {
                let result = next();
                let _errno = ErrnoGuard::new();
                (runtime.core).count(Counter::SendfileBytes, u64::try_from(result).unwrap_or(0));
                result
            })
        }
        _ => copy(to, &call, next),
    }
}

/// Copies bytes from one descriptor to another.
#[inline]
fn copy(to: c_int, from: &SendCall, next: impl FnOnce() -> ssize_t) -> ssize_t {
    with_fallen_back(to, || {
        let operation = match staged::find(from.descriptor) {
            Some(_) => from.range(),
            None => Operation::Read,
        };
        read_known_unserved(from.descriptor, Order::InSequence, operation, next)
    })
}

interpose! {
    fn sendfile | sendfile64(to: c_int, from: c_int, offset: *mut off64_t, length: size_t) -> ssize_t |next| {
        send(to, from, offset, length, next)
    }
    fn copy_file_range | splice(from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, length: size_t, flags: c_uint) -> ssize_t |next| {
        let from = SendCall { descriptor: from, position: from_offset, length_bytes: length as u64 };
        copy(to, &from, next)
    }
}
