//! Prepares staged files for interposed calls: drains them, or ends their staging.

use super::answer::{Failed, report_to_caller, unless_failed};
use coldstream_control::Counter;
use coldstream_engine::core::descriptor_map::TrackedFile;
use coldstream_engine::runtime::{self, Runtime};
use coldstream_engine::writes::{Before, Reach, Sync};
use coldstream_io::Errno;
use coldstream_io::append::{Operation, Size};
use coldstream_io::sys::file;
use libc::c_int;
use std::cell::Cell;

/// The staged file that a descriptor names. For any other descriptor this costs two or three loads.
#[inline]
pub(super) fn find(descriptor: c_int) -> Option<(&'static Runtime, TrackedFile)> {
    let runtime = runtime::get()?;
    Some((runtime, runtime.writes.find(&runtime.core, descriptor)?))
}

/// Whether a call must see bytes of a staged file that the kernel may not have. To write them takes the file's lock,
/// and perhaps the device. This waits for neither.
pub(super) fn would_wait(
    runtime: &Runtime,
    tracked: TrackedFile,
    descriptor: c_int,
    operation: Operation,
) -> bool {
    let (writes, core) = (&runtime.writes, &runtime.core);
    !writes.sees_only_landed(core, tracked.slot, descriptor, operation)
}

/// Drains a staged file before a call that must see all of its bytes.
#[inline]
pub(super) fn drain_before(descriptor: c_int, operation: Operation) -> Result<(), Failed> {
    match find(descriptor) {
        Some((runtime, tracked)) => report_to_caller(runtime.writes.before(
            &runtime.core,
            tracked,
            descriptor,
            operation,
            Counter::StagingEndedMapping,
        ))
        .map(|_| ()),
        None => Ok(()),
    }
}

/// Makes a call that must see all bytes of a staged file.
#[inline]
pub(super) fn with_drained(
    descriptor: c_int,
    operation: Operation,
    next: impl FnOnce() -> c_int,
) -> c_int {
    unless_failed(drain_before(descriptor, operation), next)
}

/// Ends the staging of a file before a call that the staged file cannot follow.
#[inline]
pub(super) fn fall_back(descriptor: c_int, reason: Counter) -> Result<(), Failed> {
    match find(descriptor) {
        Some((runtime, tracked)) => report_to_caller(runtime.writes.before(
            &runtime.core,
            tracked,
            descriptor,
            Operation::Unknown,
            reason,
        ))
        .map(|_| ()),
        None => Ok(()),
    }
}

/// To be called before `aio_fsync`, whose end is not followed. The file falls back. The error of a delayed
/// write fails the call.
pub(super) fn before_unfollowed_sync(descriptor: c_int) -> Result<(), Failed> {
    fall_back(descriptor, Counter::StagingEndedCall)?;
    match find(descriptor) {
        Some((runtime, tracked)) => report_to_caller(runtime.writes.after_sync(
            &runtime.core,
            tracked,
            descriptor,
            Sync::NotMade,
        )),
        None => Ok(()),
    }
}

/// Makes `ftruncate`.
#[inline]
pub(super) fn truncate(descriptor: c_int, size: i64, next: impl FnOnce() -> c_int) -> c_int {
    let Some((runtime, tracked)) = find(descriptor) else {
        return next();
    };
    let before = runtime.writes.before(
        &runtime.core,
        tracked,
        descriptor,
        Operation::Truncate,
        Counter::StagingEndedCall,
    );
    unless_failed(report_to_caller(before).map(|_| ()), || {
        let result = next();
        if let (0, Ok(size)) = (result, u64::try_from(size)) {
            runtime.writes.record_truncate(&runtime.core, tracked, size);
        }
        result
    })
}

