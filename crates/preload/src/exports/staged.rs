//! Prepares staged files for interposed calls: drains them, or ends their staging.

use super::answer::{Failed, report_to_caller, unless_failed};
use crate::core::descriptor_map::TrackedFile;
use crate::runtime::{self, Runtime};
use crate::writes::{Before, Reach, Sync};
use coldstream_control::Counter;
use coldstream_io::append::Operation;
use libc::c_int;

/// The staged file that a descriptor names. For any other descriptor this costs two or three loads.
#[inline]
pub(super) fn find(descriptor: c_int) -> Option<(&'static Runtime, TrackedFile)> {
    let runtime = runtime::get()?;
    Some((runtime, runtime.writes.find(&runtime.core, descriptor)?))
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
    let operation = if whence == libc::SEEK_CUR && offset == 0 {
        Operation::AskPosition
    } else {
        Operation::MovePosition
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

/// The runtime, if any file is staged.
#[inline]
pub(super) fn any() -> Option<&'static Runtime> {
    runtime::get().filter(|runtime| runtime.writes.any())
}

/// A call has observed a file by its name and found this inode. Drains the file if it is staged, and returns
/// whether the call must be repeated.
#[inline]
pub(super) fn must_look_again(found: impl FnOnce() -> Option<(u64, u64)>) -> bool {
    let Some(runtime) = any() else {
        return false;
    };
    found().is_some_and(|(device, inode)| {
        runtime
            .writes
            .drain_identity(&runtime.core, (device, inode), Reach::Sees)
    })
}
