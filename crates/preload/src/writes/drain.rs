//! One staged table's way into the kernel: its bytes, its file position, the error of a delayed write,
//! and the end of its being staged.

use super::kernel_io::{Kernel, Memory, Outcome, writeback_error};
use super::staged_file::{StagedFile, StagedFiles, WriteMode};
use crate::core::Core;
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Staging, WritebackStep};
use coldstream_io::sys::file;
use coldstream_io::writers::Flight;
use std::sync::atomic::Ordering;

impl StagedFiles {
    /// Brings everything to the kernel, the file position too.
    pub(super) fn drain(&self, core: &Core, staged: &mut StagedFile) -> Result<(), Errno> {
        let mut drained = Ok(());
        if staged.staging.staged_bytes() > 0 {
            core.count(Counter::Drains, 1);
            drained = self.with_kernel(core, staged, |staging, kernel, memory, alignment| {
                staging.drain(kernel, memory, alignment)
            });
        }
        // Where not all could be written, too: whoever shares the position must not write over what was.
        if staged.position_is_behind && file::is_still(staged.descriptor, &staged.stamp) {
            let positioned = file::set_position(staged.descriptor, staged.staging.position());
            staged.position_is_behind = drained.is_err() || positioned.is_err();
            drained = drained.and(positioned);
        }
        drained?;
        if staged.direct_disabled
            && matches!(
                staged.mode,
                WriteMode::WriteBehind | WriteMode::WriteThrough
            )
        {
            staged.mode = WriteMode::DropBehind;
        }
        Ok(())
    }

    /// What is staged went with the rest of the file, which was just truncated to nothing.
    pub(super) fn discard(&self, core: &Core, staged: &mut StagedFile) {
        let was_in_flight = self.with_kernel(core, staged, |staging, kernel, _, _| {
            Ok(staging.discard(kernel))
        });
        // It may have come after the truncation.
        if was_in_flight == Ok(true)
            && let Some(direct) = staged.direct.get()
            && file::is_still(direct, &staged.stamp)
        {
            let _ = file::truncate(direct, 0);
        }
    }

    /// Settles, and leaves the file to the kernel. A file that cannot be settled stays, with its
    /// error.
    pub(super) fn fall_back(
        &self,
        core: &Core,
        staged: &mut StagedFile,
        reason: Counter,
    ) -> Result<(), Errno> {
        self.drain(core, staged)?;
        core.count(reason, 1);
        if staged.writeback_error == 0 {
            self.release(core, staged);
        } else {
            // What the application must still be told keeps the file here.
            staged.mode = WriteMode::DropBehind;
        }
        Ok(())
    }

    /// Settles, and lets further writes go the plain way, without the locks that freeing the place takes: in
    /// a signal handler they may be held by the very thread that it interrupted.
    pub(super) fn write_plainly(&self, core: &Core, staged: &mut StagedFile) -> Result<(), Errno> {
        self.drain(core, staged)?;
        staged.mode = WriteMode::DropBehind;
        Ok(())
    }

    /// Gives an inode's stage up.
    pub(crate) fn fall_back_slot(
        &self,
        core: &Core,
        slot: u32,
        reason: Counter,
    ) -> Result<(), Errno> {
        match self.staged_file(core, slot) {
            Some(mut staged) => self.fall_back(core, &mut staged, reason),
            None => Ok(()),
        }
    }

    /// Frees the place. What the stage has of the application's allocator stays until the place is
    /// taken again: the control thread comes here too, and has none.
    pub(super) fn release(&self, core: &Core, staged: &mut StagedFile) {
        if let Some(inode) = staged
            .owner
            .checked_sub(1)
            .and_then(|slot| core.inodes.get(slot))
        {
            // A table whose descriptor was closed unseen may have lost its slot to another one.
            if inode.staged_slot() == Some(staged.number) {
                inode.set_staged_slot(None);
            }
            inode.record_change();
        }
        if let Some(its_inode) = self.inodes.get(staged.number) {
            its_inode.store(0, Ordering::Release);
        }
        let stamp = staged.stamp;
        staged.direct.close(&stamp, core);
        debug_assert_eq!(staged.flight, Flight::default(), "drained before");
        for buffer in std::mem::take(&mut staged.buffers) {
            core.scanner.pool().give_back(buffer);
        }
        staged.owner = 0;
        staged.mode = WriteMode::None;
        self.count.fetch_sub(1, Ordering::AcqRel);
        core.publish_memory();
    }

