//! The state of staged files: their list, their locks, and the search for one of them.

use super::drainer::Drainer;
use crate::core::Core;
use crate::core::descriptor_map::TrackedFile;
use crate::core::inode_map::Inode;
use coldstream_handover::cassandra::ChunkLog;
use coldstream_io::Errno;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Operation, Staging, Views, WritebackProgress};
use coldstream_io::lock::{FutexGuard, FutexLock};
use coldstream_io::pool::WindowMemory;
use coldstream_io::private::PrivateDescriptor;
use coldstream_io::sys::file::FileStamp;
use coldstream_io::writers::{Flight, Writers};
use coldstream_policy::IoMode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The most files that are staged at once. Further ones are written by plain calls.
pub const STAGED_FILES_MAX: usize = 128;
/// The most devices of which is remembered whether direct writes work. Others are tried again for every file.
const DEVICES_MAX: usize = 32;
/// So many files in a row must fail before direct writes are given up on a device. One may fail because another process
/// has read the file meanwhile.
const FAILED_FILES_MAX: u32 = 5;
/// Ranges of the application's memory that were found readable. They are not asked about again.
const READABLE_MAX: usize = 4;

/// How a staged file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum WriteMode {
    /// By plain calls: a free entry, or the staging has ended with an error that the application must still get.
    #[default]
    None = 0,
    /// From a staging buffer, by direct I/O. The process sees the bytes before the kernel has them.
    WriteBehind,
    /// From a staging buffer, by direct I/O, before `write` returns.
    WriteThrough,
    /// With `RWF_DONTCACHE`.
    DontCache,
    /// Buffered, written back early, and dropped from the page cache.
    DropBehind,
}

/// A staged file.
#[derive(Default)]
pub(super) struct StagedFile {
    /// Slot of the inode plus one; 0 is a free entry.
    pub(super) owner: u32,
    /// The entry's own number.
    pub(super) number: usize,
    /// The application's descriptor.
    pub(super) descriptor: i32,
    pub(super) mode: WriteMode,
    pub(super) stamp: FileStamp,
    pub(super) alignment: Option<Alignment>,
    /// The second buffer is allocated when the first one has been full once.
    pub(super) buffers: [WindowMemory; 2],
    /// The number of the buffer that is being filled.
    pub(super) filling: usize,
    pub(super) direct: PrivateDescriptor,
    pub(super) staging: Staging,
    /// The write in flight, out of the other buffer.
    pub(super) flight: Flight,
    /// I/O priority of the thread that wrote last; 0 is none.
    pub(super) io_priority: i32,
    pub(super) behind: WritebackProgress,
    /// The kernel's file position differs from the application's.
    pub(super) position_is_behind: bool,
    /// The application's thread has made a direct write: later ones may be handed to a writer thread.
    pub(super) was_tried: bool,
    /// A check has shown that a direct write leaves no page in the page cache.
    pub(super) effect_is_proven: bool,
    /// Direct writes do not work for this file. From the next drain on it is written drop-behind.
    pub(super) direct_disabled: bool,
    /// Error of a delayed write whose bytes are still staged; 0 is none.
    pub(super) error: i32,
    /// Error of writeback that a call of ours has consumed; 0 is none. The kernel will not report it to the
    /// application any more.
    pub(super) writeback_error: i32,
    pub(super) readable: [(usize, usize); READABLE_MAX],
    pub(super) next_readable: usize,
    /// Where the chunks of a Cassandra file begin, for the handover.
    pub(super) chunks: Option<Box<ChunkLog>>,
}

impl StagedFile {
    /// The I/O mode's name for figures.
    pub(super) fn io_mode(&self) -> IoMode {
        match self.mode {
            WriteMode::WriteBehind | WriteMode::WriteThrough => IoMode::Direct,
            WriteMode::DontCache => IoMode::DontCache,
            WriteMode::DropBehind => IoMode::DropBehind,
            WriteMode::None => IoMode::Buffered,
        }
    }
}

/// Whether direct writes work on a device.
#[derive(Clone, Copy)]
struct Device {
    number: u64,
    known: bool,
    /// A direct write has left no page in the page cache. So it can only fail for single files.
    is_proven: bool,
    /// Files in a row for which direct writes did not work, before it was proven.
    failed_files: u32,
}