/// Makes `lseek`.
#[inline]
pub(super) fn lseek_staged(
    descriptor: c_int,
    offset: i64,
    whence: c_int,
    next: impl FnOnce() -> i64,
) -> i64 {
    let Some((runtime, tracked)) = find(descriptor) else {
        return next();
    };
    if whence == libc::SEEK_END
        && !(runtime.writes).is_written_by(&runtime.core, tracked.slot, descriptor)
        && let Some(size) = size_with_staged(runtime, descriptor)
    {
        return seek_to(descriptor, size.checked_add(offset));
    }
    let operation = match whence {
        libc::SEEK_CUR if offset == 0 => Operation::AskPosition,
        libc::SEEK_CUR | libc::SEEK_SET => Operation::MovePosition,
        libc::SEEK_END if offset == 0 => Operation::MoveToEnd,
        _ => Operation::MoveByContent,
    };
    let before = runtime.writes.before(
        &runtime.core,
        tracked,
        descriptor,
        operation,
        Counter::StagingEndedPosition,
    );
    match report_to_caller(before) {
        Ok(Before::Answer(position)) => position as i64,
        Ok(Before::Plain) => {
            let result = next();
            if let Ok(position) = u64::try_from(result) {
                (runtime.writes).record_seek(&runtime.core, tracked, descriptor, position);
            }
            result
        }
        Err(Failed) => -1,
    }
}

/// The size of the file behind a descriptor, if bytes of it are staged. Otherwise the kernel's is right.
fn size_with_staged(runtime: &Runtime, descriptor: c_int) -> Option<i64> {
    let (stamp, size) = (Cell::new(None), Cell::new(None));
    observe_staged(
        runtime,
        || match file::stamp(descriptor) {
            Ok(found) => {
                stamp.set(Some(found));
                0
            }
            Err(_) => -1,
        },
        || stamp.get().map(|found| (found.device, found.inode)),
        |found| size.set(Some(found.bytes)),
    );
    size.get().and_then(|size| i64::try_from(size).ok())
}

/// Sets a descriptor's position as `lseek` does; `None` is a place that no file has.
fn seek_to(descriptor: c_int, position: Option<i64>) -> i64 {
    let position = position.and_then(|position| u64::try_from(position).ok());
    let set = match position {
        Some(position) => file::set_position(descriptor, position).map(|()| position as i64),
        None => Err(Errno(libc::EINVAL)),
    };
    report_to_caller(set).unwrap_or(-1)
}

/// The runtime, if any file is staged.
#[inline]
pub(super) fn any() -> Option<&'static Runtime> {
    runtime::get().filter(|runtime| runtime.writes.any())
}

/// How often an observation is repeated while staged files come and go. After that the file is drained.
const OBSERVATIONS_MAX: usize = 8;

/// Makes a call that reports a file's size. `found` is device and inode of a successful call. If bytes are staged
/// that it could not count, `correct` gets the size that the application must see.
///
/// Waits for no lock and no device, unless other staged files come or go each time it looks.
#[inline]
pub(super) fn observe(
    next: impl Fn() -> c_int,
    found: impl Fn() -> Option<(u64, u64)>,
    correct: impl FnOnce(Size),
) -> c_int {
    match any() {
        Some(runtime) => observe_staged(runtime, next, found, correct),
        None => next(),
    }
}

#[cold]
fn observe_staged(
    runtime: &Runtime,
    next: impl Fn() -> c_int,
    found: impl Fn() -> Option<(u64, u64)>,
    correct: impl FnOnce(Size),
) -> c_int {
    let views = runtime.writes.views();
    let find = || {
        found()
            .filter(|_| !runtime.core.owner.is_seen_by_a_child())
            .and_then(|(device, inode)| views.find(device, inode))
    };
    for _ in 0..OBSERVATIONS_MAX {
        let moment = views.moment();
        let result = next();
        if result != 0 {
            return result;
        }
        let Some(number) = find() else {
            if views.is_still(moment) {
                return result;
            }
            continue;
        };
        // The kernel counts everything that has landed before it is asked.
        let landed = views.landed(number);
        let result = next();
        if result != 0 {
            return result;
        }
        let size = views.size_beyond(number, landed);
        if find() == Some(number) && views.is_still(moment) {
            if let Some(size) = size {
                correct(size);
            }
            return result;
        }
    }
    if let Some(identity) = found() {
        let (core, reach) = (&runtime.core, Reach::Sees);
        let _ = runtime.writes.drain_identity(core, identity, reach);
    }
    next()
}
