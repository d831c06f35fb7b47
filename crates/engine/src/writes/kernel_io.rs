//! The system calls of a staged file.

use coldstream_io::Errno;
use coldstream_io::append::{Buffers, KernelIo};
use coldstream_io::pool::{WindowMemory, WindowPool};
use coldstream_io::proc_fd::reopen;
use coldstream_io::sys::Descriptor;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::writers::{Flight, Request, Writers};

/// The kernel's side of a staged file, for one piece of work.
pub(super) struct Kernel<'a> {
    pub(super) direct: Option<Descriptor>,
    pub(super) descriptor: i32,
    pub(super) stamp: FileStamp,
    /// Whether a direct write is known to leave no page in the page cache.
    pub(super) proven: bool,
    /// Whether a power cut must not leave a gap before a direct write.
    pub(super) keeps_order: bool,
    /// The threads that write while the application fills the next buffer.
    pub(super) writers: &'a Writers,
    /// Whether a write may be handed to them.
    pub(super) may_hand_over: bool,
    pub(super) flight: &'a mut Flight,
    /// I/O priority of the thread that writes; `None` if a writer thread must not ask for priorities.
    pub(super) io_priority: Option<i32>,
    /// The largest write in the application's thread; 0 is no limit.
    pub(super) request_bytes: usize,
    pub(super) outcome: Outcome,
}

/// The results of the work.
#[derive(Default)]
pub(super) struct Outcome {
    /// Whether a direct write left no page in the page cache, once that was checked.
    pub(super) effect: Option<bool>,
    /// An error of writeback, which the kernel reports only once.
    pub(super) writeback_error: Option<Errno>,
    pub(super) direct_bytes: u64,
    /// Of these, bytes that were handed to a writer thread.
    pub(super) overlapped_bytes: u64,
    pub(super) cached_bytes: u64,
    pub(super) direct_error: Option<Errno>,
}

impl Kernel<'_> {
    fn record_direct(&mut self, result: Result<usize, Errno>) {
        match result {
            Ok(written) => self.outcome.direct_bytes += written as u64,
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => self.outcome.direct_error = Some(errno),
        }
    }
}

impl KernelIo for Kernel<'_> {
    fn write_direct(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        // If the number was closed by a call that we did not see, it may name another file by now.
        let direct = self
            .direct
            .filter(|direct| file::is_same_inode(*direct, &self.stamp))
            .ok_or(Errno(libc::EBADF))?;
        // The caller goes on with the rest.
        let piece = match self.request_bytes {
            0 => bytes,
            limit => bytes.get(..limit).unwrap_or(bytes),
        };
        let result = file::pwrite(direct, piece, offset);
        self.record_direct(result);
        if let Ok(written) = result
            && written > 0
            && !self.proven
            && self.outcome.effect.is_none()
        {
            self.outcome.effect = file::cache_statistics(direct, offset, written as u64)
                .ok()
                .map(|statistics| statistics.cached_pages == 0);
        }
        result
    }

    fn start_direct(&mut self, bytes: &[u8], offset: u64) -> bool {
        let Some(descriptor) = self.direct.filter(|_| self.may_hand_over) else {
            return false;
        };
        let request = Request {
            descriptor,
            stamp: self.stamp,
            address: bytes.as_ptr() as usize,
            length_bytes: bytes.len(),
            offset,
            io_priority: self.io_priority,
        };
        // SAFETY: the bytes are a staging buffer's, which is neither filled nor given back until the write has
        // finished. The runtime lives as long as the process.
        match unsafe { self.writers.start(&request) } {
            Some(flight) => {
                *self.flight = flight;
                true
            }
            None => false,
        }
    }

    fn direct_is_finished(&mut self) -> bool {
        self.writers.is_finished(self.flight)
    }

    fn finish_direct(&mut self) -> Result<usize, Errno> {
        let result = self.writers.finish(std::mem::take(self.flight));
        self.record_direct(result);
        if let Ok(written) = result {
            self.outcome.overlapped_bytes += written as u64;
        }
        result
    }

    fn write_back_before(&mut self, start: u64, end: u64) {
        if self.keeps_order && file::is_same_inode(self.descriptor, &self.stamp) {
            let written_back = file::write_back(self.descriptor, start, end - start);
            if let Some(errno) = writeback_error(written_back) {
                self.outcome.writeback_error = Some(errno);
            }
        }
    }

    fn write_cached(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let result = if file::is_same_inode(self.descriptor, &self.stamp) {
            file::pwrite(self.descriptor, bytes, offset)
        } else {
            // The application's descriptor was closed by a call that we did not see. Ours still names the file.
            let direct = self
                .direct
                .filter(|direct| file::is_same_inode(*direct, &self.stamp))
                .ok_or(Errno(libc::EBADF))?;
            let reopened = reopen(direct, libc::O_WRONLY)?;
            let result = file::pwrite(reopened, bytes, offset);
            let _ = file::close(reopened);
            result
        };
        if let Ok(written) = result {
            self.outcome.cached_bytes += written as u64;
        }
        result
    }
}

/// The staging buffers of a file: one, or two of the same length.
pub(super) struct Memory<'a> {
    addresses: [*mut u8; 2],
    lengths: [usize; 2],
    filling: &'a mut usize,
}

impl<'a> Memory<'a> {
    /// # Safety
    /// The memory must belong to the caller alone for as long as this lives. A write in flight may read the
    /// buffer that is not `filling`.
    pub(super) unsafe fn new(
        pool: &WindowPool,
        buffers: &[WindowMemory; 2],
        filling: &'a mut usize,
    ) -> Self {
        let [first, second] = buffers;
        Self {
            addresses: [pool.address(first), pool.address(second)],
            lengths: [first.bytes(), second.bytes()],
            filling,
        }
    }

    fn buffer(&self, number: usize) -> (*mut u8, usize) {
        let [first, second] = self.addresses;
        let [first_bytes, second_bytes] = self.lengths;
        if number == 0 {
            (first, first_bytes)
        } else {
            (second, second_bytes)
        }
    }
}

impl Buffers for Memory<'_> {
    fn to_fill(&mut self) -> &mut [u8] {
        let (address, bytes) = self.buffer(*self.filling);
        // SAFETY: the caller's alone, as `new` demands; the other buffer is the one in flight.
        unsafe { std::slice::from_raw_parts_mut(address, bytes) }
    }

    fn to_write(&self) -> &[u8] {
        let (address, bytes) = self.buffer(1 - *self.filling);
        // SAFETY: this buffer does not change before it becomes the one to fill.
        unsafe { std::slice::from_raw_parts(address, bytes) }
    }

    fn swap(&mut self) {
        *self.filling = 1 - *self.filling;
    }
}

/// The error of writeback, if it concerns the bytes. A system call filter or a filesystem may refuse the
/// wait: that says nothing about the bytes.
pub(super) fn writeback_error(written_back: Result<(), Errno>) -> Option<Errno> {
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
