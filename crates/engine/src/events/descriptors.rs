//! The life of descriptors: opened, duplicated, closed, and numbers that the application needs.

use crate::core::descriptor_map::{Entry, TrackedFile};
use crate::core::errno::ErrnoGuard;
use crate::core::is_private_still;
use crate::handover::{Handover, TookPlace};
use crate::runtime::Runtime;
use crate::settings::{self, Settings};
use crate::thread::{self, Inside};
use crate::writes::{HandoverState, Opening, Reach};
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_policy::FileKind;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{Ordering, fence};

/// What the application may do with a descriptor number that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visible {
    /// It is, or may be, the application's.
    Yes,
    /// It is Coldstream's. The application sees a closed descriptor.
    No,
    /// It is the application's, and its close must report the error of a delayed write.
    Failed(Errno),
}

/// How the application takes a range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// They are closed.
    Close,
    /// They become duplicates of another descriptor.
    Replace,
}

impl Runtime {
    /// `open` returned `descriptor` for `path`.
    ///
    /// # Safety
    /// `path` must be a NUL-terminated string (the kernel has just read it as one).
    pub unsafe fn opened(&'static self, descriptor: i32, path: *const c_char, flags: i32) {
        // The number's former descriptor is closed, perhaps by a call that Coldstream did not see.
        if self.core.entry(descriptor).is_some() {
            self.forget(descriptor);
        }
        let Some(settings) = settings::get() else {
            return;
        };
        // SAFETY: passed on.
        let path = unsafe { CStr::from_ptr(path) };
        let kind = settings.config.profile.kind_of_file(path.to_bytes());
        let may_be_followed = kind != FileKind::Untracked
            && flags & libc::O_ACCMODE == libc::O_RDONLY
            && flags & (libc::O_TRUNC | libc::O_PATH | libc::O_DIRECTORY) == 0;
        if self.writes.any() {
            if !may_be_followed {
                self.fall_back_opened(descriptor, flags);
            } else if kind == FileKind::CassandraData && self.hands_over_at_open() {
                self.drain_for_handover(descriptor);
            }
        }
        if kind == FileKind::Untracked || flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
            return;
        }
        self.release_displaced();
        self.follow(settings, descriptor, kind, flags, path.to_bytes());
        // No wait for what is staged: each call by a followed descriptor asks for what it needs.
        if may_be_followed && self.writes.any() && self.core.tracked(descriptor).is_none() {
            self.fall_back_opened(descriptor, flags);
        }
    }

    /// Whether an SSTable that the calling thread opens early gets its heat at once.
    fn hands_over_at_open(&self) -> bool {
        thread::is_background_reader()
            && Handover::state(&self.core, &self.heat) == HandoverState::On
    }

    /// An SSTable was opened early. Its handover would miss staged bytes.
    fn drain_for_handover(&self, descriptor: i32) {
        if let Ok(stamp) = file::stamp(descriptor) {
            let identity = (stamp.device, stamp.inode);
            let _ = (self.writes).drain_identity(&self.core, identity, Reach::Sees);
        }
    }

    /// Begins to track the file, if it is one.
    fn follow(
        &'static self,
        settings: &Settings,
        descriptor: i32,
        kind: FileKind,
        flags: i32,
        path: &[u8],
    ) {
        let Some(_inside) = Inside::enter() else {
            return;
        };
        if !self.core.owner.is_this_process_or_nobody() || !self.start(settings) {
            return;
        }
        if let Ok(stamp) = file::stamp(descriptor)
            && stamp.is_regular()
        {
            self.track(settings, descriptor, kind, flags, &stamp);
            if let Some(inode) = (self.core.tracked(descriptor))
                .and_then(|tracked| self.core.inodes.get(tracked.slot))
            {
                inode.record_path(path);
            }
        }
    }

    /// Begins to track a file that was opened.
    fn track(
        &self,
        settings: &Settings,
        descriptor: i32,
        kind: FileKind,
        flags: i32,
        stamp: &FileStamp,
    ) {
        let Some(tracked) = self.attach(settings, descriptor, kind, flags, stamp) else {
            return;
        };
        let core = &self.core;
        if tracked.writable {
            thread::record_writing(kind, descriptor);
            if thread::is_background_reader() {
                (self.handover).record_output(core, &self.heat, kind, descriptor, stamp);
            }
        } else {
            if self.handover.after_open(self.means(), tracked, descriptor) == TookPlace::Yes {
                self.background.record_busy(core);
            }
        }
    }

    /// Puts a file that was opened into the maps. A new one is staged, if it may be. Returns `None` if there are too
    /// many files.
    pub(super) fn attach(
        &self,
        settings: &Settings,
        descriptor: i32,
        kind: FileKind,
        flags: i32,
        stamp: &FileStamp,
    ) -> Option<TrackedFile> {
        let core = &self.core;
        let writable = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let Some(slot) = core.inodes.attach(stamp, writable) else {
            core.count(Counter::FallbackStreamLimit, 1);
            return None;
        };
        if let Some(inode) = core.inodes.get(slot) {
            if flags & libc::O_TRUNC != 0 {
                inode.record_change();
            }
            if thread::is_background_reader() {
                inode.record_background_opening();
            }
        }
        let mut tracked = TrackedFile {
            slot,
            kind,
            writable,
            servable: !writable && flags & libc::O_DIRECT == 0,
            watched: false,
            advice: libc::POSIX_FADV_NORMAL as u8,
            in_sequence: false,
            at_offsets: false,
        };
        if writable {
            let mut opening = Opening {
                settings,
                tracked,
                descriptor,
                flags,
                stamp,
                handover: Handover::state(core, &self.heat),
                goes_around: false,
                is_mapping_cassandra: self.mapped.is_mapping_cassandra(),
            };
            opening.goes_around = self.goes_around(&opening);
            self.writes.take_in(core, &opening);
            if opening.is_new() {
                thread::record_new_file(kind, descriptor, slot);
            }
        }
        // After it was counted by `attach`: see `take_in`.
        fence(Ordering::SeqCst);
        tracked.watched =
            (core.inodes.get(slot)).is_some_and(|inode| inode.staged_slot().is_some());
        self.enter(descriptor, tracked);
        core.count(Counter::TrackedFilesOpened, 1);
        Some(tracked)
    }

    /// A file was opened while some files are staged, by a descriptor that can write, or whose reads are not
    /// followed. If it is one of them, it falls back.
    pub fn fall_back_opened(&self, descriptor: i32, flags: i32) {
        let Ok(stamp) = file::stamp(descriptor) else {
            return;
        };
        let reason = Counter::StagingEndedDescriptor;
        let reach = if flags & libc::O_TRUNC != 0 && flags & libc::O_PATH == 0 {
            Reach::Truncated(reason)
        } else {
            Reach::Changes(reason)
        };
        let identity = (stamp.device, stamp.inode);
        let _ = self.writes.drain_identity(&self.core, identity, reach);
    }

    /// Puts a tracked file whose descriptor has been counted into the map.
    fn enter(&self, descriptor: i32, tracked: TrackedFile) {
        let entered = self
            .core
            .descriptors
            .put(descriptor, Entry::Tracked(tracked));
        if entered.is_ok()
            && let Some(inode) = self.core.inodes.get(tracked.slot)
        {
            inode.record_descriptor(descriptor);
        }
        match entered {
            Ok(None) => {}
            Ok(Some(before)) => self.release(before),
            Err(()) => self.release(Entry::Tracked(tracked)),
        }
    }

    /// `duplicate` is a new descriptor of the same open file as `descriptor`. The kernel has closed the
    /// former descriptor of that number.
    pub fn duplicated(&self, descriptor: i32, duplicate: i32) {
        if descriptor == duplicate {
            return;
        }
        let tracked = self.core.tracked(descriptor);
        if tracked.is_none() && self.core.entry(duplicate).is_none() {
            return;
        }
        if !self.core.owner.is_this_process() {
            return;
        }
        self.forget(duplicate);
        if let (Some(tracked), Some(_inside)) = (tracked, Inside::enter()) {
            self.core
                .inodes
                .attach_again(tracked.slot, tracked.writable);
            self.enter(duplicate, tracked);
        }
    }

    /// The application is about to close a descriptor. The map forgets it first: after the kernel's close
    /// another thread can get the same number at once.
    #[inline]
    pub fn before_close(&self, descriptor: i32) -> Visible {
        match self.core.entry(descriptor) {
            None => Visible::Yes,
            Some(entry) => self.before_close_of(descriptor, entry),
        }
    }

    #[cold]
    fn before_close_of(&self, descriptor: i32, entry: Entry) -> Visible {
        if !self.core.owner.is_this_process() {
            return Visible::Yes;
        }
        let tracked = match entry {
            Entry::Private(private) if is_private_still(descriptor, private) => return Visible::No,
            // The number names a descriptor of the application by now: it may close it.
            Entry::Private(_) => return Visible::Yes,
            Entry::Tracked(tracked) => tracked,
        };
        let _errno = ErrnoGuard::new();
        self.sending
            .end(&self.core, &self.heat, tracked, descriptor);
        let drained = match (tracked.writable, Inside::enter()) {
            (true, Some(_inside)) => self.before_output_is_closed(tracked, descriptor),
            (true, None) => (self.writes).close_in_handler(&self.core, tracked, descriptor),
            (false, _) => Ok(()),
        };
        thread::record_close(descriptor);
        self.forget(descriptor);
        self.release_displaced();
        match drained {
            Ok(()) => Visible::Yes,
            Err(errno) => Visible::Failed(errno),
        }
    }

    /// A descriptor that can write is about to be closed. Returns the error of a delayed write.
    fn before_output_is_closed(&self, tracked: TrackedFile, descriptor: i32) -> Result<(), Errno> {
        let drained = self.writes.close(&self.core, tracked, descriptor);
        self.record_flush(descriptor);
        if self
            .handover
            .before_close(self.means(), tracked, descriptor)
            == TookPlace::Yes
        {
            self.background.record_busy(&self.core);
        }
        drained
    }

    /// Takes a descriptor out of the map.
    pub(super) fn forget(&self, descriptor: i32) {
        // A signal handler that interrupted our own work cannot take the locks. The inode's count of
        // descriptors then stays too high. This costs a slot and nothing else.
        let inside = Inside::enter();
        if self.core.owner.is_this_process()
            && let Some(entry) = self.core.descriptors.take(descriptor)
            && inside.is_some()
        {
            self.release(entry);
        }
    }

    /// Ends the tracking of descriptors whose numbers Coldstream's own ones have got.
    pub(super) fn release_displaced(&self) {
        let displaced = &self.core.displaced;
        if displaced.any()
            && self.core.owner.is_this_process()
            && let Some(_inside) = Inside::enter()
        {
            while let Some(entry) = displaced.take() {
                self.release(entry);
            }
        }
    }

    /// Ends the tracking of an entry that was taken out of the map.
    pub(super) fn release(&self, entry: Entry) {
        let core = &self.core;
        if let Entry::Tracked(tracked) = entry {
            core.inodes.detach(tracked.slot, tracked.writable, || {
                // If a file is still staged here, its descriptor was closed by a call that we did not see.
                let _ = (self.writes).fall_back_slot(
                    core,
                    tracked.slot,
                    Counter::StagingEndedDescriptor,
                );
                core.close_windows(tracked.slot);
                core.publish_memory();
            });
        }
    }

    /// The application is about to take every number from `first` to `last` (by `dup2` or
    /// `close_range`): frees what Coldstream has there.
    ///
    /// # Errors
    /// The first error of a delayed write. Its bytes that are not in the kernel by now are lost.
    pub fn before_range_is_taken(
        &self,
        first: u32,
        last: u32,
        taking: Taking,
    ) -> Result<(), Errno> {
        let core = &self.core;
        self.sending.end_range(core, &self.heat, first, last);
        let mut all = Ok(());
        if !self.is_started() || !core.owner.is_this_process() {
            return all;
        }
        core.descriptors.each_in(first, last, |descriptor, entry| {
            match entry {
                Entry::Private(private) => {
                    self.free_private(private.slot);
                    self.mapped.free_descriptor(core);
                }
                Entry::Tracked(tracked) => {
                    let drained = match Inside::enter() {
                        Some(_inside) => self.writes.close(core, tracked, descriptor),
                        None => (self.writes).close_in_handler(core, tracked, descriptor),
                    };
                    all = all.and(drained);
                    if taking == Taking::Close {
                        thread::record_close(descriptor);
                        self.forget(descriptor);
                    }
                }
            };
        });
        all
    }

    /// Closes the private descriptors of an inode: its windows and its staging end. A staged file that
    /// cannot be drained keeps its private descriptor.
    fn free_private(&self, slot: u32) {
        if let Some(_inside) = Inside::enter() {
            self.core.close_windows(slot);
            let _ = (self.writes).fall_back_slot(&self.core, slot, Counter::StagingEndedRoom);
        }
    }

    /// The application has run out of descriptors (`EMFILE`): closes all private descriptors. Returns
    /// whether there were any. If so, the call should be tried again.
    #[cold]
    pub fn free_descriptors(&self) -> bool {
        let any = self.core.has_private() && self.core.owner.is_this_process();
        if any {
            self.core.each_private(0, |slot| self.free_private(slot));
            self.mapped.free_descriptor(&self.core);
        }
        any
    }

    /// The application asks for the first free number from `lowest` on. Closes the private descriptors
    /// there. If `lowest` is below their numbers, none is closed: the kernel finds a free number below them.
    pub fn before_number_is_chosen(&self, lowest: i32) {
        if self.core.has_private()
            && lowest >= self.core.lowest_private()
            && self.core.owner.is_this_process()
        {
            (self.core).each_private(lowest as u32, |slot| self.free_private(slot));
            self.mapped.free_descriptor(&self.core);
        }
    }

    /// A record lock is about to be taken through a descriptor. POSIX drops a process's locks on a file
    /// when the process closes any descriptor of it. So Coldstream closes its own descriptors of the file
    /// first, and opens no others while the file is tracked.
    pub fn before_lock(&self, descriptor: i32) {
        if let Some(tracked) = self.core.tracked(descriptor)
            && self.core.owner.is_this_process()
            && let Some(inode) = self.core.inodes.get(tracked.slot)
        {
            inode.record_lock();
            self.free_private(tracked.slot);
        }
    }
}
