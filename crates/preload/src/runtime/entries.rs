//! How descriptors of tables enter the runtime and leave it: opened, duplicated, closed.

use super::{Runtime, STATE_OPEN};
use crate::core::descriptor_map::{Entry, TrackedFile};
use crate::core::errno;
use crate::settings;
use crate::thread::{self, Inside};
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::sys::file;
use coldstream_policy::FileKind;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{Ordering, fence};

/// What the application may do with a descriptor number that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    /// It is, or may be, the application's.
    Yes,
    /// It is Coldstream's: to the application it is not open.
    No,
    /// It is the application's, and closing it must tell of a delayed write that failed.
    Failed(Errno),
}

impl Runtime {
    /// Enters a descriptor that `open` returned for `path`.
    ///
    /// # Safety
    /// `path` must be a NUL-terminated string (the kernel has just read it as one).
    pub(crate) unsafe fn note_open(
        &'static self,
        descriptor: i32,
        path: *const c_char,
        flags: i32,
    ) {
        // What the runtime knows of this number is over, whoever closed it.
        if self.descriptors.get(descriptor).is_some() {
            self.note_gone(descriptor);
        }
        let Some(settings) = settings::get() else {
            return;
        };
        // SAFETY: passed on.
        let path = unsafe { CStr::from_ptr(path) };
        let kind = settings.config.profile.kind_of_file(path.to_bytes());
        if self.staging.any() {
            self.note_other_opening(descriptor, kind, flags);
        }
        if kind == FileKind::Untracked || flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
            return;
        }
        let Some(_inside) = Inside::enter() else {
            return;
        };
        if !self.are_ours_or_empty() || !self.ensure_open(settings) {
            return;
        }
        let Ok(stamp) = file::stamp(descriptor) else {
            return;
        };
        if !stamp.is_regular() {
            return;
        }
        let writable = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let Some(slot) = self.inodes.attach(&stamp, writable) else {
            self.count(Counter::FallbackStreamLimit, 1);
            return;
        };
        if let Some(inode) = self.inodes.get(slot) {
            if flags & libc::O_TRUNC != 0 {
                inode.note_change();
            }
            if thread::is_background_reader() {
                inode.note_made_in_background();
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
        };
        if writable {
            self.take_in(settings, tracked, descriptor, flags, &stamp);
        }
        // After it was counted by `attach`: see `take_in`.
        fence(Ordering::SeqCst);
        tracked.watched = self
            .inodes
            .get(slot)
            .is_some_and(|inode| inode.staged_slot().is_some());
        self.enter(descriptor, tracked);
        self.count(Counter::TrackedFilesOpened, 1);
        if writable {
            thread::note_table_opened_for_writing(kind, descriptor);
            if thread::is_background_reader() {
                self.note_new_table(kind, descriptor, &stamp);
            }
        } else {
            self.begin_readahead(tracked, descriptor);
            self.hand_over_after_open(tracked, descriptor);
        }
    }

    /// A file was opened while others are staged: if it is one of them, the new descriptor must
    /// see everything; and one that can write, or whose reads are not followed, must go on to.
    fn note_other_opening(&self, descriptor: i32, kind: FileKind, flags: i32) {
        let Ok(stamp) = file::stamp(descriptor) else {
            return;
        };
        let follows = kind != FileKind::Untracked
            && flags & libc::O_ACCMODE == libc::O_RDONLY
            && flags & (libc::O_TRUNC | libc::O_PATH) == 0;
        let for_good = (!follows).then_some(Counter::StagingEndedDescriptor);
        let truncated = flags & libc::O_TRUNC != 0 && flags & libc::O_PATH == 0;
        self.drain_identity(stamp.device, stamp.inode, for_good, truncated);
    }

    /// A descriptor that nobody follows was opened while tables are staged; whether its file was
    /// `emptied` by that.
    pub(crate) fn note_unfollowed(&self, descriptor: i32, emptied: bool) {
        let flags = if emptied { libc::O_TRUNC } else { 0 };
        self.note_other_opening(descriptor, FileKind::Untracked, flags);
    }

    /// Puts a table whose descriptor has been counted into the descriptor table.
    fn enter(&self, descriptor: i32, tracked: TrackedFile) {
        let entered = self.descriptors.put(descriptor, Entry::Tracked(tracked));
        if entered.is_ok()
            && let Some(inode) = self.inodes.get(tracked.slot)
        {
            inode.note_descriptor(descriptor);
        }
        match entered {
            Ok(None) => {}
            Ok(Some(before)) => self.release_entry(before),
            Err(()) => self.release_entry(Entry::Tracked(tracked)),
        }
    }

