//! Drains staged files without a descriptor: all of them, or the one with a given identity.

use super::drainer::Heir;
use super::staged_file::{StagedFile, StagedFiles};
use crate::core::Core;
use crate::core::errno::ErrnoGuard;
use crate::thread::Inside;
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::lock::FutexGuard;
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
            let staged = self.lock_in(number, inside.as_ref());
            let Some(mut staged) = staged.filter(|staged| staged.owner != 0) else {
                continue;
            };
            let drained = self.drain_for(core, &mut staged, reach, inside.as_ref());
            if is_reported(&staged) {
                all = all.and(drained);
            }
        }
        all
    }

    /// Drains a file as a call needs it. Without `inside`, in a signal handler that interrupted our own work, it
    /// cannot fall back: its writes become plain calls.
    fn drain_for(
        &self,
        core: &Core,
        staged: &mut StagedFile,
        reach: Reach,
        inside: Option<&Inside>,
    ) -> Result<(), Errno> {
        if matches!(reach, Reach::Truncated(_)) {
            self.discard(core, staged);
        }
        match (reach, inside) {
            (Reach::Sees, _) => self.drain(core, staged),
            (Reach::Changes(reason) | Reach::Truncated(reason), Some(_)) => {
                self.fall_back(core, staged, reason)
            }
            (Reach::Changes(_) | Reach::Truncated(_), None) => self.write_plainly(core, staged),
        }
    }

    /// The file at `path`, below the directory `at`, falls back before it is changed by that name.
    ///
    /// # Errors
    /// It could not be drained.
    ///
    /// # Safety
    /// As for `fstatat`: any pointer of the application will do, because only the kernel reads it.
    pub unsafe fn fall_back_by_name(
        &self,
        core: &Core,
        (at, path): (i32, *const c_char),
    ) -> Result<(), Errno> {
        let _errno = ErrnoGuard::new();
        // SAFETY: passed on.
        let Ok(named) = (unsafe { file::stamp_at(at, path) }) else {
            return Ok(());
        };
        let reach = Reach::Changes(Counter::StagingEndedCall);
        self.drain_identity(core, (named.device, named.inode), reach)
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
        self.drain_before(core, Heir::Nobody);
    }

    /// Drains the file with this identity, as a call needs it, if it is staged.
    ///
    /// # Errors
    /// It could not be drained.
    pub fn drain_identity(
        &self,
        core: &Core,
        (device, inode): (u64, u64),
        reach: Reach,
    ) -> Result<(), Errno> {
        let _errno = ErrnoGuard::new();
        let inside = Inside::enter();
        if !core.owner.is_this_process() {
            return Ok(());
        }
        // A file is listed before it is counted, and leaves the list under its lock: see `take_in`.
        while let Some(number) = self.views.find(device, inode) {
            if inside.is_some() && matches!(reach, Reach::Truncated(_)) {
                self.views.distrust(number);
            }
            let Some(mut staged) = self.lock_in(number, inside.as_ref()) else {
                break;
            };
            if staged.owner != 0 && staged.stamp.inode == inode && staged.stamp.device == device {
                return self.drain_for(core, &mut staged, reach, inside.as_ref());
            }
        }
        Ok(())
    }

    /// Locks an entry. Without `inside`, in a signal handler that interrupted our own work, a locked one stays as it
    /// is.
    fn lock_in(
        &self,
        number: usize,
        inside: Option<&Inside>,
    ) -> Option<FutexGuard<'_, StagedFile>> {
        match inside {
            Some(_) => self.lock(number),
            None => self.try_lock(number),
        }
    }
}
