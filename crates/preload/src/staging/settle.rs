//! One staged table's way into the kernel: its bytes, its file position, the error of a delayed write,
//! and the end of its being staged.

use super::edge::{Kernel, Memory, Outcome};
use super::{Mode, Stage};
use crate::runtime::Runtime;
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::alignment::Alignment;
use coldstream_io::append::{Staging, WritebackStep};
use coldstream_io::sys::file;
use coldstream_io::writers::Flight;
use std::sync::atomic::Ordering;

impl Runtime {
    /// Brings everything to the kernel, the file position too.
    pub(super) fn settle_stage(&self, stage: &mut Stage) -> Result<(), Errno> {
        let mut settled = Ok(());
        if stage.staging.staged_bytes() > 0 {
            self.count(Counter::Settled, 1);
            settled = self.with_kernel(stage, |staging, kernel, memory, alignment| {
                staging.drain(kernel, memory, alignment)
            });
        }
        // Where not all could be written, too: whoever shares the position must not write over what was.
        if stage.position_is_behind && file::is_still(stage.descriptor, &stage.stamp) {
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
    pub(super) fn discard(&self, stage: &mut Stage) {
        let was_in_flight =
            self.with_kernel(stage, |staging, kernel, _, _| Ok(staging.discard(kernel)));
        // It may have come after the truncation.
        if was_in_flight == Ok(true)
            && let Some(direct) = stage.direct.number()
            && file::is_still(direct, &stage.stamp)
        {
            let _ = file::truncate(direct, 0);
        }
    }

    /// Settles, and leaves the file to the kernel. A file that cannot be settled stays, with its
    /// error.
    pub(super) fn demote(&self, stage: &mut Stage, reason: Counter) -> Result<(), Errno> {
        self.settle_stage(stage)?;
        self.count(reason, 1);
        if stage.lost == 0 {
            self.release(stage);
        } else {
            // What the application must still be told keeps the file here.
            stage.mode = Mode::Window;
        }
        Ok(())
    }

    /// Settles, and lets further writes go the plain way, without the locks that freeing the place takes: in
    /// a signal handler they may be held by the very thread that it interrupted.
    pub(super) fn write_plainly(&self, stage: &mut Stage) -> Result<(), Errno> {
        self.settle_stage(stage)?;
        stage.mode = Mode::Window;
        Ok(())
    }

    /// Frees the place. What the stage has of the application's allocator stays until the place is
    /// taken again: the keeper comes here too, and has none.
    pub(super) fn release(&self, stage: &mut Stage) {
        if let Some(inode) = stage
            .owner
            .checked_sub(1)
            .and_then(|slot| self.inodes.get(slot))
        {
            // A table whose descriptor was closed unseen may have lost its slot to another one.
            if inode.stage() == Some(stage.number) {
                inode.set_stage(None);
            }
            inode.note_change();
        }
        if let Some(its_inode) = self.staging.inodes.get(stage.number) {
            its_inode.store(0, Ordering::Release);
        }
        let stamp = stage.stamp;
        stage.direct.close(&stamp, self);
        debug_assert_eq!(stage.flight, Flight::default(), "settled before");
        for buffer in std::mem::take(&mut stage.buffers) {
            self.scanner.pool().give_back(buffer);
        }
        stage.owner = 0;
        stage.mode = Mode::None;
        self.staging.count.fetch_sub(1, Ordering::AcqRel);
        self.note_memory();
    }

    /// Takes a second buffer for a table that has filled its first, if there is memory to spare:
    /// half of all at least is the readers'.
    pub(super) fn take_second_buffer(&self, stage: &mut Stage) {
        let [first, second] = &mut stage.buffers;
        let pool = self.scanner.pool();
        if second.is_empty() && (pool.used_bytes() + first.bytes()) * 2 <= pool.cap_bytes() {
            *second = pool.take(first.bytes()).unwrap_or_default();
            self.note_memory();
        }
    }

    /// Runs work of the state with the kernel at its side, and notes what came of it.
    pub(super) fn with_kernel<T>(
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

    /// The error of a delayed write, if it is still one.
    pub(super) fn take_error(&self, stage: &mut Stage) -> Result<(), Errno> {
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
}

/// What writeback has come to, if it is no good; that nobody may wait for it here (a filter of system
/// calls, a filesystem) is no news of the bytes.
pub(super) fn lost(written_back: Result<(), Errno>) -> Option<Errno> {
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
pub(super) fn run_chore(stage: &mut Stage, chore: WritebackStep) {
    let descriptor = stage.descriptor;
    if !file::is_still(descriptor, &stage.stamp) {
        return;
    }
    match chore {
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
            if let Some(Errno(lost)) = lost(file::write_back(descriptor, offset, length_bytes)) {
                stage.lost = lost;
            }
            let _ = file::advise(descriptor, offset, length_bytes, libc::POSIX_FADV_DONTNEED);
        }
    }
}
