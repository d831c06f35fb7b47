//! Tables that a background thread writes: which are treated, and what happens to them when the
//! application does something that would miss the bytes in a staging buffer.
//!
//! The state of a file is `coldstream_io::append`'s; here are the table of such files, the locks,
//! and the system calls. A file leaves the table, for good, with the first call that the state
//! does not know ("demoted"): everything is then in the kernel, and the file position is right.

mod begin;
mod edge;
pub(crate) mod write;

use crate::books::Books;
use crate::descriptors::Table;
use crate::errno;
use crate::thread::Inside;
use coldstream_control::Counter;
use coldstream_handover::cassandra::ChunkLog;
use coldstream_io::Errno;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Behind, Chore, Operation, Staging, Verdict};
use coldstream_io::lock::{FutexGuard, FutexLock};
use coldstream_io::pool::WindowMemory;
use coldstream_io::private::PrivateDescriptor;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::writers::{Flight, Writers};
use coldstream_policy::Treatment;
use edge::{Kernel, Memory, Outcome};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// Tables written at once; further ones are written plainly.
const STAGES_MAX: usize = 128;
/// Filesystems whose way of writing is remembered; others are asked for every table.
const DEVICES_MAX: usize = 32;
/// Ranges of the application's memory that were found readable and are not asked about again.
const READABLE_MAX: usize = 4;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Mode {
    /// Not at all by us.
    None = 0,
    /// Out of a staging buffer, directly; visible to the process before the kernel has it.
    Staged,
    /// Out of a staging buffer, directly, before `write` returns.
    Through,
    /// With `RWF_DONTCACHE`.
    DontCache,
    /// Buffered, written back early and dropped.
    Window,
}

/// A table that is being written.
struct Stage {
    /// Slot of the inode plus one; 0 is a free place.
    owner: u32,
    /// The application's descriptor.
    descriptor: i32,
    mode: Mode,
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
    behind: Behind,
    /// The kernel's own file position is not the application's.
    position_is_behind: bool,
    /// A direct write was made, in the application's thread: those that follow may be handed over.
    was_tried: bool,
    /// A direct write was seen to leave no page behind.
    effect_is_proven: bool,
    /// Direct writes turned out to be of no use: a window from the next settling on.
    unfit: bool,
    /// Error of a delayed write whose bytes are still staged; 0 is none.
    error: i32,
    /// Error of writeback that a call of ours was told of, and that the kernel will not tell the
    /// application any more; 0 is none.
    lost: i32,
    readable: [(usize, usize); READABLE_MAX],
    next_readable: usize,
    /// Where the chunks of a table of Cassandra begin, for the handover.
    chunks: Option<Box<ChunkLog>>,
}

impl Stage {
    /// The treatment's name for figures.
    fn treatment(&self) -> Treatment {
        match self.mode {
            Mode::Staged | Mode::Through => Treatment::Direct,
            Mode::DontCache => Treatment::DontCache,
            Mode::Window => Treatment::Window,
            Mode::None => Treatment::Buffered,
        }
    }
}

/// What is known of writing to a device.
#[derive(Clone, Copy)]
struct Device {
    number: u64,
    known: bool,
    /// Direct writes are of no use there.
    refuses_direct: bool,
}

/// The table; all-zero memory is an empty one.
#[repr(C)]
pub(crate) struct Stages {
    /// Files in the table.
    count: AtomicU32,
    /// The process ends: nothing is taken in any more.
    closed: AtomicBool,
    stages: [FutexLock<Stage>; STAGES_MAX],
    /// Inode of each one's table, 0 where there is none: who looks for a table waits for no other's
    /// writes.
    inodes: [AtomicU64; STAGES_MAX],
    writers: Writers,
    devices: FutexLock<[Device; DEVICES_MAX]>,
}

impl Stages {
    /// Whether any file is in the table: one load.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Whether the process ends.
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn refuses_direct(&self, device: u64) -> bool {
        self.devices
            .lock()
            .iter()
            .any(|entry| entry.known && entry.number == device && entry.refuses_direct)
    }

