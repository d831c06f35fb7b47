//! `write` to a staged file.

use super::drain::run_step;
use super::staged_file::{StagedFile, StagedFiles, WriteMode};
use crate::core::Core;
use crate::core::descriptor_map::TrackedFile;
use crate::core::errno;
use crate::thread::Inside;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::Errno;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::append::{DIRECT_BYTES_MIN, Operation, Verdict};
use coldstream_io::sys::{file, memory, process};

/// The most that one `write` transfers (`MAX_RW_COUNT` of the kernel).
const WRITE_BYTES_MAX: usize = 0x7FFF_F000;

/// A readable range is remembered up to 16 MiB. Buffers of engines are smaller, and a range that was unmapped
/// since must not be trusted for ever.
const READABLE_BYTES_MAX: usize = 16 << 20;

/// As in glibc and every other libc of Linux (`pthread.h`).
const PTHREAD_CANCEL_DISABLE: i32 = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: i32, before: *mut i32) -> i32;
}

/// While this value lives, the calling thread is not cancelled. `write` is a cancellation point, and a
/// cancellation unwinds.
struct Uncancelled {
    before: i32,
}

impl Uncancelled {
    fn begin() -> Self {
        let mut before = 0;
        // SAFETY: writes the former state.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: a state that was in force; writes ours.
        unsafe { pthread_setcancelstate(self.before, &raw mut ours) };
    }
}

/// The result of a write to a staged file.
pub enum Written {
    /// It is done, or failed.
    Done(Result<usize, Errno>),
    /// The plain call must be made; nothing is staged.
    Plain,
}

impl StagedFiles {
    /// Makes a write to a staged file.
    ///
    /// # Safety
    /// `call` must be what the application gave to `write`.
    pub unsafe fn write(
        &self,
        core: &Core,
        tracked: TrackedFile,
        call: &WriteCall,
        plain: &impl Fn() -> isize,
    ) -> Written {
        let inside = Inside::enter();
        // A cancellation would unwind while a lock is held, and the fuse would take it for a panic.
        let _uncancelled = Uncancelled::begin();
        let attempt = || match inside {
            // SAFETY: passed on.
            Some(_) => unsafe { self.attempt(core, tracked, call, plain) },
            None => self.write_in_handler(core, tracked, call, plain),
        };
        (core.protect(attempt)).unwrap_or(Written::Done(Err(Errno(libc::EIO))))
    }

    /// As [`Self::write`], in a signal handler that interrupted our own work. Drains the file, and makes the plain
    /// call. If the file's lock is held, the call fails with `EINTR`.
    fn write_in_handler(
        &self,
        core: &Core,
        tracked: TrackedFile,
        call: &WriteCall,
        plain: &impl Fn() -> isize,
    ) -> Written {
        let mut staged = match self.staged_file_in_handler(core, tracked.slot) {
            Ok(Some(staged)) => staged,
            Ok(None) => return Written::Plain,
            Err(errno) => return Written::Done(Err(errno)),
        };
        if staged.mode == WriteMode::None {
            return Written::Plain;
        }
        let is_append = staged.staging.verdict(Operation::Write) == Verdict::Buffer;
        if staged.descriptor != call.descriptor || !is_append {
            // It would have to fall back, which takes locks.
            return Written::Done(Err(Errno(libc::EINTR)));
        }
        let written = (self.write_plainly(core, &mut staged))
            .and_then(|()| write_drop_behind(core, &mut staged, plain));
        if let Some(chunks) = &mut staged.chunks {
            chunks.invalidate();
        }
        self.publish(&staged);
        Written::Done(written)
    }

