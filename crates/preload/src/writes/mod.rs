//! Tables that a background thread writes: which are treated, and what happens to them when the
//! application does something that would miss the bytes in a staging buffer.
//!
//! The state of a file is `coldstream_io::append`'s; here are the table of such files, the locks,
//! and the system calls. A file leaves the table, for good, with the first call that the state
//! does not know ("demoted"): everything is then in the kernel, and the file position is right.

mod drain;
mod kernel_io;
mod sweep;
mod take_in;
pub(crate) mod write;

use crate::core::descriptor_map::TrackedFile;
use crate::core::errno;
use crate::core::inode_map::Inode;
use crate::runtime::Runtime;
use crate::thread::Inside;
use coldstream_control::Counter;
use coldstream_handover::cassandra::ChunkLog;
use coldstream_io::Errno;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Operation, Staging, Verdict, WritebackProgress};
use coldstream_io::lock::{FutexGuard, FutexLock};
use coldstream_io::pool::WindowMemory;
use coldstream_io::private::PrivateDescriptor;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::writers::{Flight, Writers};
use coldstream_policy::IoMode;
use drain::run_chore;
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
enum WriteMode {
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
struct StagedFile {
    /// Slot of the inode plus one; 0 is a free place.
    owner: u32,
    /// The place's own number.
    number: usize,
    /// The application's descriptor.
    descriptor: i32,
    mode: WriteMode,
    stamp: FileStamp,
    alignment: Option<Alignment>,
    /// The second one is taken when the first has once been full.
    buffers: [WindowMemory; 2],
    /// Which of them is being filled.
    filling: usize,
    direct: PrivateDescriptor,
    staging: Staging,
    /// The write that is going on out of the other one.
    flight: Flight,
    /// I/O priority of the thread that last wrote; 0 is none.
    io_priority: i32,
    behind: WritebackProgress,
    /// The kernel's own file position is not the application's.
    position_is_behind: bool,
    /// A direct write was made, in the application's thread: those that follow may be handed over.
    was_tried: bool,
    /// A direct write was seen to leave no page behind.
    effect_is_proven: bool,
    /// Direct writes turned out to be of no use: a window from the next settling on.
    direct_disabled: bool,
    /// Error of a delayed write whose bytes are still staged; 0 is none.
    error: i32,
    /// Error of writeback that a call of ours was told of, and that the kernel will not tell the
    /// application any more; 0 is none.
    writeback_error: i32,
    readable: [(usize, usize); READABLE_MAX],
    next_readable: usize,
    /// Where the chunks of a table of Cassandra begin, for the handover.
    chunks: Option<Box<ChunkLog>>,
}

impl StagedFile {
    /// The I/O mode's name for figures.
    fn io_mode(&self) -> IoMode {
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
    count: AtomicU32,
    /// The process ends: nothing is taken in any more.
    closed: AtomicBool,
    files: [FutexLock<StagedFile>; STAGED_FILES_MAX],
    /// Inode of each one's table, 0 where there is none: who looks for a table waits for no other's
    /// writes.
    inodes: [AtomicU64; STAGED_FILES_MAX],
    writers: Writers,
    devices: FutexLock<[Device; DEVICES_MAX]>,
}

impl StagedFiles {
    /// Whether any file is in the table: one load.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Whether the process ends.
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn is_direct_disabled(&self, device: u64) -> bool {
        self.devices
            .lock()
            .iter()
            .any(|entry| entry.known && entry.number == device && entry.is_direct_disabled)
    }

    fn disable_direct(&self, device: u64) {
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
}

/// What a call on a table has to do with its stage.
pub(crate) enum Before {
    /// Nothing: it is made as it is.
    Plain,
    /// It is answered with this.
    Answer(u64),
}

impl Runtime {
    /// The stage of an inode, locked; `None` if it has none.
    fn staged_file(&self, slot: u32) -> Option<FutexGuard<'_, StagedFile>> {
        let number = self.inodes.get(slot)?.staged_slot()?;
        let staged = self.staging.files.get(number)?.lock();
        (staged.owner == slot + 1).then_some(staged)
    }

