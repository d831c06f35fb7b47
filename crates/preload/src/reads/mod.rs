//! A background thread reads a table: serves the bytes around the page cache, or says that the
//! plain call must be made.

pub(crate) mod filesystems;

use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::pacing::Moved;
use crate::reads::filesystems::Choice;
use crate::runtime::Runtime;
use crate::settings;
use crate::thread::{self, Inside};
use coldstream_control::{Counter, Mechanism};
use coldstream_io::scan::{BufferCheck, Fallback, Outcome, ReadMode, Request};
use coldstream_io::sys::file::{self, FileStamp};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when Coldstream's own code panicked: from then on everything passes through.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Makes a background thread's read: out of windows if that can be done, else by `plain`.
///
/// # Safety
/// `destination` and `length_bytes` are what the application gave to `pread`.
#[cold]
pub(crate) unsafe fn read(
    runtime: &Runtime,
    tracked: TrackedFile,
    descriptor: i32,
    destination: *mut u8,
    length_bytes: usize,
    offset: i64,
    plain: impl FnOnce() -> isize,
) -> isize {
    if runtime.are_seen_by_a_child() {
        return plain();
    }
    runtime.pace_read(descriptor, offset);
    let served = if !runtime.switches.is_on(Mechanism::Reads) {
        runtime.count(Counter::FallbackSwitchedOff, 1);
        None
    } else {
        let _errno = ErrnoGuard::new();
        match Inside::enter() {
            Some(_inside) if !BROKEN.load(Ordering::Relaxed) => {
                let attempt = AssertUnwindSafe(|| {
                    // SAFETY: passed on.
                    let served = unsafe {
                        serve(
                            runtime,
                            tracked,
                            descriptor,
                            destination,
                            length_bytes,
                            offset,
                        )
                    };
                    if !runtime.switches.is_on(Mechanism::Reads) {
                        // The control thread may have closed the windows before this read made some.
                        runtime.scanner.close(tracked.slot, runtime);
                        runtime.note_memory();
                    }
                    served
                });
                // Nothing may unwind into the database.
                catch_unwind(attempt).unwrap_or_else(|_| {
                    note_panic(runtime);
                    None
                })
            }
            _ => None,
        }
    };
    served.unwrap_or_else(|| {
        runtime.note_plain_read(
            tracked,
            descriptor,
            offset.max(0) as u64,
            length_bytes as u64,
        );
        let result = plain();
        count_plain(runtime, result);
        runtime.note_paced(Moved::Read, u64::try_from(result).unwrap_or(0));
        let offset = offset.max(0) as u64;
        runtime.note_scan(tracked, offset, offset + result.max(0) as u64);
        result
    })
}

/// Coldstream's own code panicked: from now on everything passes through.
#[cold]
pub(crate) fn note_panic(runtime: &Runtime) {
    BROKEN.store(true, Ordering::Relaxed);
    runtime.count(Counter::FallbackPanic, 1);
}

/// Whether Coldstream's own code has panicked.
pub(crate) fn is_broken() -> bool {
    BROKEN.load(Ordering::Relaxed)
}

/// Counts a background read that was left to the kernel.
pub(crate) fn count_plain(runtime: &Runtime, result: isize) {
    runtime.count(Counter::BackgroundReads, 1);
    if let Ok(bytes) = u64::try_from(result) {
        runtime.count(Counter::BackgroundBytes, bytes);
        runtime.count(Counter::BytesBuffered, bytes);
    }
}

/// # Safety
/// As for [`read`].
unsafe fn serve(
    runtime: &Runtime,
    tracked: TrackedFile,
    descriptor: i32,
    destination: *mut u8,
    length_bytes: usize,
    offset: i64,
) -> Option<isize> {
    // A negative offset is the kernel's to refuse; a read of nothing its to allow.
    let offset = u64::try_from(offset).ok()?;
    if length_bytes == 0 {
        return None;
    }
    let (stamp, choice) = match eligible(runtime, tracked, descriptor) {
        Ok(found) => found,
        Err(reason) => {
            if let Some(reason) = reason {
                runtime.count(reason, 1);
            }
            return None;
        }
    };
    runtime.note_input(descriptor, &stamp, offset);
    let mode = match choice {
        Choice::Windows(mode) => mode,
        Choice::Buffered(reason) => {
            if let Some(reason) = reason {
                runtime.count(reason, 1);
            }
            return None;
        }
    };
    let request = Request {
        slot: tracked.slot,
        descriptor,
        stamp,
        mode,
        offset,
    };
    // SAFETY: the kernel is asked whether the destination is writable; it is the
    // application's, and nothing in this library relies on its content.
    let outcome = unsafe {
        runtime.scanner.read(
            &request,
            destination,
            length_bytes,
            BufferCheck::AskKernel,
            runtime,
        )
    };
    match outcome {
        Outcome::Served {
            bytes,
            cached_bytes,
        } => {
            runtime.count(Counter::BackgroundReads, 1);
            runtime.count(Counter::BackgroundBytes, bytes as u64);
            runtime.count(Counter::BytesFromCache, cached_bytes as u64);
            thread::note_served(bytes as u64, cached_bytes as u64);
            thread::note_read_for_writing(cached_bytes as u64);
            runtime.note_paced(Moved::Read, (bytes - cached_bytes) as u64);
            runtime.count(bytes_counter(mode), (bytes - cached_bytes) as u64);
            Some(bytes as isize)
        }
        Outcome::Plain(reason) => {
            runtime.count(reason_counter(reason), 1);
            None
        }
    }
}