    /// Takes a second buffer for a table that has filled its first, if there is memory to spare:
    /// half of all at least is the readers'.
    pub(super) fn take_second_buffer(&self, core: &Core, staged: &mut StagedFile) {
        let [first, second] = &mut staged.buffers;
        let pool = core.scanner.pool();
        if second.is_empty() && (pool.used_bytes() + first.bytes()) * 2 <= pool.cap_bytes() {
            *second = pool.take(first.bytes()).unwrap_or_default();
            core.publish_memory();
        }
    }

    /// Runs work of the state with the kernel at its side, and notes what came of it.
    pub(super) fn with_kernel<T>(
        &self,
        core: &Core,
        staged: &mut StagedFile,
        work: impl FnOnce(&mut Staging, &mut Kernel<'_>, &mut Memory<'_>, Alignment) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(alignment) = staged.alignment else {
            return Err(Errno(libc::EIO));
        };
        let mut kernel = Kernel {
            direct: staged.direct.get(),
            descriptor: staged.descriptor,
            stamp: staged.stamp,
            proven: staged.effect_is_proven,
            keeps_order: staged.mode == WriteMode::WriteBehind,
            writers: &self.writers,
            may_hand_over: staged.was_tried && !staged.direct_disabled && !self.is_closed(),
            flight: &mut staged.flight,
            io_priority: staged.io_priority,
            request_bytes: core.request_bytes(),
            outcome: Outcome::default(),
        };
        let pool = core.scanner.pool();
        // SAFETY: the buffers belong to this stage, whose lock is held.
        let mut memory = unsafe { Memory::new(pool, &staged.buffers, &mut staged.filling) };
        let result = work(&mut staged.staging, &mut kernel, &mut memory, alignment);
        let outcome = kernel.outcome;
        core.count(Counter::WriteBytesDirect, outcome.direct_bytes);
        core.count(Counter::WriteBytesOverlapped, outcome.overlapped_bytes);
        core.count(Counter::WriteBytesBuffered, outcome.cached_bytes);
        staged.was_tried |= outcome.direct_bytes > 0;
        staged.effect_is_proven |= outcome.effect == Some(true);
        staged.error = result.as_ref().err().map_or(0, |errno| errno.0);
        if let Some(errno) = outcome.writeback_error {
            staged.writeback_error = errno.0;
        }
        if outcome.direct_error.is_some() {
            core.count(Counter::FallbackWriteFailed, 1);
        }
        let no_use = outcome.effect == Some(false)
            || matches!(
                outcome.direct_error,
                Some(Errno(libc::EINVAL | libc::EOPNOTSUPP))
            );
        if no_use && !staged.direct_disabled {
            staged.direct_disabled = true;
            self.disable_direct(staged.stamp.device);
            core.count(Counter::FallbackWriteNoEffect, 1);
        }
        result
    }

    /// The error of a delayed write, if it is still one.
    pub(super) fn take_error(&self, core: &Core, staged: &mut StagedFile) -> Result<(), Errno> {
        let error = match (std::mem::take(&mut staged.writeback_error), staged.error) {
            (0, 0) => return Ok(()),
            (0, error) | (error, _) => Errno(error),
        };
        if staged.staging.staged_bytes() == 0 {
            staged.error = 0;
        }
        core.count(Counter::WriteErrors, 1);
        Err(error)
    }
}

/// Does what a buffered writer leaves behind.
pub(super) fn run_step(staged: &mut StagedFile, step: WritebackStep) {
    let descriptor = staged.descriptor;
    if !file::is_still(descriptor, &staged.stamp) {
        return;
    }
    match step {
        WritebackStep::Start {
            offset,
            length_bytes,
        } => {
            let _ = file::start_write_back(descriptor, offset, length_bytes);
        }
        WritebackStep::Drop {
            offset,
            length_bytes,
        } => {
            // Waiting takes the error of earlier writeback away from the application's next sync.
            if let Some(Errno(error)) =
                writeback_error(file::write_back(descriptor, offset, length_bytes))
            {
                staged.writeback_error = error;
            }
            let _ = file::advise(descriptor, offset, length_bytes, libc::POSIX_FADV_DONTNEED);
        }
    }
}
