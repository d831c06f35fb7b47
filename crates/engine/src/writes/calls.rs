//! The steps on a staged file before and after an interposed call.

use super::drain::run_step;
use super::staged_file::{StagedFiles, WriteMode};
use crate::core::Core;
use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::thread::Inside;
use coldstream_control::Counter;
use coldstream_handover::cassandra::ChunkLog;
use coldstream_io::Errno;
use coldstream_io::append::{Operation, Verdict};
use coldstream_io::sys::file;

/// How a call on a staged file continues.
pub enum Before {
    /// With the plain call.
    Plain,
    /// With this answer, without a call.
    Answer(u64),
}

/// Whether the kernel has made the sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// It has.
    Made,
    /// It has not.
    NotMade,
}

impl StagedFiles {
    /// Prepares a staged file for a call of the application.
    ///
    /// # Errors
    /// The error of a delayed write. The application gets this error, and its call is not made: the file does
    /// not have all accepted bytes. Only a sync is made nevertheless.
    #[cold]
    pub fn before(
        &self,
        core: &Core,
        tracked: TrackedFile,
        descriptor: i32,
        operation: Operation,
        reason: Counter,
    ) -> Result<Before, Errno> {
        if self.sees_only_landed(core, tracked.slot, descriptor, operation) {
            return Ok(Before::Plain);
        }
        let _errno = ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return self.before_in_handler(core, tracked);
        };
        let Some(mut staged) = self.staged_file(core, tracked.slot) else {
            return Ok(Before::Plain);
        };
        if staged.position_is_behind && staged.mode != WriteMode::WriteBehind {
            // An earlier attempt to set the position failed.
            let _ = self.drain(core, &mut staged);
        }
        // Positions belong to one descriptor. A call through another one only observes.
        let operation = match operation {
            Operation::AskPosition
            | Operation::MovePosition
            | Operation::MoveToEnd
            | Operation::MoveByContent
            | Operation::Read
                if staged.descriptor != descriptor =>
            {
                Operation::Observe
            }
            other => other,
        };
        let verdict = match (staged.mode, staged.staging.verdict(operation)) {
            (WriteMode::WriteBehind, verdict) => verdict,
            // The kernel has everything, and answers itself.
            (_, Verdict::Answer(_)) => Verdict::Proceed,
            (_, verdict) => verdict,
        };
        match verdict {
            Verdict::Answer(position) => Ok(Before::Answer(position)),
            Verdict::Proceed | Verdict::Buffer => Ok(Before::Plain),
            // A `vfork` child shares the memory, but not the descriptors.
            Verdict::Drain | Verdict::FallBack if !core.owner.is_this_process() => {
                Ok(Before::Plain)
            }
            Verdict::Drain => self.drain(core, &mut staged).map(|()| Before::Plain),
            Verdict::FallBack => self
                .fall_back(core, &mut staged, reason)
                .map(|()| Before::Plain),
        }
    }

    /// As [`Self::before`], in a signal handler that interrupted our own work. Drains the file, and makes later
    /// writes plain calls. If the file's lock is held, the call fails with `EINTR`.
    fn before_in_handler(&self, core: &Core, tracked: TrackedFile) -> Result<Before, Errno> {
        if let Some(mut staged) = self.staged_file_in_handler(core, tracked.slot)? {
            self.write_plainly(core, &mut staged)?;
        }
        Ok(Before::Plain)
    }

    /// To be called after a sync by `descriptor`. If it was made, starts the writeback of the rest of a buffered
    /// file.
    ///
    /// # Errors
    /// The error of a delayed write, for the application.
    pub fn after_sync(
        &self,
        core: &Core,
        tracked: TrackedFile,
        descriptor: i32,
        sync: Sync,
    ) -> Result<(), Errno> {
        let _errno = ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return Ok(());
        };
        let Some(mut staged) = self.staged_file(core, tracked.slot) else {
            return Ok(());
        };
        if sync == Sync::Made && matches!(staged.mode, WriteMode::DontCache | WriteMode::DropBehind)
        {
            let end = staged.staging.end();
            if let Some(step) = staged.behind.rest(end) {
                run_step(&mut staged, step);
            }
        }
        if staged.descriptor != descriptor && staged.writeback_error != 0 {
            // Our own wait for the writeback has taken this error from the kernel. The writer is told, too.
            return Err(Errno(staged.writeback_error));
        }
        let taken = self.take_error(core, &mut staged);
        if staged.mode == WriteMode::None {
            // Only that error has kept it here.
            self.release(core, &mut staged);
        }
        taken
    }

    /// `ftruncate` to `size` was made.
    pub fn record_truncate(&self, core: &Core, tracked: TrackedFile, size: u64) {
        let Some(_inside) = Inside::enter() else {
            return;
        };
        let Some(mut staged) = self.staged_file(core, tracked.slot) else {
            return;
        };
        if staged.staging.staged_bytes() > 0 {
            // Another thread has written since the drain. Its bytes need not continue what the kernel has now. If they
            // cannot be written, the next call reports the error.
            let _ = self.fall_back(core, &mut staged, Counter::StagingEndedCall);
            return;
        }
        let is_shorter = size < staged.staging.end();
        let position = staged.staging.position();
        staged.staging.set_size_and_position(size, position);
        self.publish(&staged);
        if is_shorter {
            // The bytes that waited for writeback are cut off. An earlier mapping may reach beyond the new
            // end: it must show bytes that are written there later.
            let _ = self.fall_back(core, &mut staged, Counter::StagingEndedCall);
        }
    }

    /// `lseek` to `position` was made.
    pub fn record_seek(&self, core: &Core, tracked: TrackedFile, descriptor: i32, position: u64) {
        if !self.is_written_by(core, tracked.slot, descriptor) {
            // Another descriptor's position is the kernel's.
            return;
        }
        let Some(_inside) = Inside::enter() else {
            return;
        };
        let Some(mut staged) = self.staged_file(core, tracked.slot) else {
            return;
        };
        if staged.descriptor != descriptor {
            return;
        }
        // Another thread may have written since, and a drain may have moved the kernel's position to the end. In the
        // other modes such a write was plain, and went to the place of the seek.
        let moves_position = matches!(
            staged.mode,
            WriteMode::WriteBehind | WriteMode::WriteThrough
        );
        if staged.staging.staged_bytes() > 0 && self.drain(core, &mut staged).is_err() {
            return;
        }
        if moves_position {
            if file::set_position(descriptor, position).is_err() {
                return;
            }
            staged.position_is_behind = false;
        }
        let size = staged.staging.end();
        staged.staging.set_size_and_position(size, position);
    }

    /// The application is about to close a descriptor. If it is the staged file's own, drains the file and ends
    /// its staging.
    ///
    /// # Errors
    /// The error of a delayed write. The application gets it after the descriptor is closed.
    pub fn close(&self, core: &Core, tracked: TrackedFile, descriptor: i32) -> Result<(), Errno> {
        if !self.is_written_by(core, tracked.slot, descriptor) {
            return Ok(());
        }
        let Some(mut staged) = self.staged_file(core, tracked.slot) else {
            return Ok(());
        };
        if staged.descriptor != descriptor {
            return Ok(());
        }
        let result = self.drain(core, &mut staged);
        if matches!(staged.mode, WriteMode::DontCache | WriteMode::DropBehind) {
            let end = staged.staging.end();
            let _ = file::start_write_back(descriptor, 0, end);
        }
        let error = result.and(self.take_error(core, &mut staged));
        self.release(core, &mut staged);
        error
    }

    /// As [`Self::close`], in a signal handler that interrupted our own work. The entry stays, with a file whose
    /// writes are plain. If the interrupted work is on this very file, its bytes stay staged.
    ///
    /// # Errors
    /// Some bytes could not be written.
    pub fn close_in_handler(
        &self,
        core: &Core,
        tracked: TrackedFile,
        descriptor: i32,
    ) -> Result<(), Errno> {
        let Ok(Some(mut staged)) = self.staged_file_in_handler(core, tracked.slot) else {
            return Ok(());
        };
        if staged.descriptor != descriptor {
            return Ok(());
        }
        let drained = self.write_plainly(core, &mut staged);
        drained.and(self.take_error(core, &mut staged))
    }

    /// Drains a staged file before a call that closes `descriptor` and could not report an error afterwards.
    ///
    /// # Errors
    /// Some bytes could not be written. The call must then fail with this error.
    pub fn drain_before_close(
        &self,
        core: &Core,
        tracked: TrackedFile,
        descriptor: i32,
    ) -> Result<(), Errno> {
        if !self.is_written_by(core, tracked.slot, descriptor) {
            return Ok(());
        }
        let _errno = ErrnoGuard::new();
        if !core.owner.is_this_process() {
            return Ok(());
        }
        let Some(_inside) = Inside::enter() else {
            return self.close_in_handler(core, tracked, descriptor);
        };
        let staged = self.staged_file(core, tracked.slot);
        let Some(mut staged) = staged.filter(|staged| staged.descriptor == descriptor) else {
            return Ok(());
        };
        self.drain(core, &mut staged)?;
        self.take_error(core, &mut staged)
    }

    /// Keeps the pages of a staged file before `end`, a page's boundary, in the page cache: this part was opened
    /// for reading.
    pub fn keep_cached(&self, core: &Core, slot: u32, end: u64) {
        if let Some(mut staged) = self.staged_file(core, slot) {
            staged.behind.keep_to(end);
        }
    }

    /// Takes the chunk log of a staged file, and the bytes written so far; `None` if the file is not staged.
    pub fn take_chunk_log(&self, core: &Core, slot: u32) -> Option<(Box<ChunkLog>, u64)> {
        let mut staged = self.staged_file(core, slot)?;
        let chunks = staged.chunks.take()?;
        Some((chunks, staged.staging.end()))
    }

    /// Puts the chunk log back.
    pub fn give_chunk_log_back(&self, core: &Core, slot: u32, chunks: Box<ChunkLog>) {
        if let Some(mut staged) = self.staged_file(core, slot) {
            staged.chunks = Some(chunks);
        }
    }
}