/// Whether background reads of a table can be served at all, and how. `Err` holds the reason
/// to count, if it is not the kernel's to name.
pub(crate) fn eligible(
    runtime: &Runtime,
    tracked: TrackedFile,
    descriptor: i32,
) -> Result<(FileStamp, Choice), Option<Counter>> {
    if !tracked.servable {
        return Err(Some(if tracked.writable {
            Counter::FallbackWritten
        } else {
            Counter::FallbackDescriptorFlags
        }));
    }
    let inode = runtime.inodes.get(tracked.slot).ok_or(None)?;
    // A descriptor that is not open any more: the kernel will say so.
    let mut stamp = file::stamp(descriptor).map_err(|_| None)?;
    if !inode.is(&stamp) || !stamp.is_regular() {
        return Err(Some(Counter::FallbackIdentity));
    }
    if inode.may_be_written() {
        return Err(Some(Counter::FallbackWritten));
    }
    if inode.is_locked() || !reads_plainly(descriptor) {
        return Err(Some(Counter::FallbackDescriptorFlags));
    }
    stamp.noticed_changes = inode.changes();
    if let Some(choice) = Choice::decode(inode.method()) {
        return Ok((stamp, choice));
    }
    let settings = settings::get().ok_or(None)?;
    let choice = runtime
        .filesystems
        .choose(settings, descriptor, stamp.device)
        .ok_or(Some(Counter::FallbackOpenFailed))?;
    inode.set_method(choice.encode());
    if let Some(page) = runtime.page() {
        page.set_in_force(choice.io_mode());
    }
    if runtime.first_to_say_what_is_in_force() {
        crate::report::log_reads(settings, choice.io_mode());
    }
    Ok((stamp, choice))
}

/// Whether a descriptor may be read, and through the page cache. Its flags are shared with its
/// duplicates in other processes too, and its number may have been given to another opening of
/// the same file, both unseen: only the kernel knows.
fn reads_plainly(descriptor: i32) -> bool {
    file::status_flags(descriptor).is_ok_and(|flags| {
        flags & libc::O_ACCMODE != libc::O_WRONLY && flags & (libc::O_DIRECT | libc::O_PATH) == 0
    })
}

/// A background thread advises that it will need a range of a table: it will be served from
/// windows, so that the advice would only pull pages in that nobody reads. Whether the advice
/// is done with.
#[cold]
pub(crate) fn swallow_advice(runtime: &Runtime, tracked: TrackedFile, descriptor: i32) -> bool {
    let _errno = ErrnoGuard::new();
    let Some(_inside) = Inside::enter() else {
        return false;
    };
    if BROKEN.load(Ordering::Relaxed) || !runtime.switches.is_on(Mechanism::Reads) {
        return false;
    }
    let served = matches!(
        eligible(runtime, tracked, descriptor),
        Ok((_, Choice::Windows(_)))
    );
    if served {
        runtime.count(Counter::ReadaheadAdviceSkipped, 1);
    }
    served
}

fn bytes_counter(mode: ReadMode) -> Counter {
    match mode {
        ReadMode::Direct(_) => Counter::BytesDirect,
        ReadMode::DontCache => Counter::BytesDontcache,
        ReadMode::DropBehind => Counter::BytesDropBehind,
    }
}

fn reason_counter(reason: Fallback) -> Counter {
    match reason {
        Fallback::ChangedRecently => Counter::FallbackChangedRecently,
        Fallback::DescriptorLimit => Counter::FallbackDescriptorLimit,
        Fallback::OpenFailed => Counter::FallbackOpenFailed,
        Fallback::Identity => Counter::FallbackIdentity,
        Fallback::ReadFailed => Counter::FallbackReadFailed,
        Fallback::MemoryCap => Counter::FallbackMemoryCap,
        Fallback::StreamLimit => Counter::FallbackStreamLimit,
        Fallback::BadBuffer => Counter::FallbackCall,
    }
}
