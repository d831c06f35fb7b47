//! Pacing of I/O that the caller makes itself. The functions for files and writers have it within.

use crate::context::coldstream;
use crate::guard::{guarded, handle};
use crate::types::{coldstream_activity, role_of};
use coldstream_engine::background::{Moved, TimedRead};
use coldstream_engine::runtime::Runtime;
use coldstream_engine::thread;
use coldstream_io::sys::process;
use coldstream_policy::Role;
use std::ffi::c_int;

/// Waits, if it must, before the calling thread reads or writes in the background. It waits for a second at most, and
/// never in the foreground or in a flush. Hold no lock that the foreground needs.
///
/// Returns the nanoseconds that it waited.
///
/// # Safety
/// The context is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_pace(
    context: *const coldstream,
    activity: coldstream_activity,
) -> u64 {
    guarded(0, || {
        // SAFETY: passed on.
        unsafe { background(context, activity) }.map_or(0, |(runtime, _)| {
            runtime.background.wait_for_permit(&runtime.core)
        })
    })
}

/// The calling thread has moved bytes in the background. `written` is 0 for a read.
///
/// # Safety
/// The context is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_pace_moved(
    context: *const coldstream,
    activity: coldstream_activity,
    written: c_int,
    bytes: u64,
) {
    guarded((), || {
        // SAFETY: passed on.
        if let Some((runtime, role)) = unsafe { background(context, activity) } {
            if role != Role::Flush {
                runtime.background.record_work();
            }
            let moved = match written {
                0 => Moved::Read,
                _ => Moved::Written,
            };
            runtime.background.record_moved(&runtime.core, moved, bytes);
        }
    });
}

/// A foreground read of the caller's own took so many nanoseconds, from the device or not. Pacing follows these times.
/// Where `coldstream_note_read` is used, this is not needed.
///
/// # Safety
/// The context is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_note_latency(context: *const coldstream, nanoseconds: u64) {
    guarded((), || {
        // SAFETY: passed on.
        if let Some(runtime) = unsafe { handle(context) }
            .ok()
            .and_then(coldstream::runtime)
        {
            let read = TimedRead {
                stands_for_all: false,
                ns: nanoseconds,
                ended_ns: process::monotonic_ns(),
            };
            runtime.background.record_timed_read(&runtime.core, read);
        }
    });
}

/// The engine, if the activity is a background one. The calling thread has its role from now on.
///
/// # Safety
/// The context is null or valid.
unsafe fn background(
    context: *const coldstream,
    activity: coldstream_activity,
) -> Option<(&'static Runtime, Role)> {
    // SAFETY: passed on.
    let runtime = unsafe { handle(context) }.ok()?.runtime()?;
    let role = role_of(activity).ok()?;
    thread::declare_role(role);
    (role != Role::Foreground).then_some((runtime, role))
}
