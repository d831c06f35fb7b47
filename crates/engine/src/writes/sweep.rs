//! Drains staged files without a descriptor: all of them, or the one with a given identity.

use super::drainer::Patience;
use super::staged_file::{StagedFile, StagedFiles};
use crate::core::Core;
use crate::core::errno::ErrnoGuard;
use crate::thread::Inside;
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::sys::file;
use std::ffi::c_char;
use std::sync::atomic::{Ordering, fence};

/// The effect of a call on staged files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It sees them: they are drained, and stay staged.
    Sees,
    /// It may change them: they are drained, and fall back for this reason.
    Changes(Counter),
    /// It has truncated the file to nothing: staged bytes are discarded, and the file falls back.
    Truncated(Counter),
}

impl StagedFiles {
    /// Drains every staged file, for a sync of the filesystem on `device`. Files on other devices are drained
    /// too: subvolumes of one filesystem have different devices.
    ///
    /// # Errors
    /// The error of the first file on this device that could not be drained.
    pub fn drain_filesystem(&self, core: &Core, device: u64) -> Result<(), Errno> {
        self.drain_each(core, Reach::Sees, |staged| staged.stamp.device == device)
    }

    /// Drains every staged file.
    ///
    /// # Errors
    /// The error of the first file that could not be drained.
    #[cold]
    pub fn drain_all(&self, core: &Core, reach: Reach) -> Result<(), Errno> {
        self.drain_each(core, reach, |_| true)
    }

    fn drain_each(
        &self,
        core: &Core,
        reach: Reach,
        is_reported: impl Fn(&StagedFile) -> bool,
    ) -> Result<(), Errno> {
        debug_assert!(!matches!(reach, Reach::Truncated(_)), "not of every file");
        let _errno = ErrnoGuard::new();
        let inside = Inside::enter();
        let mut all = Ok(());
        if !core.owner.is_this_process() {
            return all;
        }
        for number in 0..self.files.len() {
            // In a signal handler that interrupted our own work, a locked file stays as it is.
            let staged = if inside.is_some() {
                self.lock(number)
            } else {
                self.try_lock(number)
            };
            let Some(mut staged) = staged.filter(|staged| staged.owner != 0) else {
                continue;
            };
            let drained = if inside.is_some() {
                self.drain_for(core, &mut staged, reach)
            } else if reach == Reach::Sees {
                self.drain(core, &mut staged)
            } else {
                self.write_plainly(core, &mut staged)
            };
            if is_reported(&staged) {
                all = all.and(drained);
            }
        }
        all
    }

    /// Drains a file as a call needs it.
    fn drain_for(&self, core: &Core, staged: &mut StagedFile, reach: Reach) -> Result<(), Errno> {
        match reach {
            Reach::Sees => self.drain(core, staged),
            Reach::Changes(reason) => self.fall_back(core, staged, reason),
            Reach::Truncated(reason) => {
                self.discard(core, staged);
                self.fall_back(core, staged, reason)
            }
        }
    }

    /// Every staged file falls back before the file at `path` is changed by that name.
    ///
    /// # Errors
    /// The error of the file at `path`, if it could not be drained.
    ///
    /// # Safety
    /// As for `stat`: any pointer of the application will do, because only the kernel reads it.
    pub unsafe fn fall_back_by_name(&self, core: &Core, path: *const c_char) -> Result<(), Errno> {
        // SAFETY: passed on.
        let Ok(named) = (unsafe { file::stamp_of_path(path) }) else {
            return Ok(());
        };
        let reach = Reach::Changes(Counter::StagingEndedCall);
        self.drain_each(core, reach, |staged| staged.stamp.same_inode(&named))
    }

    /// Every staged file falls back, because writes are switched off. Returns whether all bytes are in the
    /// kernel. If not, the application's next call reports the error. Needs no thread-local storage: the control
    /// thread calls it.
    pub fn fall_back_all(&self, core: &Core) -> bool {
        if !self.any() {
            return true;
        }
        let mut all = true;
        for number in 0..self.files.len() {
            if let Some(mut staged) = self.lock(number).filter(|staged| staged.owner != 0) {
                let reason = Counter::StagingEndedSwitchedOff;
                all &= self.fall_back(core, &mut staged, reason).is_ok();
            }
        }
        all
    }

    /// The process ends: drains all staged files, and stages no more.
    pub fn close_for_good(&self, core: &Core) {
        if !core.owner.is_this_process_or_nobody() {
            // A child ends, and it may share its parent's memory.
            return;
        }
        self.closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.fall_back_before(core, Patience::End);
    }

    /// Drains the file with this identity, as a call needs it. Returns whether it was staged.
    pub fn drain_identity(&self, core: &Core, (device, inode): (u64, u64), reach: Reach) -> bool {
        let _errno = ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return false;
        };
        if !core.owner.is_this_process() {
            return false;
        }
        // A file is listed before it is counted, and leaves the list under its lock: see `take_in`.
        while let Some(number) = self.views.find(device, inode) {
            if matches!(reach, Reach::Truncated(_)) {
                self.views.distrust(number);
            }
            let Some(mut staged) = self.lock(number) else {
                break;
            };
            if staged.owner != 0 && staged.stamp.inode == inode && staged.stamp.device == device {
                let _ = self.drain_for(core, &mut staged, reach);
                return true;
            }
        }
        false
    }
}
