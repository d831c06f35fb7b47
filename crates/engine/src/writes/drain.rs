//! One staged file's way into the kernel: its bytes, its file position, the error of a delayed write, and
//! the end of its staging.

use super::kernel_io::{Kernel, Memory, Outcome, writeback_error};
use super::staged_file::{StagedFile, StagedFiles, WriteMode};
use crate::core::Core;
use crate::settings;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::Errno;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Staging, WritebackStep};
use coldstream_io::sys::file;
use coldstream_io::sys::process;
use coldstream_io::writers::Flight;
use coldstream_policy::PriorityMode;
use std::sync::atomic::Ordering;

impl StagedFiles {
    /// Writes everything that is staged, and sets the kernel's file position.
    pub(super) fn drain(&self, core: &Core, staged: &mut StagedFile) -> Result<(), Errno> {
        let mut drained = Ok(());
        if staged.staging.staged_bytes() > 0 {
            core.count(Counter::Drains, 1);
            drained = self.with_kernel(core, staged, |staging, kernel, memory, alignment| {
                staging.drain(kernel, memory, alignment)
            });
        }
        // Also after an error: a process that shares the position must not overwrite the written bytes.
        if staged.position_is_behind && file::is_same_inode(staged.descriptor, &staged.stamp) {
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

    /// Discards the staged bytes: the file was just truncated to nothing.
    pub(super) fn discard(&self, core: &Core, staged: &mut StagedFile) {
        let was_in_flight = self.with_kernel(core, staged, |staging, kernel, _, _| {
            Ok(staging.discard(kernel))
        });
        // The write in flight may have reached the file after the truncation.
        if was_in_flight == Ok(true)
            && let Some(direct) = staged.direct.get()
            && file::is_same_inode(direct, &staged.stamp)
        {
            let _ = file::truncate(direct, 0);
        }
    }

    /// Drains, and leaves the file to plain writes. A file that cannot be drained stays staged, with its error.
    /// One whose writeback failed stays in the list only, until the application has that error.
    pub(super) fn fall_back(
        &self,
        core: &Core,
        staged: &mut StagedFile,
        reason: Counter,
    ) -> Result<(), Errno> {
        self.drain(core, staged)?;
        if staged.mode != WriteMode::None {
            core.count(reason, 1);
        }
        if staged.writeback_error == 0 {
            self.release(core, staged);
            return Ok(());
        }
        staged.mode = WriteMode::None;
        // A later close of our descriptor would take away a record lock that the application gets now.
        give_means_back(core, staged);
        if let Some(chunks) = &mut staged.chunks {
            chunks.invalidate();
        }
        core.publish_memory();
        Ok(())
    }

    /// Drains, and makes later writes plain calls. Takes none of the locks that freeing the entry takes: in a
    /// signal handler the interrupted thread may hold them.
    pub(super) fn write_plainly(&self, core: &Core, staged: &mut StagedFile) -> Result<(), Errno> {
        self.drain(core, staged)?;
        if staged.mode != WriteMode::None {
            staged.mode = WriteMode::DropBehind;
        }
        Ok(())
    }

    /// Drains, and makes later writes plain calls at the kernel's position: another process may move it. What was written
    /// is still dropped from the page cache.
    pub(super) fn share(&self, core: &Core, staged: &mut StagedFile) -> Result<(), Errno> {
        self.drain(core, staged)?;
        if matches!(
            staged.mode,
            WriteMode::WriteBehind | WriteMode::WriteThrough
        ) {
            staged.mode = WriteMode::DropBehind;
            core.count(Counter::StagingEndedProcess, 1);
            give_means_back(core, staged);
            core.publish_memory();
        }
        if let Some(chunks) = &mut staged.chunks {
            // The other process's chunks are not seen.
            chunks.invalidate();
        }
        Ok(())
    }

    /// The staged file of an inode falls back, if it has one.
    pub fn fall_back_slot(&self, core: &Core, slot: u32, reason: Counter) -> Result<(), Errno> {
        match self.staged_file(core, slot) {
            Some(mut staged) => self.fall_back(core, &mut staged, reason),
            None => Ok(()),
        }
    }

    /// Frees the entry. Its memory from the application's allocator stays until the entry is taken again: the
    /// control thread comes here too, and has no allocator.
    pub(super) fn release(&self, core: &Core, staged: &mut StagedFile) {
        if let Some(inode) = staged
            .owner
            .checked_sub(1)
            .and_then(|slot| core.inodes.get(slot))
        {
            // If the descriptor was closed by a call that we did not see, another file may have this slot.
            if inode.staged_slot() == Some(staged.number) {
                inode.set_staged_slot(None);
            }
            inode.record_change();
        }
        self.views.leave(staged.number);
        give_means_back(core, staged);
        staged.owner = 0;
        staged.mode = WriteMode::None;
        self.count.fetch_sub(1, Ordering::AcqRel);
        core.publish_memory();
    }

    /// Takes a second buffer for a file that has filled its first, if memory is left. At least half of it is
    /// for readers.
    pub(super) fn take_second_buffer(&self, core: &Core, staged: &mut StagedFile) {
        let [first, second] = &mut staged.buffers;
        let pool = core.scanner.pool();
        if second.is_empty() && (pool.used_bytes() + first.bytes()) * 2 <= pool.cap_bytes() {
            *second = pool.take(first.bytes()).unwrap_or_default();
            core.publish_memory();
        }
    }

    /// Runs a step of the state machine with the kernel's calls, and records the results.
    pub(super) fn with_kernel<T>(
        &self,
        core: &Core,
        staged: &mut StagedFile,
        work: impl FnOnce(&mut Staging, &mut Kernel<'_>, &mut Memory<'_>, Alignment) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(alignment) = staged.alignment else {
            return Err(Errno(libc::EIO));
        };
        let follows_priorities = staged.io_priority != 0 || are_priorities_on(core);
        let mut kernel = Kernel {
            direct: staged.direct.get(),
            descriptor: staged.descriptor,
            stamp: staged.stamp,
            proven: staged.effect_is_proven,
            keeps_order: staged.mode == WriteMode::WriteBehind,
            writers: &self.writers,
            may_hand_over: staged.was_tried && !staged.direct_disabled && !self.is_closed(),
            flight: &mut staged.flight,
            io_priority: follows_priorities.then_some(staged.io_priority),
            request_bytes: core.request_bytes(),
            outcome: Outcome::default(),
        };
        let pool = core.scanner.pool();
        // SAFETY: the buffers belong to this file, whose lock is held.
        let mut memory = unsafe { Memory::new(pool, &staged.buffers, &mut staged.filling) };
        let result = work(&mut staged.staging, &mut kernel, &mut memory, alignment);
        let outcome = kernel.outcome;
        self.publish(staged);
        core.count(Counter::WriteBytesDirect, outcome.direct_bytes);
        core.count(Counter::WriteBytesOverlapped, outcome.overlapped_bytes);
        core.count(Counter::WriteBytesBuffered, outcome.cached_bytes);
        staged.was_tried |= outcome.direct_bytes > 0;
        if outcome.effect == Some(true) && !staged.effect_is_proven {
            staged.effect_is_proven = true;
            self.prove_direct(staged.stamp.device);
        }
        staged.error = result.as_ref().err().map_or(0, |errno| errno.0);
        if let Some(errno) = outcome.writeback_error {
            staged.writeback_error = errno.0;
        }
        if outcome.direct_error.is_some() {
            core.count(Counter::FallbackWriteFailed, 1);
        }
        let is_refused = match outcome.direct_error {
            // The limit of a file's size cuts a write, perhaps within a block. That says nothing about the device.
            Some(Errno(libc::EINVAL)) => staged.staging.end() < process::file_size_limit(),
            Some(Errno(libc::EOPNOTSUPP)) => true,
            _ => false,
        };
        let no_use = outcome.effect == Some(false) || is_refused;
        if no_use && !staged.direct_disabled {
            staged.direct_disabled = true;
            self.record_failed_file(staged.stamp.device);
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

/// Closes our descriptor of a drained file, and gives its buffers back.
fn give_means_back(core: &Core, staged: &mut StagedFile) {
    debug_assert_eq!(staged.flight, Flight::default(), "drained before");
    let stamp = staged.stamp;
    staged.direct.close(&stamp, core);
    for buffer in std::mem::take(&mut staged.buffers) {
        core.scanner.pool().give_back(buffer);
    }
}

/// Whether threads of this process may get a priority of ours. `ctl set` may bring one without that: the thread
/// that writes has it then.
pub(super) fn are_priorities_on(core: &Core) -> bool {
    core.is_on(Mechanism::Priority)
        && settings::get().is_some_and(|settings| settings.config.priority != PriorityMode::Off)
}

/// Makes a step of writeback behind a buffered writer.
pub(super) fn run_step(staged: &mut StagedFile, step: WritebackStep) {
    let descriptor = staged.descriptor;
    if !file::is_same_inode(descriptor, &staged.stamp) {
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
            // Waiting consumes the error of earlier writeback, which the application's next sync would report.
            if let Some(Errno(error)) =
                writeback_error(file::write_back(descriptor, offset, length_bytes))
            {
                staged.writeback_error = error;
            }
            let _ = file::advise(descriptor, offset, length_bytes, libc::POSIX_FADV_DONTNEED);
        }
    }
}