    /// It is known by now how a table is read.
    pub(crate) fn remember_reading(&self, descriptor: i32, tracked: TrackedFile) {
        // Unless it is another one's by now.
        if let Some(present @ Entry::Tracked(of)) = self.descriptors.get(descriptor)
            && of.slot == tracked.slot
        {
            let entry = Entry::Tracked(tracked);
            self.descriptors.replace(descriptor, present, entry);
        }
    }

    /// Calls `visit` for every descriptor that something is known of.
    pub(crate) fn each_descriptor(&self, visit: impl FnMut(i32, Entry)) {
        self.descriptors.each_in(0, u32::MAX, visit);
    }

    /// `duplicate` is a new descriptor of what `descriptor` is of; the kernel has closed what
    /// it was before.
    pub(crate) fn note_duplicate(&self, descriptor: i32, duplicate: i32) {
        if descriptor == duplicate {
            return;
        }
        let tracked = self.tracked(descriptor);
        if tracked.is_none() && self.descriptors.get(duplicate).is_none() {
            return;
        }
        let Some(_inside) = Inside::enter() else {
            return;
        };
        if !self.are_ours() {
            return;
        }
        if let Some(before) = self.descriptors.take(duplicate) {
            self.release_entry(before);
        }
        if let Some(tracked) = tracked {
            self.inodes.attach_again(tracked.slot, tracked.writable);
            self.enter(duplicate, tracked);
        }
    }

    /// The application is about to close a descriptor. The runtime comes first: the number can be
    /// another thread's the moment the kernel has closed it.
    #[inline]
    pub(crate) fn before_close(&self, descriptor: i32) -> Visible {
        match self.descriptors.get(descriptor) {
            None => Visible::Yes,
            Some(entry) => self.before_close_of(descriptor, entry),
        }
    }

    #[cold]
    fn before_close_of(&self, descriptor: i32, entry: Entry) -> Visible {
        if !self.are_ours() {
            return Visible::Yes;
        }
        match entry {
            Entry::Private(_) if self.is_private_still(descriptor) => Visible::No,
            // It goes with whoever believes to have it.
            Entry::Private(_) => Visible::Yes,
            Entry::Tracked(tracked) => {
                let _errno = errno::ErrnoGuard::new();
                self.end_sending(tracked, descriptor);
                let ended = match (tracked.writable, Inside::enter()) {
                    (true, Some(_inside)) => {
                        let ended = self.close_staged(tracked, descriptor);
                        self.note_written(descriptor);
                        self.forget_heat_before_close(tracked, descriptor);
                        self.hand_over_before_close(tracked, descriptor);
                        ended
                    }
                    _ => Ok(()),
                };
                thread::note_closed(descriptor);
                self.note_gone(descriptor);
                match ended {
                    Ok(()) => Visible::Yes,
                    Err(errno) => Visible::Failed(errno),
                }
            }
        }
    }

    /// Takes a descriptor out of the runtime.
    fn note_gone(&self, descriptor: i32) {
        // Inside a signal handler that interrupted our own work the locks cannot be taken: the
        // count of the inode then stays too high, which costs a slot and nothing else.
        let inside = Inside::enter();
        if self.are_ours()
            && let Some(entry) = self.descriptors.take(descriptor)
            && inside.is_some()
        {
            self.release_entry(entry);
        }
    }

    /// Counts off an entry that has been taken out.
    fn release_entry(&self, entry: Entry) {
        if let Entry::Tracked(tracked) = entry {
            self.inodes.detach(tracked.slot, tracked.writable, || {
                // A stage that is left lost its descriptor unseen.
                let _ = self.fall_back_slot(tracked.slot, Counter::StagingEndedDescriptor);
                self.scanner.close(tracked.slot, self);
                self.note_memory();
            });
        }
    }

    /// The application is about to take every number from `first` to `last` (by `dup2` or
    /// `close_range`): gives up what Coldstream has there.
    ///
    /// # Errors
    /// That of a delayed write, the first one's: what of it is not in the kernel by now is lost.
    pub(crate) fn before_range_is_taken(
        &self,
        first: u32,
        last: u32,
        close: bool,
    ) -> Result<(), Errno> {
        self.end_sendings(first, last);
        let mut all = Ok(());
        if self.state.load(Ordering::Acquire) != STATE_OPEN || !self.are_ours() {
            return all;
        }
        self.descriptors.each_in(first, last, |descriptor, entry| {
            match entry {
                Entry::Private(slot) => self.give_up_private(slot),
                Entry::Tracked(tracked) => {
                    if let Some(_inside) = Inside::enter() {
                        let ended = self.close_staged(tracked, descriptor);
                        all = all.and(ended);
                    }
                    if close {
                        thread::note_closed(descriptor);
                        self.note_gone(descriptor);
                    }
                }
            };
        });
        all
    }
}
