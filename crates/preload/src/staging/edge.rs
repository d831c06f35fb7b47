//! The system calls of a staged table.

use super::kernel_is;
use coldstream_io::Errno;
use coldstream_io::append::Edge;
use coldstream_io::probe::reopen;
use coldstream_io::sys::file::{self, FileStamp};

/// The kernel's side of a staged table, for one piece of work.
pub(super) struct Kernel {
    direct: Option<i32>,
    descriptor: i32,
    stamp: FileStamp,
    /// Whether a direct write left the page cache alone, once it was looked at.
    pub(super) effect: Option<bool>,
    proven: bool,
    /// Whether a power cut must not leave a gap before what is written directly.
    keeps_order: bool,
    /// An error of writeback, which the kernel tells only once.
    pub(super) lost: Option<Errno>,
    pub(super) direct_bytes: u64,
    pub(super) cached_bytes: u64,
    pub(super) direct_error: Option<Errno>,
}

impl Kernel {
    pub(super) fn new(
        direct: Option<i32>,
        descriptor: i32,
        stamp: FileStamp,
        proven: bool,
        keeps_order: bool,
    ) -> Self {
        Self {
            direct,
            descriptor,
            stamp,
            effect: None,
            proven,
            keeps_order,
            lost: None,
            direct_bytes: 0,
            cached_bytes: 0,
            direct_error: None,
        }
    }
}

impl Edge for Kernel {
    fn write_direct(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        // A number that somebody closed unseen may be another file's by now.
        let direct = self
            .direct
            .filter(|direct| kernel_is(*direct, &self.stamp))
            .ok_or(Errno(libc::EBADF))?;
        let result = file::pwrite(direct, bytes, offset);
        match result {
            Ok(written) => {
                self.direct_bytes += written as u64;
                if !self.proven && self.effect.is_none() && written > 0 {
                    self.effect = file::cache_statistics(direct, offset, written as u64)
                        .ok()
                        .map(|statistics| statistics.cached_pages == 0);
                }
            }
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => self.direct_error = Some(errno),
        }
        result
    }

    fn write_back_before(&mut self, start: u64, end: u64) {
        if self.keeps_order && kernel_is(self.descriptor, &self.stamp) {
            self.lost = file::write_back(self.descriptor, start, end - start).err();
        }
    }

    fn write_cached(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let result = if kernel_is(self.descriptor, &self.stamp) {
            file::pwrite(self.descriptor, bytes, offset)
        } else {
            // The application's descriptor was closed unseen: ours still is the file.
            let direct = self
                .direct
                .filter(|direct| kernel_is(*direct, &self.stamp))
                .ok_or(Errno(libc::EBADF))?;
            let reopened = reopen(direct, libc::O_WRONLY)?;
            let result = file::pwrite(reopened, bytes, offset);
            let _ = file::close(reopened);
            result
        };
        if let Ok(written) = result {
            self.cached_bytes += written as u64;
        }
        result
    }
}