    fn note_refusal(&self, device: u64) {
        let mut devices = self.devices.lock();
        let place = devices
            .iter()
            .position(|entry| entry.known && entry.number == device)
            .or_else(|| devices.iter().position(|entry| !entry.known));
        if let Some(entry) = place.and_then(|place| devices.get_mut(place)) {
            *entry = Device {
                number: device,
                known: true,
                refuses_direct: true,
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

impl Books {
    /// The stage of an inode, locked; `None` if it has none.
    fn stage(&self, slot: u32) -> Option<FutexGuard<'_, Stage>> {
        let number = self.inodes.get(slot)?.stage()?;
        let stage = self.staging.stages.get(number)?.lock();
        (stage.owner == slot + 1).then_some(stage)
    }

    /// Whether the table behind a descriptor is being written by us.
    #[inline]
    pub(crate) fn is_staged(&self, table: Table) -> bool {
        table.watched
            && self
                .inodes
                .get(table.slot)
                .is_some_and(|inode| inode.stage().is_some())
    }

    /// The staged table behind a descriptor.
    #[inline]
    pub(crate) fn staged_table(&self, descriptor: i32) -> Option<Table> {
        self.table(descriptor)
            .filter(|table| self.is_staged(*table))
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
        table: Table,
        descriptor: i32,
        operation: Operation,
        reason: Counter,
    ) -> Result<Before, Errno> {
        let _errno = errno::ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            // A signal handler in the middle of our own work: nothing can be brought up to date.
            return Ok(Before::Plain);
        };
        let Some(mut stage) = self.stage(table.slot) else {
            return Ok(Before::Plain);
        };
        if stage.position_is_behind && stage.mode != Mode::Staged {
            // Could not be set before.
            let _ = self.settle_stage(&mut stage);
        }
        // Positions are those of one descriptor; through another one they only look.
        let operation = match operation {
            Operation::AskPosition | Operation::MovePosition | Operation::Read
                if stage.descriptor != descriptor =>
            {
                Operation::Observe
            }
            other => other,
        };
        let verdict = match (stage.mode, stage.staging.verdict(operation)) {
            // The kernel has everything, and knows better.
            (Mode::Through | Mode::DontCache | Mode::Window, Verdict::Answer(_)) => Verdict::Leave,
            (_, verdict) => verdict,
        };
        match verdict {
            Verdict::Answer(position) => Ok(Before::Answer(position)),
            Verdict::Leave | Verdict::Stage => Ok(Before::Plain),
            // A `vfork` child shares the memory, but not the descriptors.
            Verdict::Settle | Verdict::Demote if !self.are_ours() => Ok(Before::Plain),
            Verdict::Settle => self.settle_stage(&mut stage).map(|()| Before::Plain),
            Verdict::Demote => self.demote(&mut stage, reason).map(|()| Before::Plain),
        }
    }

    /// After `fsync` and its like were told of everything: the error of a delayed write, for the
    /// application, and what a buffered writer leaves behind.
    pub(crate) fn after_sync(&self, table: Table, succeeded: bool) -> Result<(), Errno> {
        let _errno = errno::ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return Ok(());
        };
        let Some(mut stage) = self.stage(table.slot) else {
            return Ok(());
        };
        if succeeded && matches!(stage.mode, Mode::DontCache | Mode::Window) {
            let end = stage.staging.end();
            if let Some(chore) = stage.behind.rest(end) {
                run_chore(&mut stage, chore);
            }
        }
        self.take_error(&mut stage)
    }

    /// The error of a delayed write, if it is still one.
    fn take_error(&self, stage: &mut Stage) -> Result<(), Errno> {
        let error = match (std::mem::take(&mut stage.lost), stage.error) {
            (0, 0) => return Ok(()),
            (0, error) | (error, _) => Errno(error),
        };
        if stage.staging.staged_bytes() == 0 {
            stage.error = 0;
        }
        self.count(Counter::WriteErrors, 1);
        Err(error)
    }

    /// `ftruncate` to `size` was made, or `lseek` to `position`, of a file with nothing staged.
    pub(crate) fn note_moved(
        &self,
        table: Table,
        descriptor: i32,
        size: Option<u64>,
        position: Option<u64>,
    ) {
        let Some(_inside) = Inside::enter() else {
            return;
        };
        let Some(mut stage) = self.stage(table.slot) else {
            return;
        };
        if stage.staging.staged_bytes() > 0 {
            return;
        }
        let ours = stage.descriptor == descriptor;
        let position = position
            .filter(|_| ours)
            .unwrap_or_else(|| stage.staging.position());
        let size = size.unwrap_or_else(|| stage.staging.end());
        if size < stage.staging.end() && matches!(stage.mode, Mode::DontCache | Mode::Window) {
            // What was to be written back and dropped is not there any more.
            let _ = self.demote(&mut stage, Counter::DemotedCall);
            return;
        }
        stage.staging.moved(size, position);
    }

    /// The application is about to close a descriptor: if it is the one that a staged table is
    /// written through, brings everything to the kernel and ends. The error is the application's
    /// to be told, once the descriptor is closed.
    pub(crate) fn end_stage_of(&self, table: Table, descriptor: i32) -> Result<(), Errno> {
        let Some(mut stage) = self.stage(table.slot) else {
            return Ok(());
        };
        if stage.descriptor != descriptor {
            return Ok(());
        }
        let result = self.settle_stage(&mut stage);
        if matches!(stage.mode, Mode::DontCache | Mode::Window) {
            let end = stage.staging.end();
            let _ = file::start_write_back(descriptor, 0, end);
        }
        let error = result.and(self.take_error(&mut stage));
        self.release(&mut stage);
        error
    }

    /// Before a call that closes `descriptor` and could not tell of an error afterwards.
    ///
    /// # Errors
    /// The call's, instead of its being made: not everything is in the kernel.
    pub(crate) fn settle_stage_of(&self, table: Table, descriptor: i32) -> Result<(), Errno> {
        let _errno = errno::ErrnoGuard::new();
        let Some(_inside) = Inside::enter().filter(|_| self.are_ours()) else {
            return Ok(());
        };
        let stage = self.stage(table.slot);
        let Some(mut stage) = stage.filter(|stage| stage.descriptor == descriptor) else {
            return Ok(());
        };
        self.settle_stage(&mut stage)?;
        self.take_error(&mut stage)
    }

    /// Brings everything of every staged table on a device to the kernel.
    ///
    /// # Errors
    /// The first table's that could not be brought there.
    pub(crate) fn settle_device(&self, device: u64) -> Result<(), Errno> {
        self.settle_where(None, |stage| stage.stamp.device == device)
    }

    /// Brings everything of every staged table to the kernel; with `for_good` nothing is staged
    /// from then on in the tables of now.
    ///
    /// # Errors
    /// The first table's that could not be brought there.
    #[cold]
    pub(crate) fn settle_all(&self, for_good: Option<Counter>) -> Result<(), Errno> {
        self.settle_where(for_good, |_| true)
    }

    fn settle_where(
        &self,
        for_good: Option<Counter>,
        is_concerned: impl Fn(&Stage) -> bool,
    ) -> Result<(), Errno> {
        let _errno = errno::ErrnoGuard::new();
        let inside = Inside::enter();
        let mut all = Ok(());
        if !self.are_ours() {
            return all;
        }
        for place in &self.staging.stages {
            // In a signal handler that interrupted our own work, what is locked stays as it is.
            let stage = if inside.is_some() {
                Some(place.lock())
            } else {
                place.try_lock()
            };
            let Some(mut stage) = stage.filter(|stage| stage.owner != 0 && is_concerned(stage))
            else {
                continue;
            };
            let settled = match for_good {
                Some(reason) => self.demote(&mut stage, reason),
                None => self.settle_stage(&mut stage),
            };
            all = all.and(settled);
        }
        all
    }

    /// Gives every stage up, since writes are switched off; whether everything is in the kernel.
    /// What is not is the application's to be told by its next call. Needs no thread-local storage:
    /// the keeper calls it.
    pub(crate) fn give_up_all_stages(&self) -> bool {
        if !self.staging.any() {
            return true;
        }
        let mut all = true;
        for place in &self.staging.stages {
            let mut stage = place.lock();
            if stage.owner != 0 {
                all &= self.demote(&mut stage, Counter::DemotedSwitchedOff).is_ok();
            }
        }
        all
    }

    /// The process ends: nothing is staged any more.
    pub(crate) fn close_staging(&self) {
        if !self.are_ours_or_empty() {
            // It is a child that ends, which may have its parent's memory.
            return;
        }
        self.staging.closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.staging.any() {
            // There is nobody left to tell.
            let _ = self.settle_all(Some(Counter::DemotedProcess));
        }
    }

    /// What a table that is being written has in the page cache before `end`, on a page's boundary, stays
    /// there: a part of it has been opened to be read.
    pub(crate) fn keep_cached(&self, slot: u32, end: u64) {
        if let Some(mut stage) = self.stage(slot) {
            stage.behind.keep_to(end);
        }
    }

    /// Takes out what is known of the chunks of a table that is being written, and the bytes that
    /// have been written of it; `None` if it is not written by us.
    pub(crate) fn take_chunk_log(&self, slot: u32) -> Option<(Box<ChunkLog>, u64)> {
        let mut stage = self.stage(slot)?;
        let chunks = stage.chunks.take()?;
        Some((chunks, stage.staging.end()))
    }

    /// Puts it back.
    pub(crate) fn give_chunk_log_back(&self, slot: u32, chunks: Box<ChunkLog>) {
        if let Some(mut stage) = self.stage(slot) {
            stage.chunks = Some(chunks);
        }
    }

    /// Gives an inode's stage up.
    pub(crate) fn give_up_stage(&self, slot: u32, reason: Counter) -> Result<(), Errno> {
        match self.stage(slot) {
            Some(mut stage) => self.demote(&mut stage, reason),
            None => Ok(()),
        }
    }

    /// Whether a file of this identity is staged; then everything of it is in the kernel, and,
    /// with `for_good`, stays there. If it has just been `truncated` to nothing, what was staged
    /// went with the rest.
    pub(crate) fn settle_identity(
        &self,
        device: u64,
        inode: u64,
        for_good: Option<Counter>,
        truncated: bool,
    ) -> bool {
        let _errno = errno::ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return false;
        };
        if !self.are_ours() {
            return false;
        }
        for (place, its_inode) in self.staging.stages.iter().zip(&self.staging.inodes) {
            // It is told before the table is counted: see `begin_stage`.
            if its_inode.load(Ordering::Acquire) != inode {
                continue;
            }
            let mut stage = place.lock();
            if stage.owner != 0 && stage.stamp.inode == inode && stage.stamp.device == device {
                if truncated {
                    self.discard(&mut stage);
                }
                let _ = match for_good {
                    Some(reason) => self.demote(&mut stage, reason),
                    None => self.settle_stage(&mut stage),
                };
                return true;
            }
        }
        false
    }

