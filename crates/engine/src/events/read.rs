//! Reads of tracked files: who makes each, and how it is made.

use crate::background::{Moved, TimedRead};
use crate::core::Core;
use crate::core::descriptor_map::{Entry, KnownDescriptor, TrackedFile};
use crate::core::errno::{self, ErrnoGuard};
use crate::core::inode_map::Inode;
use crate::core::{fuse, is_private_still};
use crate::heat::Use;
use crate::readahead;
use crate::reads::{self, ReadCall};
use crate::runtime::Runtime;
use crate::thread::{self, Caller, Inside, OwnTable};
use coldstream_control::{Counter, Mechanism};
use coldstream_io::append::Operation;
use coldstream_io::sys::file::FileStamp;
use coldstream_policy::scan::Ahead;

/// Whether a file is in the directory of a new SSTable that the calling thread has open for writing.
#[cold]
pub(super) fn is_beside(core: &Core, own: OwnTable, tracked: TrackedFile) -> bool {
    let is_open =
        (core.tracked(own.descriptor)).is_some_and(|it| it.writable && it.slot == own.slot);
    let directory = |slot| core.inodes.get(slot).map(Inode::directory);
    is_open
        && own.slot != tracked.slot
        && directory(own.slot).is_some_and(|own| own > 0)
        && directory(own.slot) == directory(tracked.slot)
}

/// Why a foreground read is timed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// It stands for all reads.
    OfAll,
    /// Another reason: pacing, or one shortly before it came from the device.
    Other,
}

/// What is to be known of a foreground read once it has been made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// Why the plain call is to be timed, if so.
    pub sample: Option<Sample>,
    /// What counts as heat.
    pub heat: Option<Use>,
}

impl Noted {
    const NOTHING: Self = Self {
        sample: None,
        heat: None,
    };
}

/// How a read of a known descriptor is to be made.
pub enum Answer {
    /// By the plain call. [`Runtime::after_read`] is called if it has read anything.
    Plain(Noted),
    /// As a background thread's: by [`Runtime::read_in_background`], or by the plain call and
    /// [`Runtime::count_unserved_read`].
    InBackground(TrackedFile),
    /// Not at all: the call fails with errno. The descriptor is one of Coldstream's own (`EBADF`), or staged
    /// bytes could not be written.
    Fail,
}

impl Runtime {
    /// To be called before a known descriptor is read. Drains a staged file if `operation` would miss
    /// staged bytes.
    // Not inlined: the fast path of all other descriptors is.
    #[inline(never)]
    pub fn before_read(
        &self,
        known: KnownDescriptor,
        descriptor: i32,
        operation: Operation,
    ) -> Answer {
        let core = &self.core;
        let tracked = match known.entry() {
            Entry::Tracked(tracked) => tracked,
            Entry::Private(private) if is_private_still(descriptor, private) => {
                errno::set(libc::EBADF);
                return Answer::Fail;
            }
            Entry::Private(_) => return Answer::Plain(Noted::NOTHING),
        };
        if self.writes.is_staged(core, tracked) && !core.owner.is_seen_by_a_child() {
            return self.before_staged_read(tracked, descriptor, operation);
        }
        if matches!(operation, Operation::ReadAt { .. }) {
            readahead::record_read_at_offset(core, tracked, descriptor);
        }
        let read_ahead = |need| readahead::read_ahead(core, tracked, descriptor, need);
        let is_beside = |own| is_beside(core, own, tracked);
        let caller = thread::record_read(descriptor, operation, read_ahead, is_beside);
        let Caller::Foreground { in_scan, is_sample } = caller else {
            return Answer::InBackground(tracked);
        };
        let heat = (self.heat).foresee(core, tracked.slot, operation, in_scan);
        let sample = if is_sample {
            self.take_sample_turn()
        } else {
            None
        };
        Answer::Plain(Noted { sample, heat })
    }

    /// To be called once the foreground has read something: what was noted before.
    // Not inlined: all exported reads share it.
    #[inline(never)]
    pub fn after_read(&self, noted: Noted) {
        if let Some(heat) = noted.heat {
            self.heat.record(&self.core, heat);
        }
    }

    /// A read of a staged file. The plain call reads it, after the kernel has all bytes.
    #[cold]
    fn before_staged_read(
        &self,
        tracked: TrackedFile,
        descriptor: i32,
        operation: Operation,
    ) -> Answer {
        let core = &self.core;
        let reason = Counter::StagingEndedPosition;
        if let Err(failed) = (self.writes).before(core, tracked, descriptor, operation, reason) {
            errno::set(failed.0);
            return Answer::Fail;
        }
        let caller = thread::record_read(descriptor, operation, |_| Ahead::Own, |_| false);
        let Caller::Foreground { in_scan, is_sample } = caller else {
            return Answer::Plain(Noted::NOTHING);
        };
        if is_sample {
            self.take_sample_turn();
        }
        Answer::Plain(Noted {
            sample: None,
            heat: (self.heat).foresee(core, tracked.slot, operation, in_scan),
        })
    }

    /// To be called for a foreground read that is a sample. Advances the clock of heat, and returns
    /// why to time the read; `None` if it is not to be timed.
    #[cold]
    pub(super) fn take_sample_turn(&self) -> Option<Sample> {
        let turn = thread::take_sample_turn();
        if let Some(pages) = turn.pages {
            self.heat.advance(pages);
        }
        let is_timed = turn.is_timed_at_rest || self.background.is_paced(&self.core);
        is_timed.then_some(match turn.stands_for_all {
            true => Sample::OfAll,
            false => Sample::Other,
        })
    }