    /// Whether the table behind a descriptor is being written by us.
    #[inline]
    pub(crate) fn is_staged(&self, tracked: TrackedFile) -> bool {
        tracked.watched
            && self
                .inodes
                .get(tracked.slot)
                .is_some_and(|inode| inode.staged_slot().is_some())
    }

    /// The staged table behind a descriptor.
    #[inline]
    pub(crate) fn staged_table(&self, descriptor: i32) -> Option<TrackedFile> {
        self.tracked(descriptor)
            .filter(|tracked| self.is_staged(*tracked) && !self.are_seen_by_a_child())
    }

    /// Before the application does something with a staged table.
    ///
    /// # Errors
    /// What the application must be told instead of its call being made (a sync is made all the same):
    /// the error of a delayed write, without which it would see or change a file that is not what was
    /// written.
    #[cold]
    pub(crate) fn before(
        &self,
        tracked: TrackedFile,
        descriptor: i32,
        operation: Operation,
        reason: Counter,
    ) -> Result<Before, Errno> {
        let _errno = errno::ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return self.before_in_handler(tracked);
        };
        let Some(mut staged) = self.staged_file(tracked.slot) else {
            return Ok(Before::Plain);
        };
        if staged.position_is_behind && staged.mode != WriteMode::WriteBehind {
            // Could not be set before.
            let _ = self.drain(&mut staged);
        }
        // Positions are those of one descriptor; through another one they only look.
        let operation = match operation {
            Operation::AskPosition | Operation::MovePosition | Operation::Read
                if staged.descriptor != descriptor =>
            {
                Operation::Observe
            }
            other => other,
        };
        let verdict = match (staged.mode, staged.staging.verdict(operation)) {
            // The kernel has everything, and knows better.
            (
                WriteMode::WriteThrough | WriteMode::DontCache | WriteMode::DropBehind,
                Verdict::Answer(_),
            ) => Verdict::Proceed,
            (_, verdict) => verdict,
        };
        match verdict {
            Verdict::Answer(position) => Ok(Before::Answer(position)),
            Verdict::Proceed | Verdict::Buffer => Ok(Before::Plain),
            // A `vfork` child shares the memory, but not the descriptors.
            Verdict::Drain | Verdict::FallBack if !self.are_ours() => Ok(Before::Plain),
            Verdict::Drain => self.drain(&mut staged).map(|()| Before::Plain),
            Verdict::FallBack => self.fall_back(&mut staged, reason).map(|()| Before::Plain),
        }
    }

    /// [`Self::before`] in a signal handler that interrupted our own work: everything goes to the kernel,
    /// and later writes follow it, unless it is this very table's lock that was found held.
    fn before_in_handler(&self, tracked: TrackedFile) -> Result<Before, Errno> {
        let number = self.inodes.get(tracked.slot).and_then(Inode::staged_slot);
        let Some(place) = number.and_then(|number| self.staging.files.get(number)) else {
            return Ok(Before::Plain);
        };
        if !self.are_ours() {
            return Ok(Before::Plain);
        }
        // As if the signal had come a moment earlier.
        let mut staged = place.try_lock().ok_or(Errno(libc::EINTR))?;
        if staged.owner == tracked.slot + 1 {
            self.write_plainly(&mut staged)?;
        }
        Ok(Before::Plain)
    }

    /// After `fsync` and its like were told of everything: the error of a delayed write, for the
    /// application, and what a buffered writer leaves behind.
    pub(crate) fn after_sync(&self, tracked: TrackedFile, succeeded: bool) -> Result<(), Errno> {
        let _errno = errno::ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return Ok(());
        };
        let Some(mut staged) = self.staged_file(tracked.slot) else {
            return Ok(());
        };
        if succeeded && matches!(staged.mode, WriteMode::DontCache | WriteMode::DropBehind) {
            let end = staged.staging.end();
            if let Some(chore) = staged.behind.rest(end) {
                run_chore(&mut staged, chore);
            }
        }
        self.take_error(&mut staged)
    }