    /// Brings everything to the kernel, the file position too.
    fn settle_stage(&self, stage: &mut Stage) -> Result<(), Errno> {
        let mut settled = Ok(());
        if stage.staging.staged_bytes() > 0 {
            self.count(Counter::Settled, 1);
            settled = self.with_kernel(stage, |staging, kernel, memory, alignment| {
                staging.settle(kernel, memory, alignment)
            });
        }
        // Where not all could be written, too: whoever shares the position must not write over what was.
        if stage.position_is_behind && kernel_is(stage.descriptor, &stage.stamp) {
            let positioned = file::set_position(stage.descriptor, stage.staging.position());
            stage.position_is_behind = settled.is_err() || positioned.is_err();
            settled = settled.and(positioned);
        }
        settled?;
        if stage.unfit && matches!(stage.mode, Mode::Staged | Mode::Through) {
            stage.mode = Mode::Window;
        }
        Ok(())
    }

    /// What is staged went with the rest of the file, which was just truncated to nothing.
    fn discard(&self, stage: &mut Stage) {
        let was_in_flight =
            self.with_kernel(stage, |staging, kernel, _, _| Ok(staging.discard(kernel)));
        // It may have come after the truncation.
        if was_in_flight == Ok(true)
            && let Some(direct) = stage.direct.number()
            && kernel_is(direct, &stage.stamp)
        {
            let _ = file::truncate(direct, 0);
        }
    }

