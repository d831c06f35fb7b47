//! Files of SSTables, opened for their indexes, or to search in their data.

use crate::core::Core;
use coldstream_control::Counter;
use coldstream_io::Errno;
use coldstream_io::private::{OpenError, PrivateDescriptor};
use coldstream_io::sys::Descriptor;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::process;
use coldstream_sstable::ReadAt;
use std::cell::Cell;
use std::ffi::CStr;
use std::io;

/// A read of so many bytes looks at the clock before. A block of many MiB is read in pieces of 1 MiB.
const LARGE_BYTES: usize = 256 << 10;

/// A private descriptor of a file; closed when dropped.
pub(super) struct SsTableFile<'b> {
    core: &'b Core,
    descriptor: PrivateDescriptor,
    stamp: FileStamp,
    /// Below this offset only bytes in the page cache are read.
    cached_below: Cell<u64>,
    /// From this time of the monotonic clock on, large reads fail with [`io::ErrorKind::TimedOut`].
    end_ns: i128,
}

impl<'b> SsTableFile<'b> {
    /// Opens the file behind a descriptor of the application once more.
    pub(super) fn reopen(
        core: &'b Core,
        descriptor: i32,
        stamp: &FileStamp,
        slot: u32,
        end_ns: i128,
    ) -> Result<Self, OpenError> {
        let opened = PrivateDescriptor::open(descriptor, libc::O_RDONLY, stamp, slot, core);
        Self::new(core, opened.map(|opened| (opened, *stamp)), end_ns)
    }

    /// Opens the file at a path.
    pub(super) fn open(
        core: &'b Core,
        path: &CStr,
        slot: u32,
        end_ns: i128,
    ) -> Result<Self, OpenError> {
        let opened = PrivateDescriptor::open_path(path, slot, core);
        Self::new(core, opened, end_ns)
    }

    fn new(
        core: &'b Core,
        opened: Result<(PrivateDescriptor, FileStamp), OpenError>,
        end_ns: i128,
    ) -> Result<Self, OpenError> {
        if opened == Err(OpenError::DescriptorLimit) {
            // What is missing is a higher limit, not a readable SSTable.
            core.count(Counter::FallbackDescriptorLimit, 1);
        }
        let (descriptor, stamp) = opened?;
        let file = Self {
            core,
            descriptor,
            stamp,
            cached_below: Cell::new(0),
            end_ns,
        };
        // Bytes that the kernel reads ahead in an index are never used.
        let _ = file::advise(file.number(), 0, 0, libc::POSIX_FADV_RANDOM);
        Ok(file)
    }

    /// The descriptor's number.
    pub(super) fn number(&self) -> i32 {
        self.descriptor.get().map_or(-1, Descriptor::number)
    }

    /// The file that was opened.
    pub(super) fn stamp(&self) -> &FileStamp {
        &self.stamp
    }

    /// From now on, reads below `offset` fail where they would have to wait for the device.
    pub(super) fn read_only_cached_below(&self, offset: u64) {
        self.cached_below.set(offset);
    }
}

impl ReadAt for SsTableFile<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let is_large = buffer.len() >= LARGE_BYTES;
        if is_large && process::clock_ns(libc::CLOCK_MONOTONIC) >= self.end_ns {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let flags = if offset < self.cached_below.get() {
            libc::RWF_NOWAIT
        } else {
            0
        };
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            // SAFETY: the rest of the buffer is writable for its length.
            let read = unsafe {
                file::pread_with_flags(
                    self.number(),
                    rest.as_mut_ptr(),
                    rest.len(),
                    offset + done as u64,
                    flags,
                )
            };
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.core.count(Counter::HandoverIndexBytes, done as u64);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(file::stamp(self.number())?.size_bytes)
    }
}

impl Drop for SsTableFile<'_> {
    fn drop(&mut self) {
        self.descriptor.close(&self.stamp, self.core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn large_reads_end_with_the_time() {
        let core = Core::with_private();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![7; LARGE_BYTES]).unwrap();
        let stamp = file::stamp(file.as_file().as_raw_fd()).unwrap();
        let read = |length: usize, end_ns| {
            let file = SsTableFile::reopen(&core, file.as_file().as_raw_fd(), &stamp, 0, end_ns);
            let read = file.unwrap().read_exact_at(&mut vec![0; length], 0);
            read.map_err(|error| error.kind())
        };
        assert_eq!(read(LARGE_BYTES, i128::MAX), Ok(()));
        assert_eq!(read(LARGE_BYTES, 0), Err(io::ErrorKind::TimedOut));
        assert_eq!(
            read(LARGE_BYTES - 1, 0),
            Ok(()),
            "the search looks between these"
        );
    }
}
