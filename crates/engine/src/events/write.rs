//! The data of tracked files on its way to the kernel and to the device: written, synced, and drained before a rename.

use crate::background::Moved;
use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::{self, ErrnoGuard};
use crate::handover::Handover;
use crate::reads;
use crate::runtime::Runtime;
use crate::settings;
use crate::thread::{self, Inside};
use crate::writes::{Opening, Reach, Sync, WriteCall, Written};
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::append::Operation;
use coldstream_io::sys::fcntl;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_policy::Role;

impl Runtime {
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
}