    /// Settles, and leaves the file to the kernel. A file that cannot be settled stays, with its
    /// error.
    fn demote(&self, stage: &mut Stage, reason: Counter) -> Result<(), Errno> {
        self.settle_stage(stage)?;
        self.count(reason, 1);
        if stage.lost == 0 {
            self.release(stage);
        } else {
            // What the application must still be told keeps the file here, written plainly.
            stage.mode = Mode::Window;
        }
        Ok(())
    }

    /// Frees the place. What the stage has of the application's allocator stays until the place is
    /// taken again: the keeper comes here too, and has none.
    fn release(&self, stage: &mut Stage) {
        if let Some(inode) = stage
            .owner
            .checked_sub(1)
            .and_then(|slot| self.inodes.get(slot))
        {
            let place = inode
                .stage()
                .and_then(|number| self.staging.inodes.get(number));
            if let Some(its_inode) = place {
                its_inode.store(0, Ordering::Release);
            }
            inode.set_stage(None);
            inode.note_change();
        }
        let stamp = stage.stamp;
        stage.direct.close(&stamp, self);
        debug_assert_eq!(stage.flight, Flight::default(), "settled before");
        for buffer in std::mem::take(&mut stage.buffers) {
            self.scanner.pool().give_back(buffer, false);
        }
        stage.owner = 0;
        stage.mode = Mode::None;
        self.staging.count.fetch_sub(1, Ordering::AcqRel);
        self.note_memory();
    }

