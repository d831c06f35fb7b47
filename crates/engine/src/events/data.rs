//! The data of tracked files: read, written, synced, sent, mapped, advised.

use crate::background::{Moved, TimedRead};
use crate::core::Core;
use crate::core::descriptor_map::{Entry, KnownDescriptor, TrackedFile};
use crate::core::errno::{self, ErrnoGuard};
use crate::core::inode_map::Inode;
use crate::core::{fuse, is_private_still};
use crate::handover::{Handover, Means, TookPlace};
use crate::heat::Use;
use crate::readahead;
use crate::reads::{self, ReadCall};
use crate::runtime::Runtime;
use crate::sending::SendCall;
use crate::settings;
use crate::thread::{self, Caller, Inside, OwnTable};
use crate::writes::{Opening, Reach, Sync, WriteCall, Written};
use coldstream_control::{Counter, Mechanism};
use coldstream_io::Errno;
use coldstream_io::append::Operation;
use coldstream_io::sys::fcntl;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_policy::scan::Ahead;
use coldstream_policy::{FileKind, Role};

/// Whether a file is in the directory of a new SSTable that the calling thread has open for writing.
#[cold]
fn is_beside(core: &Core, own: OwnTable, tracked: TrackedFile) -> bool {
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

/// The reader of a known descriptor.
pub enum Reader {
    /// The foreground: the plain call is made. [`Runtime::after_read`] is called if it has read anything.
    Foreground(Noted),
    /// A background thread.
    Background(TrackedFile),
    /// Nobody: the call fails with errno. The descriptor is one of Coldstream's own (`EBADF`), or staged
    /// bytes could not be written.
    Nobody,
}

impl Runtime {
    /// What a handover uses.
    pub(super) fn means(&self) -> Means<'_> {
        Means {
            core: &self.core,
            heat: &self.heat,
            writes: &self.writes,
            mapped: &self.mapped,
        }
    }

    /// To be called before a known descriptor is read. Drains a staged file if `operation` would miss
    /// staged bytes.
    // Not inlined: the fast path of all other descriptors is.
    #[inline(never)]
    pub fn before_read(
        &self,
        known: KnownDescriptor,
        descriptor: i32,
        operation: Operation,
    ) -> Reader {
        let core = &self.core;
        let tracked = match known.entry() {
            Entry::Tracked(tracked) => tracked,
            Entry::Private(private) if is_private_still(descriptor, private) => {
                errno::set(libc::EBADF);
                return Reader::Nobody;
            }
            Entry::Private(_) => return Reader::Foreground(Noted::NOTHING),
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
            return Reader::Background(tracked);
        };
        let heat = (self.heat).foresee(core, tracked.slot, operation, in_scan);
        let sample = if is_sample {
            self.take_sample_turn()
        } else {
            None
        };
        Reader::Foreground(Noted { sample, heat })
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
    ) -> Reader {
        let core = &self.core;
        let reason = Counter::StagingEndedPosition;
        if let Err(failed) = (self.writes).before(core, tracked, descriptor, operation, reason) {
            errno::set(failed.0);
            return Reader::Nobody;
        }
        let caller = thread::record_read(descriptor, operation, |_| Ahead::Own, |_| false);
        let Caller::Foreground { in_scan, is_sample } = caller else {
            return Reader::Foreground(Noted::NOTHING);
        };
        if is_sample {
            self.take_sample_turn();
        }
        Reader::Foreground(Noted {
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

    /// A background thread's read of a tracked file had this result. If it is a blob file, its records are noted.
    ///
    /// # Safety
    /// The buffer of `call` holds as many bytes as `result` says, if it is positive.
    #[inline]
    unsafe fn follow_blob_read(&self, tracked: TrackedFile, call: &ReadCall, result: isize) {
        if tracked.kind == FileKind::RocksDbBlob
            && let Ok(length_bytes @ 1..) = usize::try_from(result)
        {
            let offset = call.offset.max(0) as u64;
            self.follow_blob(|| {
                // SAFETY: passed on.
                let bytes = unsafe { std::slice::from_raw_parts(call.destination, length_bytes) };
                (self.handover).record_blob_read(self.means(), tracked, offset, bytes);
            });
        }
    }

    /// A thread has appended to a tracked file with this result. If that is a compaction's, and a blob file, its records
    /// are noted.
    ///
    /// # Safety
    /// As many bytes as `result` says, if it is positive, can be read at `buffer`.
    #[inline]
    pub unsafe fn follow_append(
        &self,
        (tracked, descriptor): (TrackedFile, i32),
        buffer: *const u8,
        result: isize,
    ) {
        if tracked.kind == FileKind::RocksDbBlob
            && (thread::is_background_reader() || thread::compacts_into(descriptor))
            && let Ok(length_bytes @ 1..) = usize::try_from(result)
        {
            self.follow_blob(|| {
                // SAFETY: passed on.
                let bytes = unsafe { std::slice::from_raw_parts(buffer, length_bytes) };
                (self.handover).record_blob_written(self.means(), tracked, bytes);
            });
        }
    }

    #[cold]
    fn follow_blob(&self, note: impl FnOnce()) {
        let _errno = ErrnoGuard::new();
        if let Some(_inside) = Inside::enter()
            && self.core.owner.is_this_process()
        {
            self.core.protect(note);
        }
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

    /// A foreground thread is about to append to a file that is not staged. If it compacts into the file, and this is
    /// the first write, the file is staged now. When it was opened, nothing told a compaction. Returns whether it is
    /// staged.
    #[cold]
    pub fn take_in_at_first_write(&self, tracked: TrackedFile, descriptor: i32) -> bool {
        let core = &self.core;
        if !thread::compacts_into(descriptor) || !core.owner.is_this_process() {
            return false;
        }
        let _errno = ErrnoGuard::new();
        let (Some(settings), Some(_inside)) = (settings::get(), Inside::enter()) else {
            return false;
        };
        let (Ok(stamp), Ok(flags), Ok(0)) = (
            file::stamp(descriptor),
            fcntl::status_flags(descriptor),
            file::position(descriptor),
        ) else {
            return false;
        };
        let is_same = (core.inodes.get(tracked.slot)).is_some_and(|inode| inode.is(&stamp));
        if !is_same || stamp.size_bytes > 0 {
            return false;
        }
        let tracked = TrackedFile {
            watched: true,
            ..tracked
        };
        core.update(descriptor, tracked.slot, |file| file.watched = true);
        let opening = Opening {
            settings,
            tracked,
            descriptor,
            // The kernel does not report these two. The thread has made the file.
            flags: flags | libc::O_CREAT | libc::O_EXCL,
            stamp: &stamp,
            handover: Handover::state(core, &self.heat),
            goes_around: true,
            is_mapping_cassandra: self.mapped.is_mapping_cassandra(),
        };
        core.protect(|| {
            self.writes.take_in(core, &opening);
            (self.handover).record_output(core, &self.heat, tracked.kind, descriptor, &stamp);
        });
        self.writes.is_staged(core, tracked)
    }

    /// Makes a write to a staged file.
    ///
    /// # Safety
    /// `buffer` and `length_bytes` are what the application gave to `write`.
    pub unsafe fn write(
        &self,
        tracked: TrackedFile,
        descriptor: i32,
        buffer: *const u8,
        length_bytes: usize,
        plain: impl Fn() -> isize,
    ) -> isize {
        let before = errno::get();
        // The wait comes first: no lock is held here, and a signal handler may still write a file.
        self.background.wait_to_write(&self.core);
        if thread::writes_what_it_read() {
            self.background.record_work();
        }
        let call = WriteCall {
            descriptor,
            buffer,
            length_bytes,
            io_priority: self.priority.io_priority(thread::priority_slot()),
        };
        let staged = || {
            // SAFETY: passed on.
            unsafe { self.writes.write(&self.core, tracked, &call, &plain) }
        };
        match self.background.watch_call(&self.core, staged) {
            Written::Plain => {
                let result = plain();
                // SAFETY: the kernel has read so much from there.
                unsafe { self.follow_append((tracked, descriptor), buffer, result) };
                self.count_plain_write(descriptor, result);
                result
            }
            Written::Done(Ok(written)) => {
                // SAFETY: so much was read from there.
                unsafe { self.follow_append((tracked, descriptor), buffer, written as isize) };
                (self.background).record_moved(&self.core, Moved::Written, written as u64);
                errno::set(before);
                written as isize
            }
            Written::Done(Err(Errno(error))) => {
                errno::set(error);
                -1
            }
        }
    }

    /// Counts a plain write of a tracked file, if a background thread made it. Its bytes stay in the page cache, unless the
    /// engine itself writes around it.
    #[cold]
    pub fn count_plain_write(&self, descriptor: i32, result: isize) {
        let _errno = ErrnoGuard::new();
        let bytes = u64::try_from(result).unwrap_or(0);
        if thread::role() == Role::Foreground || !self.core.owner.is_this_process() {
            return;
        }
        self.core.count(Counter::WriteBytes, bytes);
        let counter = match reads::is_direct(descriptor) {
            true => Counter::WriteBytesEngineDirect,
            false => Counter::WriteBytesBuffered,
        };
        self.core.count(counter, bytes);
        if thread::writes_what_it_read() {
            self.background.record_work();
        }
        (self.background).record_moved(&self.core, Moved::Written, bytes);
    }

    /// Drains the file, and then makes a sync of the descriptor by `next`. The sync fails if some bytes
    /// reach the kernel only while it runs: it does not cover them.
    #[inline]
    pub fn sync(&self, descriptor: i32, next: impl FnOnce() -> i32) -> i32 {
        let is_tracked = self.core.tracked(descriptor).is_some();
        if is_tracked {
            let _errno = ErrnoGuard::new();
            self.background.record_busy(&self.core);
        }
        let result = match self.writes.find(&self.core, descriptor) {
            Some(tracked) => self.sync_staged(tracked, descriptor, next),
            None => next(),
        };
        if is_tracked {
            let _errno = ErrnoGuard::new();
            self.background.record_busy(&self.core);
        }
        result
    }

    fn sync_staged(
        &self,
        tracked: TrackedFile,
        descriptor: i32,
        next: impl FnOnce() -> i32,
    ) -> i32 {
        let (core, writes) = (&self.core, &self.writes);
        let reason = Counter::StagingEndedCall;
        let late = writes.before(core, tracked, descriptor, Operation::Sync, reason);
        let result = next();
        let sync = if result == 0 {
            Sync::Made
        } else {
            Sync::NotMade
        };
        let after = writes.after_sync(core, tracked, descriptor, sync);
        match after.and(late.map(|_| ())) {
            Err(failed) if result == 0 => {
                errno::set(failed.0);
                -1
            }
            _ => result,
        }
    }

    /// Drains the staged files on `device`, before a sync of its filesystem.
    ///
    /// # Errors
    /// The error of a delayed write on this device.
    pub fn before_filesystem_sync(&self, device: u64) -> Result<(), Errno> {
        self.writes.drain_filesystem(&self.core, device)
    }

    /// Drains the file that gets another name, if it is staged. In a directory that may be any.
    pub fn before_rename(&self, named: &FileStamp) {
        if named.is_directory() {
            // The error of a file must not fail this call.
            let _ = self.writes.drain_all(&self.core, Reach::Sees);
        } else {
            let identity = (named.device, named.inode);
            let _ = (self.writes).drain_identity(&self.core, identity, Reach::Sees);
        }
    }

    /// The calling thread is about to call `sendfile`. Returns whether the bytes pass through a window of
    /// the page cache. If not, the call is plain.
    pub fn before_send(&self, tracked: TrackedFile, call: &SendCall) -> bool {
        (self.sending).follow(&self.core, &self.heat, &self.reads, tracked, call)
    }

    /// A descriptor has been mapped at `address`.
    pub fn mapped(
        &self,
        descriptor: i32,
        protection: i32,
        flags: i32,
        address: usize,
        length_bytes: usize,
    ) {
        let core = &self.core;
        let Some(tracked) = core.tracked(descriptor) else {
            if self.handover.after_mapping(self.means(), descriptor) == TookPlace::Yes {
                let _errno = ErrnoGuard::new();
                self.background.record_busy(core);
            }
            return;
        };
        if let Some(inode) = core.inodes.get(tracked.slot) {
            inode.record_uncounted_use();
            // A mapping of a descriptor that can write may be made writable later, by mprotect.
            if flags & libc::MAP_TYPE != libc::MAP_PRIVATE
                && (tracked.writable || protection & libc::PROT_WRITE != 0)
            {
                inode.record_writable_mapping();
            }
        }
        self.mapped.record(core, tracked, address, length_bytes);
    }

    /// A thread advises that it will need a range of a file. Returns whether to skip the advice. The
    /// advice of a background thread whose reads are served is skipped.
    pub fn skip_range_advice(&self, tracked: TrackedFile, descriptor: i32) -> bool {
        !self.writes.is_staged(&self.core, tracked)
            && (thread::is_background_reader()
                || thread::compacts_from(descriptor, |own| is_beside(&self.core, own, tracked)))
            && self.reads.skip_advice(&self.core, tracked, descriptor)
    }

    /// A thread advises how it will read a whole file. Returns whether to skip the advice. It is skipped
    /// where Coldstream controls the readahead.
    pub fn skip_file_advice(&self, tracked: TrackedFile, descriptor: i32, advice: i32) -> bool {
        readahead::keep_advice(&self.core, tracked, descriptor, advice)
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