    /// A foreground read that was timed took from `started_ns` to `ended_ns`, by the clock of
    /// [`monotonic_ns`](coldstream_io::sys::process::monotonic_ns).
    #[cold]
    pub fn record_read_time(&self, sample: Sample, started_ns: u64, ended_ns: u64) {
        let timed = TimedRead {
            stands_for_all: sample == Sample::OfAll,
            ns: ended_ns.saturating_sub(started_ns),
            ended_ns,
        };
        if self.background.record_timed_read(&self.core, timed) {
            thread::time_next_reads();
        }
    }

    /// A background thread reads a tracked file: out of windows if that can be done, else by `plain`.
    ///
    /// # Safety
    /// `call` must be what the application gave to `pread`.
    #[cold]
    pub unsafe fn read_in_background(
        &self,
        tracked: TrackedFile,
        call: &ReadCall,
        plain: impl FnOnce() -> isize,
    ) -> isize {
        let core = &self.core;
        if core.owner.is_seen_by_a_child() {
            return plain();
        }
        (self.background).wait_to_read(core, call.descriptor, call.offset);
        self.background.record_work();
        // SAFETY: passed on.
        let served = || unsafe { self.serve(tracked, call) };
        if let Some(served) = self.background.watch_call(core, served) {
            // SAFETY: passed on; the call has filled so much of its buffer.
            unsafe { self.follow_blob_read(tracked, call, served) };
            return served;
        }
        let offset = call.offset.max(0) as u64;
        let length_bytes = call.length_bytes as u64;
        readahead::record_background_read(core, tracked, call.descriptor, offset, length_bytes);
        let result = plain();
        // SAFETY: as above.
        unsafe { self.follow_blob_read(tracked, call, result) };
        self.background.record_work();
        reads::count_plain(core, call.descriptor, result);
        let bytes = u64::try_from(result).unwrap_or(0);
        thread::record_background_read(bytes);
        self.background.record_moved(core, Moved::Read, bytes);
        (self.eviction).record_scan(core, tracked, offset, offset + bytes);
        result
    }

    /// # Safety
    /// As for [`Runtime::read_in_background`].
    unsafe fn serve(&self, tracked: TrackedFile, call: &ReadCall) -> Option<isize> {
        let core = &self.core;
        if !core.is_on(Mechanism::Reads) {
            core.count(Counter::FallbackSwitchedOff, 1);
            return None;
        }
        let _errno = ErrnoGuard::new();
        let _inside = Inside::enter()?;
        if fuse::is_blown() {
            return None;
        }
        let record_input = |stamp: &FileStamp, read| {
            let file = (tracked.kind, call.descriptor);
            (self.handover).record_input(core, &self.heat, file, stamp, read);
        };
        let served = core.protect(|| {
            // SAFETY: passed on.
            let served = unsafe { self.reads.serve(core, tracked, call, record_input) };
            if let Some(served) = &served {
                thread::record_served(served.bytes, served.cached_bytes);
                thread::record_background_read(served.bytes);
                let device_bytes = served.bytes - served.cached_bytes;
                self.background
                    .record_moved(core, Moved::Read, device_bytes);
            }
            if !core.is_on(Mechanism::Reads) {
                // The control thread may have closed the windows before this read made some.
                core.close_windows(tracked.slot);
                core.publish_memory();
            }
            served
        });
        served.flatten().map(|served| served.bytes as isize)
    }

    /// A call is about to read or send a tracked file from the descriptor's position.
    #[inline]
    pub fn before_sequential_read(&self, tracked: TrackedFile, descriptor: i32) {
        readahead::record_sequential(&self.core, tracked, descriptor);
    }

    /// A call is about to read into several buffers at an offset of a file that is not staged.
    pub fn before_vector_read(&self, tracked: TrackedFile, descriptor: i32) {
        readahead::record_read_at_offset(&self.core, tracked, descriptor);
    }

    /// A plain call has read `length_bytes` at an offset, into several buffers. Only its result tells how many.
    pub fn after_vector_read(
        &self,
        tracked: TrackedFile,
        descriptor: i32,
        offset: u64,
        length_bytes: u64,
    ) {
        if self.writes.is_staged(&self.core, tracked) {
            return;
        }
        let in_scan = readahead::after_read(&self.core, tracked, descriptor, offset, length_bytes);
        let read = Operation::ReadAt {
            start: offset,
            end: offset.saturating_add(length_bytes),
        };
        if let Some(in_scan) = in_scan
            && let Some(made) = (self.heat).foresee(&self.core, tracked.slot, read, in_scan)
        {
            self.heat.record(&self.core, made);
        }
    }

    /// Counts a background read that is never served, because it moves a position or has several buffers.
    #[cold]
    pub fn count_unserved_read(&self, descriptor: i32, result: isize) {
        let _errno = ErrnoGuard::new();
        self.background.record_work();
        self.core.count(Counter::FallbackCall, 1);
        reads::count_plain(&self.core, descriptor, result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_into_several_buffers_is_hot() {
        // SAFETY: all-zero memory is a valid one.
        let mut runtime: Box<Runtime> = unsafe { Box::new_zeroed().assume_init() };
        let (core, tracked) = Core::with_file(3);
        runtime.core = *core;
        runtime.heat.open(1 << 20, 1 << 30);
        runtime.after_vector_read(tracked, 3, 40_960, 5000);
        let is_hot = |page: u64| {
            runtime
                .heat
                .is_hot(&runtime.core, tracked.slot, page * 4096)
        };
        assert_eq!([9, 10, 11, 12].map(is_hot), [false, true, false, false]);
    }
}
