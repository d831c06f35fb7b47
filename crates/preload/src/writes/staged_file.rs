//! A staged file, and all of them: their state, their locks, and how one is found.

use crate::core::Core;
use crate::core::descriptor_map::TrackedFile;
use coldstream_handover::cassandra::ChunkLog;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Staging, WritebackProgress};
use coldstream_io::lock::{FutexGuard, FutexLock};
use coldstream_io::pool::WindowMemory;
use coldstream_io::private::PrivateDescriptor;
use coldstream_io::sys::file::FileStamp;
use coldstream_io::writers::{Flight, Writers};
use coldstream_policy::IoMode;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Tables written at once; further ones are written plainly.
const STAGED_FILES_MAX: usize = 128;
/// Filesystems whose way of writing is remembered; others are asked for every table.
const DEVICES_MAX: usize = 32;
/// Ranges of the application's memory that were found readable and are not asked about again.
const READABLE_MAX: usize = 4;

/// How a table is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum WriteMode {
    /// Not at all by us.
    #[default]
    None = 0,
    /// Out of a staging buffer, directly; visible to the process before the kernel has it.
    WriteBehind,
    /// Out of a staging buffer, directly, before `write` returns.
    WriteThrough,
    /// With `RWF_DONTCACHE`.
    DontCache,
    /// Buffered, written back early and dropped.
    DropBehind,
}

/// A table that is being written.
#[derive(Default)]
pub(super) struct StagedFile {
    /// Slot of the inode plus one; 0 is a free place.
    pub(super) owner: u32,
    /// The place's own number.
    pub(super) number: usize,
    /// The application's descriptor.
    pub(super) descriptor: i32,
    pub(super) mode: WriteMode,
    pub(super) stamp: FileStamp,
    pub(super) alignment: Option<Alignment>,
    /// The second one is taken when the first has once been full.
    pub(super) buffers: [WindowMemory; 2],
    /// Which of them is being filled.
    pub(super) filling: usize,
    pub(super) direct: PrivateDescriptor,
    pub(super) staging: Staging,
    /// The write that is going on out of the other one.
    pub(super) flight: Flight,
    /// I/O priority of the thread that last wrote; 0 is none.
    pub(super) io_priority: i32,
    pub(super) behind: WritebackProgress,
    /// The kernel's own file position is not the application's.
    pub(super) position_is_behind: bool,
    /// A direct write was made, in the application's thread: those that follow may be handed over.
    pub(super) was_tried: bool,
    /// A direct write was seen to leave no page behind.
    pub(super) effect_is_proven: bool,
    /// Direct writes turned out to be of no use: a window from the next settling on.
    pub(super) direct_disabled: bool,
    /// Error of a delayed write whose bytes are still staged; 0 is none.
    pub(super) error: i32,
    /// Error of writeback that a call of ours was told of, and that the kernel will not tell the
    /// application any more; 0 is none.
    pub(super) writeback_error: i32,
    pub(super) readable: [(usize, usize); READABLE_MAX],
    pub(super) next_readable: usize,
    /// Where the chunks of a table of Cassandra begin, for the handover.
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

/// What is known of writing to a device.
#[derive(Clone, Copy)]
struct Device {
    number: u64,
    known: bool,
    /// Direct writes are of no use there.
    is_direct_disabled: bool,
}

/// The table; all-zero memory is an empty one.
#[repr(C)]
pub(crate) struct StagedFiles {
    /// Files in the table.
    pub(super) count: AtomicU32,
    /// The process ends: nothing is taken in any more.
    pub(super) closed: AtomicBool,
    pub(super) files: [FutexLock<StagedFile>; STAGED_FILES_MAX],
    /// Inode of each one's table, 0 where there is none: who looks for a table waits for no other's
    /// writes.
    pub(super) inodes: [AtomicU64; STAGED_FILES_MAX],
    pub(super) writers: Writers,
    devices: FutexLock<[Device; DEVICES_MAX]>,
}

impl StagedFiles {
    /// Whether any file is in the table: one load.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Whether the process ends.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn is_direct_disabled(&self, device: u64) -> bool {
        self.devices
            .lock()
            .iter()
            .any(|entry| entry.known && entry.number == device && entry.is_direct_disabled)
    }

    pub(super) fn disable_direct(&self, device: u64) {
        // In a signal handler its own thread may hold it: then another table will be refused, too.
        let Some(mut devices) = self.devices.try_lock() else {
            return;
        };
        let place = devices
            .iter()
            .position(|entry| entry.known && entry.number == device)
            .or_else(|| devices.iter().position(|entry| !entry.known));
        if let Some(entry) = place.and_then(|place| devices.get_mut(place)) {
            *entry = Device {
                number: device,
                known: true,
                is_direct_disabled: true,
            };
        }
    }

    /// The stage of an inode, locked; `None` if it has none.
    pub(super) fn staged_file(&self, core: &Core, slot: u32) -> Option<FutexGuard<'_, StagedFile>> {
        let number = core.inodes.get(slot)?.staged_slot()?;
        let staged = self.files.get(number)?.lock();
        (staged.owner == slot + 1).then_some(staged)
    }

    /// Whether the table behind a descriptor is being written by us.
    #[inline]
    pub(crate) fn is_staged(&self, core: &Core, tracked: TrackedFile) -> bool {
        tracked.watched
            && core
                .inodes
                .get(tracked.slot)
                .is_some_and(|inode| inode.staged_slot().is_some())
    }

    /// The staged table behind a descriptor.
    #[inline]
    pub(crate) fn find(&self, core: &Core, descriptor: i32) -> Option<TrackedFile> {
        core.tracked(descriptor)
            .filter(|tracked| self.is_staged(core, *tracked) && !core.owner.is_seen_by_a_child())
    }
}