    /// # Safety
    /// As for [`StagedFiles::write`].
    unsafe fn attempt(
        &self,
        core: &Core,
        tracked: TrackedFile,
        call: &WriteCall,
        plain: &impl Fn() -> isize,
    ) -> Written {
        let Some(mut staged) = self.staged_file(core, tracked.slot) else {
            return Written::Plain;
        };
        if let Err(written) = self.prepare(core, &mut staged, call.descriptor) {
            return written;
        }
        if call.length_bytes == 0 {
            return Written::Plain;
        }
        let (buffer, length_bytes) = (call.buffer, call.length_bytes.min(WRITE_BYTES_MAX));
        let is_small = (length_bytes as u64) < DIRECT_BYTES_MIN;
        let offset = staged.staging.end();
        let mode = staged.mode;
        let result = match mode {
            WriteMode::WriteBehind | WriteMode::WriteThrough
                if !staged.can_read(buffer, length_bytes) =>
            {
                return self.fall_back_and_write(core, &mut staged, Counter::StagingEndedBuffer);
            }
            WriteMode::WriteBehind => {
                // SAFETY: the kernel has been asked whether it can be read.
                let source = unsafe { std::slice::from_raw_parts(buffer, length_bytes) };
                staged.io_priority = call.io_priority;
                self.write_behind(core, &mut staged, source)
            }
            WriteMode::WriteThrough if !is_small => {
                // SAFETY: as above.
                let source = unsafe { std::slice::from_raw_parts(buffer, length_bytes) };
                self.write_through(core, &mut staged, source)
            }
            WriteMode::DontCache if !is_small => {
                let flags = file::RWF_DONTCACHE;
                let flagged = file::write_with_flags(call.descriptor, buffer, length_bytes, flags);
                write_dontcache(core, &mut staged, flagged, plain)
            }
            // For a few kilobytes, neither a direct write nor the start of writeback is worth its cost.
            WriteMode::WriteThrough | WriteMode::DontCache | WriteMode::DropBehind => {
                write_drop_behind(core, &mut staged, plain)
            }
            WriteMode::None => return Written::Plain,
        };
        self.publish(&staged);
        if let Ok(written) = result {
            core.count(Counter::WriteBytes, written as u64);
            if let Some(chunks) = &mut staged.chunks {
                chunks.record_write(offset, written as u64);
            }
        }
        Written::Done(result)
    }

    /// Prepares the staged file for a write by this descriptor. `Err` is the result of a write that is not
    /// staged.
    fn prepare(
        &self,
        core: &Core,
        staged: &mut StagedFile,
        descriptor: i32,
    ) -> Result<(), Written> {
        if staged.mode == WriteMode::None {
            return Err(Written::Plain);
        }
        if staged.error != 0
            && let Err(errno) = self.drain(core, staged)
        {
            let taken = self.take_error(core, staged);
            return Err(Written::Done(taken.and(Err(errno))));
        }
        let is_behind = staged.position_is_behind && staged.mode != WriteMode::WriteBehind;
        if staged.direct_disabled || is_behind {
            let drained = self.drain(core, staged);
            drained.map_err(|errno| Written::Done(Err(errno)))?;
        }
        let reason = if !core.is_on(Mechanism::Writes) {
            Counter::StagingEndedSwitchedOff
        } else if staged.descriptor != descriptor {
            Counter::StagingEndedDescriptor
        } else if staged.staging.verdict(Operation::Write) != Verdict::Buffer {
            Counter::StagingEndedPosition
        } else {
            return Ok(());
        };
        Err(self.fall_back_and_write(core, staged, reason))
    }

    /// Ends the staging and asks for the plain call. Fails if the file could not be drained.
    fn fall_back_and_write(
        &self,
        core: &Core,
        staged: &mut StagedFile,
        reason: Counter,
    ) -> Written {
        match self.fall_back(core, staged, reason) {
            Ok(()) => Written::Plain,
            Err(errno) => Written::Done(Err(errno)),
        }
    }

    /// Copies the bytes into the staging buffer.
    fn write_behind(
        &self,
        core: &Core,
        staged: &mut StagedFile,
        source: &[u8],
    ) -> Result<usize, Errno> {
        staged.position_is_behind = true;
        self.views
            .record_write(staged.number, process::coarse_real_ns());
        core.count(Counter::StagedWrites, 1);
        let [buffer, second] = &staged.buffers;
        if second.is_empty()
            && staged.was_tried
            && staged.staging.would_fill(buffer.bytes(), source.len())
        {
            self.take_second_buffer(core, staged);
        }
        self.with_kernel(core, staged, |staging, kernel, memory, alignment| {
            staging.append(kernel, memory, alignment, source)
        })
    }

