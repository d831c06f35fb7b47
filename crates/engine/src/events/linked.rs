//! What a program tells that links the engine. It opens files by descriptors of their own, and no call of it is
//! interposed. Its threads declare their roles ([`thread::declare_role`]).

use super::Sample;
use crate::core::errno::ErrnoGuard;
use crate::handover::{Bounds, Done, Inputs, Mapped, Way};
use crate::heat;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::thread::{self, Inside};
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::append::Operation;
use coldstream_io::sys::file;
use coldstream_policy::FileKind;

impl Runtime {
    /// A file is about to be opened. Starts the engine: an error that only comes after the open leaves an empty file.
    ///
    /// # Errors
    /// `ENOMEM` if the engine cannot start; `EAGAIN` in a signal handler that interrupted the engine.
    pub fn before_linked_open(&'static self, settings: &Settings) -> Result<(), Errno> {
        let _inside = Inside::enter().ok_or(Errno(libc::EAGAIN))?;
        let can_start = self.core.owner.is_this_process_or_nobody() && self.start(settings);
        can_start.then_some(()).ok_or(Errno(libc::ENOMEM))
    }

    /// Begins to track a file that was opened with these flags. Returns its slot, which it has until its close.
    /// Without room for it, its calls are plain.
    ///
    /// # Errors
    /// The kernel's; `EINVAL` if it is no regular file.
    pub fn track_linked(
        &'static self,
        settings: &Settings,
        descriptor: i32,
        kind: FileKind,
        flags: i32,
    ) -> Result<Option<u32>, Errno> {
        let stamp = file::stamp(descriptor)?;
        if !stamp.is_regular() {
            return Err(Errno(libc::EINVAL));
        }
        if self.core.entry(descriptor).is_some() {
            self.forget(descriptor);
        }
        self.release_displaced();
        let _inside = Inside::enter().ok_or(Errno(libc::EAGAIN))?;
        let tracked = self.attach(settings, descriptor, kind, flags, &stamp);
        Ok(tracked.map(|tracked| tracked.slot))
    }

    /// A descriptor is about to be closed. Drains what it has written, and forgets it.
    ///
    /// # Errors
    /// The error of a delayed write.
    pub fn before_linked_close(&self, descriptor: i32) -> Result<(), Errno> {
        let core = &self.core;
        let Some(tracked) = core.tracked(descriptor) else {
            return Ok(());
        };
        if !core.owner.is_this_process() {
            return Ok(());
        }
        let _errno = ErrnoGuard::new();
        let drained = match (tracked.writable, Inside::enter()) {
            (true, Some(_inside)) => {
                let drained = self.writes.close(core, tracked, descriptor);
                self.record_flush(descriptor);
                drained
            }
            _ => Ok(()),
        };
        self.forget(descriptor);
        self.release_displaced();
        drained
    }

    /// The foreground is about to read the file in this slot. Returns why to time the read, if it is to be timed.
    #[inline]
    pub fn note_foreground_read(
        &self,
        slot: u32,
        descriptor: i32,
        offset: u64,
        length_bytes: u64,
    ) -> Option<Sample> {
        let (in_scan, is_sample) = thread::record_foreground_read(descriptor, offset, length_bytes);
        let end = offset.saturating_add(length_bytes);
        let operation = Operation::ReadAt { start: offset, end };
        let heat = (self.heat).foresee(&self.core, slot, operation, in_scan);
        if let Some(heat) = heat {
            self.heat.record(&self.core, heat);
        }
        if is_sample {
            self.take_sample_turn()
        } else {
            None
        }
    }

    /// Prepares a file that is written for a call that sees its bytes, or changes them.
    ///
    /// # Errors
    /// The error of a delayed write.
    pub fn before_linked_call(&self, descriptor: i32, operation: Operation) -> Result<(), Errno> {
        let Some(tracked) = self.writes.find(&self.core, descriptor) else {
            return Ok(());
        };
        let reason = Counter::StagingEndedCall;
        let before = (self.writes).before(&self.core, tracked, descriptor, operation, reason);
        before.map(|_| ())
    }

    /// A file that is written has this size and position by now.
    pub fn after_linked_truncate(&self, descriptor: i32, size_bytes: u64) {
        let core = &self.core;
        if let Some(tracked) = core.tracked(descriptor) {
            core.record_change(tracked);
            self.writes.record_truncate(core, tracked, size_bytes);
            (self.writes).record_seek(core, tracked, descriptor, size_bytes);
        }
    }

    /// A file will be deleted: forgets its heat, and closes its windows.
    pub fn before_deletion(&self, descriptor: i32) {
        let core = &self.core;
        let Some(tracked) = core.tracked(descriptor) else {
            return;
        };
        let _errno = ErrnoGuard::new();
        let Some(_inside) = Inside::enter().filter(|_| core.owner.is_this_process()) else {
            return;
        };
        if let (Some(present), Ok(stamp)) = (self.heat.present(), file::stamp(descriptor)) {
            let heat::Present { heat, .. } = present;
            heat.forget(crate::core::inode_map::key_of(&stamp), 0..stamp.size_bytes);
        }
        core.close_windows(tracked.slot);
        core.publish_memory();
    }

    /// Hands over to a file that is finished.
    ///
    /// # Errors
    /// `ENOMEM`; the kernel's; `EAGAIN` in a signal handler that interrupted the engine.
    pub fn hand_over_linked<I: Iterator<Item = Mapped>>(
        &self,
        descriptor: i32,
        inputs: Inputs<'_>,
        way: Way<I>,
        bounds: Bounds,
    ) -> Result<Done, Errno> {
        let Some(tracked) = self.core.tracked(descriptor) else {
            return Ok(Done::default());
        };
        let _inside = Inside::enter().ok_or(Errno(libc::EAGAIN))?;
        let output = (tracked, descriptor);
        let done = (self.handover).hand_over(self.means(), output, inputs, way, bounds);
        self.background.record_busy(&self.core);
        done
    }
}
