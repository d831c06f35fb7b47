//! Staged tables found by what they are rather than by a descriptor: all of them, or a file's.

use super::staged_file::{StagedFile, StagedFiles};
use crate::core::Core;
use crate::core::errno::ErrnoGuard;
use crate::thread::Inside;
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::sys::file;
use std::ffi::c_char;
use std::sync::atomic::{Ordering, fence};

impl StagedFiles {
    /// Brings everything of every staged table to the kernel, for a sync of the filesystem that is
    /// this device. Of every one: the subvolumes of one filesystem have devices of their own.
    ///
    /// # Errors
    /// That of the first table on this device that could not be brought there.
    pub(crate) fn drain_filesystem(&self, core: &Core, device: u64) -> Result<(), Errno> {
        self.drain_each(core, None, |staged| staged.stamp.device == device)
    }

    /// Brings everything of every staged table to the kernel; with `for_good` nothing is staged
    /// from then on in the tables of now.
    ///
    /// # Errors
    /// The first table's that could not be brought there.
    #[cold]
    pub(crate) fn drain_all(&self, core: &Core, for_good: Option<Counter>) -> Result<(), Errno> {
        self.drain_each(core, for_good, |_| true)
    }

    fn drain_each(
        &self,
        core: &Core,
        for_good: Option<Counter>,
        is_reported: impl Fn(&StagedFile) -> bool,
    ) -> Result<(), Errno> {
        let _errno = ErrnoGuard::new();
        let inside = Inside::enter();
        let mut all = Ok(());
        if !core.owner.is_this_process() {
            return all;
        }
        for place in &self.files {
            // In a signal handler that interrupted our own work, what is locked stays as it is.
            let staged = if inside.is_some() {
                Some(place.lock())
            } else {
                place.try_lock()
            };
            let Some(mut staged) = staged.filter(|staged| staged.owner != 0) else {
                continue;
            };
            let drained = match for_good {
                Some(reason) if inside.is_some() => self.fall_back(core, &mut staged, reason),
                Some(_) => self.write_plainly(core, &mut staged),
                None => self.drain(core, &mut staged),
            };
            if is_reported(&staged) {
                all = all.and(drained);
            }
        }
        all
    }

    /// Gives every stage up before the file at `path` is changed by that name.
    ///
    /// # Errors
    /// That of this very file, if not everything of it could be brought to the kernel.
    ///
    /// # Safety
    /// As of `stat`: whatever pointer the application gave, the kernel reads it.
    pub(crate) unsafe fn fall_back_by_name(
        &self,
        core: &Core,
        path: *const c_char,
    ) -> Result<(), Errno> {
        // SAFETY: passed on.
        let Ok(named) = (unsafe { file::stamp_of_path(path) }) else {
            return Ok(());
        };
        self.drain_each(core, Some(Counter::StagingEndedCall), |staged| {
            staged.stamp.same_inode(&named)
        })
    }

    /// Gives every stage up, since writes are switched off; whether everything is in the kernel.
    /// What is not is the application's to be told by its next call. Needs no thread-local storage:
    /// the control thread calls it.
    pub(crate) fn fall_back_all(&self, core: &Core) -> bool {
        if !self.any() {
            return true;
        }
        let mut all = true;
        for place in &self.files {
            let mut staged = place.lock();
            if staged.owner != 0 {
                all &= self
                    .fall_back(core, &mut staged, Counter::StagingEndedSwitchedOff)
                    .is_ok();
            }
        }
        all
    }

    /// The process ends: nothing is staged any more.
    pub(crate) fn close_for_good(&self, core: &Core) {
        if !core.owner.is_this_process_or_nobody() {
            // It is a child that ends, which may have its parent's memory.
            return;
        }
        self.closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.any() {
            // There is nobody left to tell.
            let _ = self.drain_all(core, Some(Counter::StagingEndedProcess));
        }
    }

    /// Whether a file of this identity is staged; then everything of it is in the kernel, and,
    /// with `for_good`, stays there. If it has just been `truncated` to nothing, what was staged
    /// went with the rest.
    pub(crate) fn drain_identity(
        &self,
        core: &Core,
        device: u64,
        inode: u64,
        for_good: Option<Counter>,
        truncated: bool,
    ) -> bool {
        let _errno = ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return false;
        };
        if !core.owner.is_this_process() {
            return false;
        }
        for (place, its_inode) in self.files.iter().zip(&self.inodes) {
            // It is told before the table is counted: see `take_in`.
            if its_inode.load(Ordering::Acquire) != inode {
                continue;
            }
            let mut staged = place.lock();
            if staged.owner != 0 && staged.stamp.inode == inode && staged.stamp.device == device {
                if truncated {
                    self.discard(core, &mut staged);
                }
                let _ = match for_good {
                    Some(reason) => self.fall_back(core, &mut staged, reason),
                    None => self.drain(core, &mut staged),
                };
                return true;
            }
        }
        false
    }
}