    /// Writes directly. Returns when the kernel has the bytes.
    fn write_through(
        &self,
        core: &Core,
        staged: &mut StagedFile,
        source: &[u8],
    ) -> Result<usize, Errno> {
        let result = self.with_kernel(core, staged, |staging, kernel, memory, alignment| {
            staging.append_write_through(kernel, memory, alignment, source)
        });
        // The application gets the error as the result of this call.
        staged.error = 0;
        let end = staged.staging.end();
        staged.behind.skip_to(end);
        staged.position_is_behind = true;
        let _ = self.drain(core, staged);
        result
    }
}

/// A call of `write`.
pub struct WriteCall {
    /// The descriptor that is written.
    pub descriptor: i32,
    /// Where the bytes are.
    pub buffer: *const u8,
    /// How many they are.
    pub length_bytes: usize,
    /// I/O priority of the calling thread, as the kernel has it; 0 is none of its own.
    pub io_priority: i32,
}

/// The result of a write with `RWF_DONTCACHE`. If the kernel does not know or allow the flag, makes the plain
/// call. A wrong call fails there too.
fn write_dontcache(
    core: &Core,
    staged: &mut StagedFile,
    flagged: Result<usize, Errno>,
    plain: &impl Fn() -> isize,
) -> Result<usize, Errno> {
    match flagged {
        Ok(written) => {
            staged.advance(written);
            core.count(Counter::WriteBytesDontcache, written as u64);
            Ok(written)
        }
        Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EINVAL)) => {
            core.count(Counter::FallbackWriteNoEffect, 1);
            staged.mode = WriteMode::DropBehind;
            write_drop_behind(core, staged, plain)
        }
        Err(errno) => Err(errno),
    }
}

/// Makes the plain call, at the end of the file.
fn plainly(staged: &mut StagedFile, plain: &impl Fn() -> isize) -> Result<usize, Errno> {
    let result = plain();
    let written = usize::try_from(result).map_err(|_| Errno(errno::get()))?;
    staged.advance(written);
    Ok(written)
}

/// Makes the plain call, and then a step of writeback behind it.
fn write_drop_behind(
    core: &Core,
    staged: &mut StagedFile,
    plain: &impl Fn() -> isize,
) -> Result<usize, Errno> {
    let written = plainly(staged, plain)?;
    core.count(Counter::WriteBytesDropBehind, written as u64);
    let end = staged.staging.end();
    while let Some(step) = staged.behind.next(end) {
        run_step(staged, step);
    }
    Ok(written)
}

impl StagedFile {
    /// The kernel has taken bytes at the end of the file, and moved the position.
    fn advance(&mut self, written: usize) {
        let end = self.staging.end() + written as u64;
        self.staging.set_size_and_position(end, end);
    }

    /// Whether the application's buffer can be read. A readable range is remembered: writers use the same few
    /// buffers.
    fn can_read(&mut self, buffer: *const u8, length_bytes: usize) -> bool {
        let Some(end) = (buffer as usize).checked_add(length_bytes) else {
            return false;
        };
        let start = buffer as usize & !(PAGE_BYTES as usize - 1);
        let end = end.next_multiple_of(PAGE_BYTES as usize);
        if self
            .readable
            .iter()
            .any(|(from, to)| *from <= start && end <= *to)
        {
            return true;
        }
        if !memory::readable(buffer, length_bytes) {
            return false;
        }
        // If a writer passes through a buffer in steps, one range grows. It does not displace the others.
        let neighbour = self.readable.iter_mut().find(|(from, to)| {
            *from <= end && start <= *to && end.max(*to) - start.min(*from) <= READABLE_BYTES_MAX
        });
        if let Some((from, to)) = neighbour {
            (*from, *to) = (start.min(*from), end.max(*to));
            return true;
        }
        let index = self.next_readable % self.readable.len();
        if let Some(range) = self.readable.get_mut(index) {
            *range = (start, end);
        }
        self.next_readable = index + 1;
        true
    }
}