/// All staged files; all-zero memory is none.
#[repr(C)]
pub struct StagedFiles {
    /// The number of staged files.
    pub(super) count: AtomicU32,
    /// The process ends: no further file is taken in.
    pub(super) closed: AtomicBool,
    pub(super) files: [FutexLock<StagedFile>; STAGED_FILES_MAX],
    /// What calls may know of the files without waiting for their locks.
    pub(super) views: Views<STAGED_FILES_MAX>,
    pub(super) drainer: Drainer,
    pub(super) writers: Writers,
    devices: FutexLock<[Device; DEVICES_MAX]>,
}

impl StagedFiles {
    /// Whether any file is staged: one load.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Wakes the helpers that have not followed the process's credentials. Returns whether there were any.
    pub fn wake_followers(&self) -> bool {
        let writers = self.writers.wake_followers();
        self.drainer.wake_follower() || writers
    }

    /// Whether the process ends.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn is_direct_disabled(&self, device: u64) -> bool {
        self.devices.lock().iter().any(|entry| {
            entry.known && entry.number == device && entry.failed_files >= FAILED_FILES_MAX
        })
    }

    /// A direct write has left no page in the page cache.
    pub(super) fn prove_direct(&self, device: u64) {
        self.change_device(device, |entry| {
            (entry.is_proven, entry.failed_files) = (true, 0);
        });
    }

    /// Direct writes do not work for a file.
    pub(super) fn record_failed_file(&self, device: u64) {
        self.change_device(device, |entry| {
            entry.failed_files += u32::from(!entry.is_proven);
        });
    }

    fn change_device(&self, device: u64, change: impl FnOnce(&mut Device)) {
        // A signal handler's own thread may hold the lock. Then the next file on the device tells.
        let Some(mut devices) = self.devices.try_lock() else {
            return;
        };
        let index = devices
            .iter()
            .position(|entry| entry.known && entry.number == device)
            .or_else(|| devices.iter().position(|entry| !entry.known));
        if let Some(entry) = index.and_then(|index| devices.get_mut(index)) {
            (entry.number, entry.known) = (device, true);
            change(entry);
        }
    }

    /// The staged file of an inode, locked; `None` if it has none.
    pub(super) fn staged_file(&self, core: &Core, slot: u32) -> Option<FutexGuard<'_, StagedFile>> {
        let number = core.inodes.get(slot)?.staged_slot()?;
        let staged = self.lock(number)?;
        (staged.owner == slot + 1).then_some(staged)
    }

    /// Waits for the lock of an entry. The drainer may have died with it: a filter of system calls may have killed
    /// it at a call. What it had not written is still staged then.
    pub(super) fn lock(&self, number: usize) -> Option<FutexGuard<'_, StagedFile>> {
        let file = self.files.get(number)?;
        // SAFETY: the drainer held this lock, and has ended. One caller is told.
        Some(unsafe { file.lock_or_inherit(|| self.drainer.leaves(number)) })
    }

    /// As [`StagedFiles::lock`], without a wait.
    pub(super) fn try_lock(&self, number: usize) -> Option<FutexGuard<'_, StagedFile>> {
        let file = self.files.get(number)?;
        // SAFETY: as above.
        unsafe { file.try_lock_or_inherit(|| self.drainer.leaves(number)) }
    }

    /// As [`StagedFiles::staged_file`], in a signal handler that interrupted our own work: its own thread may hold the
    /// lock, so the wait is short. Others hold the lock of an idle file for a moment, while they look for a free entry.
    ///
    /// # Errors
    /// `EINTR`: the lock is held. A signal that came a moment earlier would cause that.
    pub(super) fn staged_file_in_handler(
        &self,
        core: &Core,
        slot: u32,
    ) -> Result<Option<FutexGuard<'_, StagedFile>>, Errno> {
        const ATTEMPTS: u32 = 100;
        let number = core.inodes.get(slot).and_then(Inode::staged_slot);
        let Some(number) = number.filter(|_| core.owner.is_this_process()) else {
            return Ok(None);
        };
        let locked = (0..ATTEMPTS).find_map(|_| {
            let staged = self.try_lock(number);
            if staged.is_none() {
                std::thread::yield_now();
            }
            staged
        });
        let staged = locked.ok_or(Errno(libc::EINTR))?;
        Ok((staged.owner == slot + 1).then_some(staged))
    }

    /// Tells other threads how far the kernel has a file, and how long it is.
    pub(super) fn publish(&self, staged: &StagedFile) {
        self.views
            .publish(staged.number, staged.staging.landed(), staged.staging.end());
    }

    /// The views of all staged files.
    pub fn views(&self) -> &Views<STAGED_FILES_MAX> {
        &self.views
    }

    /// The number of an inode's staged file.
    fn number_of(core: &Core, slot: u32) -> Option<usize> {
        core.inodes.get(slot).and_then(Inode::staged_slot)
    }

    /// Whether this descriptor writes the inode's staged file. Waits for no lock.
    pub fn is_written_by(&self, core: &Core, slot: u32, descriptor: i32) -> bool {
        Self::number_of(core, slot)
            .is_some_and(|number| self.views.is_written_by(number, descriptor))
    }

    /// Whether an operation of `descriptor` sees only what the kernel has. Waits for no lock.
    pub fn sees_only_landed(
        &self,
        core: &Core,
        slot: u32,
        descriptor: i32,
        operation: Operation,
    ) -> bool {
        Self::number_of(core, slot)
            .is_none_or(|number| self.views.sees_only_landed(number, descriptor, operation))
    }

    /// Whether the file behind a descriptor is staged.
    #[inline]
    pub fn is_staged(&self, core: &Core, tracked: TrackedFile) -> bool {
        tracked.watched
            && core
                .inodes
                .get(tracked.slot)
                .is_some_and(|inode| inode.staged_slot().is_some())
    }

    /// The staged file behind a descriptor.
    #[inline]
    pub fn find(&self, core: &Core, descriptor: i32) -> Option<TrackedFile> {
        core.tracked(descriptor)
            .filter(|tracked| self.is_staged(core, *tracked) && !core.owner.is_seen_by_a_child())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_while_it_is_staged() {
        let (core, tracked) = Core::with_file(3);
        // SAFETY: all-zero memory is a valid one.
        let files: Box<StagedFiles> = unsafe { Box::new_zeroed().assume_init() };
        let watched = TrackedFile {
            watched: true,
            ..tracked
        };
        core.update(3, tracked.slot, |file| file.watched = true);
        assert!(files.find(&core, 3).is_none());
        let inode = core.inodes.get(tracked.slot).unwrap();
        inode.set_staged_slot(Some(5));
        files.files[5].lock().owner = tracked.slot + 1;
        assert_eq!(files.find(&core, 3), Some(watched));
        assert!(!files.is_staged(&core, tracked), "opened before");
        assert!(files.staged_file(&core, tracked.slot).is_some());
        files.files[5].lock().owner = 0;
        assert!(files.staged_file(&core, tracked.slot).is_none());
    }

    #[test]
    fn a_device_that_refuses_direct_writes_is_remembered() {
        // SAFETY: all-zero memory is a valid one.
        let files: Box<StagedFiles> = unsafe { Box::new_zeroed().assume_init() };
        assert!(!files.is_direct_disabled(0));
        for device in 0..DEVICES_MAX as u64 + 1 {
            for _ in 0..FAILED_FILES_MAX {
                assert!(!files.is_direct_disabled(device), "{device}: too early");
                files.record_failed_file(device);
            }
        }
        assert!(files.is_direct_disabled(0) && files.is_direct_disabled(DEVICES_MAX as u64 - 1));
        assert!(
            !files.is_direct_disabled(DEVICES_MAX as u64),
            "one too many"
        );
    }

    #[test]
    fn a_device_that_was_proven_stays_proven() {
        // SAFETY: all-zero memory is a valid one.
        let files: Box<StagedFiles> = unsafe { Box::new_zeroed().assume_init() };
        files.record_failed_file(7);
        files.prove_direct(7);
        for _ in 0..2 * FAILED_FILES_MAX {
            files.record_failed_file(7);
        }
        assert!(!files.is_direct_disabled(7));
    }
}
