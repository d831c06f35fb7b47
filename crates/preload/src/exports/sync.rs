//! `fsync(2)`, `syncfs(2)`, `sync_file_range(2)`: what they promise holds for staged bytes, too.

use super::answer::{report_to_caller, unless_private};
use super::next::interpose;
use super::staged;
use coldstream_engine::runtime;
use coldstream_io::append::Operation;
use coldstream_io::sys::file;
use libc::{c_int, c_uint, off64_t};

#[inline]
fn sync(descriptor: c_int, next: impl FnOnce() -> c_int) -> c_int {
    match runtime::get() {
        Some(runtime) => runtime.sync(descriptor, next),
        None => next(),
    }
}

#[inline]
fn sync_filesystem(descriptor: c_int, next: impl FnOnce() -> c_int) -> c_int {
    let late = staged::any().map_or(Ok(()), |runtime| match file::stamp(descriptor) {
        Ok(stamp) => runtime.before_filesystem_sync(stamp.device),
        Err(_) => Ok(()),
    });
    let result = next();
    if result == 0 && report_to_caller(late).is_err() {
        return -1;
    }
    result
}

interpose! {
    fn sync_file_range(descriptor: c_int, offset: off64_t, length: off64_t, flags: c_uint) -> c_int |next| {
        unless_private(descriptor, || staged::with_drained(descriptor, Operation::Sync, next))
    }
    fn fsync | fdatasync(descriptor: c_int) -> c_int |next| { unless_private(descriptor, || sync(descriptor, next)) }
    fn syncfs(descriptor: c_int) -> c_int |next| {
        unless_private(descriptor, || sync_filesystem(descriptor, next))
    }
}