    /// Takes a second buffer for a table that has filled its first, if there is memory to spare:
    /// half of all at least is the readers'.
    fn take_second_buffer(&self, stage: &mut Stage) {
        let [first, second] = &mut stage.buffers;
        let pool = self.scanner.pool();
        if second.is_empty() && (pool.used_bytes() + first.bytes()) * 2 <= pool.cap_bytes() {
            *second = pool.take(first.bytes()).unwrap_or_default();
            self.note_memory();
        }
    }

    /// Runs work of the state with the kernel at its side, and notes what came of it.
    fn with_kernel<T>(
        &self,
        stage: &mut Stage,
        work: impl FnOnce(&mut Staging, &mut Kernel<'_>, &mut Memory<'_>, Alignment) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(alignment) = stage.alignment else {
            return Err(Errno(libc::EIO));
        };
        let mut kernel = Kernel {
            direct: stage.direct.number(),
            descriptor: stage.descriptor,
            stamp: stage.stamp,
            proven: stage.effect_is_proven,
            keeps_order: stage.mode == Mode::Staged,
            writers: &self.staging.writers,
            may_hand_over: stage.was_tried && !stage.unfit && !self.staging.is_closed(),
            flight: &mut stage.flight,
            io_priority: stage.io_priority,
            request_bytes: self.pacing.request_bytes(),
            outcome: Outcome::default(),
        };
        let pool = self.scanner.pool();
        // SAFETY: the buffers belong to this stage, whose lock is held.
        let mut memory = unsafe { Memory::new(pool, &stage.buffers, &mut stage.filling) };
        let result = work(&mut stage.staging, &mut kernel, &mut memory, alignment);
        let outcome = kernel.outcome;
        self.count(Counter::WriteBytesDirect, outcome.direct_bytes);
        self.count(Counter::WriteBytesOverlapped, outcome.overlapped_bytes);
        self.count(Counter::WriteBytesBuffered, outcome.cached_bytes);
        stage.was_tried |= outcome.direct_bytes > 0;
        stage.effect_is_proven |= outcome.effect == Some(true);
        stage.error = result.as_ref().err().map_or(0, |errno| errno.0);
        if let Some(lost) = outcome.lost {
            stage.lost = lost.0;
        }
        if outcome.direct_error.is_some() {
            self.count(Counter::FallbackWriteFailed, 1);
        }
        let no_use = outcome.effect == Some(false)
            || matches!(
                outcome.direct_error,
                Some(Errno(libc::EINVAL | libc::EOPNOTSUPP))
            );
        if no_use && !stage.unfit {
            stage.unfit = true;
            self.staging.note_refusal(stage.stamp.device);
            self.count(Counter::FallbackWriteNoEffect, 1);
        }
        result
    }
}

/// Whether a descriptor is still the file that it was: somebody may have closed it unseen.
fn kernel_is(descriptor: i32, stamp: &FileStamp) -> bool {
    file::stamp(descriptor).is_ok_and(|now| now.same_inode(stamp))
}

/// What writeback has come to, if it is no good; that nobody may wait for it here (a filter of system
/// calls, a filesystem) is no news of the bytes.
fn lost(written_back: Result<(), Errno>) -> Option<Errno> {
    let is_refusal = |error| {
        matches!(
            error,
            libc::ENOSYS
                | libc::EPERM
                | libc::EACCES
                | libc::EINVAL
                | libc::ESPIPE
                | libc::EOPNOTSUPP
        )
    };
    written_back.err().filter(|errno| !is_refusal(errno.0))
}

/// Does what a buffered writer leaves behind.
fn run_chore(stage: &mut Stage, chore: Chore) {
    let descriptor = stage.descriptor;
    if !kernel_is(descriptor, &stage.stamp) {
        return;
    }
    match chore {
        Chore::Start {
            offset,
            length_bytes,
        } => {
            let _ = file::start_write_back(descriptor, offset, length_bytes);
        }
        Chore::Drop {
            offset,
            length_bytes,
        } => {
            // Waiting takes the error of earlier writeback away from the application's next sync.
            if let Some(Errno(lost)) = lost(file::write_back(descriptor, offset, length_bytes)) {
                stage.lost = lost;
            }
            let _ = file::advise(descriptor, offset, length_bytes, libc::POSIX_FADV_DONTNEED);
        }
    }
}