    /// `ftruncate` to `size` was made, or `lseek` to `position`, of a file with nothing staged.
    pub(crate) fn note_moved(
        &self,
        tracked: TrackedFile,
        descriptor: i32,
        size: Option<u64>,
        position: Option<u64>,
    ) {
        let Some(_inside) = Inside::enter() else {
            return;
        };
        let Some(mut staged) = self.staged_file(tracked.slot) else {
            return;
        };
        if staged.staging.staged_bytes() > 0 {
            return;
        }
        let ours = staged.descriptor == descriptor;
        let position = position
            .filter(|_| ours)
            .unwrap_or_else(|| staged.staging.position());
        let size = size.unwrap_or_else(|| staged.staging.end());
        let is_shorter = size < staged.staging.end();
        staged.staging.set_size_and_position(size, position);
        if is_shorter {
            // What was to be written back and dropped is not there any more, and a mapping that was made
            // before may go beyond what is: bytes that come to be there must be seen in it.
            let _ = self.fall_back(&mut staged, Counter::StagingEndedCall);
        }
    }

    /// The application is about to close a descriptor: if it is the one that a staged table is
    /// written through, brings everything to the kernel and ends. The error is the application's
    /// to be told, once the descriptor is closed.
    pub(crate) fn close_staged(&self, tracked: TrackedFile, descriptor: i32) -> Result<(), Errno> {
        let Some(mut staged) = self.staged_file(tracked.slot) else {
            return Ok(());
        };
        if staged.descriptor != descriptor {
            return Ok(());
        }
        let result = self.drain(&mut staged);
        if matches!(staged.mode, WriteMode::DontCache | WriteMode::DropBehind) {
            let end = staged.staging.end();
            let _ = file::start_write_back(descriptor, 0, end);
        }
        let error = result.and(self.take_error(&mut staged));
        self.release(&mut staged);
        error
    }

    /// Before a call that closes `descriptor` and could not tell of an error afterwards.
    ///
    /// # Errors
    /// The call's, instead of its being made: not everything is in the kernel.
    pub(crate) fn drain_before_close(
        &self,
        tracked: TrackedFile,
        descriptor: i32,
    ) -> Result<(), Errno> {
        let _errno = errno::ErrnoGuard::new();
        let Some(_inside) = Inside::enter().filter(|_| self.are_ours()) else {
            return Ok(());
        };
        let staged = self.staged_file(tracked.slot);
        let Some(mut staged) = staged.filter(|staged| staged.descriptor == descriptor) else {
            return Ok(());
        };
        self.drain(&mut staged)?;
        self.take_error(&mut staged)
    }

    /// What a table that is being written has in the page cache before `end`, on a page's boundary, stays
    /// there: a part of it has been opened to be read.
    pub(crate) fn keep_cached(&self, slot: u32, end: u64) {
        if let Some(mut staged) = self.staged_file(slot) {
            staged.behind.keep_to(end);
        }
    }

    /// Takes out what is known of the chunks of a table that is being written, and the bytes that
    /// have been written of it; `None` if it is not written by us.
    pub(crate) fn take_chunk_log(&self, slot: u32) -> Option<(Box<ChunkLog>, u64)> {
        let mut staged = self.staged_file(slot)?;
        let chunks = staged.chunks.take()?;
        Some((chunks, staged.staging.end()))
    }

    /// Puts it back.
    pub(crate) fn give_chunk_log_back(&self, slot: u32, chunks: Box<ChunkLog>) {
        if let Some(mut staged) = self.staged_file(slot) {
            staged.chunks = Some(chunks);
        }
    }

    /// Gives an inode's stage up.
    pub(crate) fn fall_back_slot(&self, slot: u32, reason: Counter) -> Result<(), Errno> {
        match self.staged_file(slot) {
            Some(mut staged) => self.fall_back(&mut staged, reason),
            None => Ok(()),
        }
    }
}
