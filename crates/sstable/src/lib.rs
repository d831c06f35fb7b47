//! Read-only index readers: which key lives at which offset of an SSTable.
//!
//! The handover needs nothing else of a table: hot pages of an input become keys by the input's
//! index, and keys become pages of the output by the output's. Nothing of a table is read for it but
//! its index and, where a hot block's keys lie far apart in the output, that block, or, where there is
//! no index yet, those chunks in which hot partitions are expected; no table is ever written. A table
//! that a reader does not know for certain is declined ([`Error::Unsupported`]), a damaged one is
//! [`Error::Malformed`]; neither is guessed at.

#![forbid(unsafe_code)]

pub mod cassandra;
mod decompression;
pub mod rocksdb;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Why a table gives no index.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("cannot read the table: {0}")]
    Io(#[from] io::Error),
    /// A format, version, option, comparator or compression that this reader does not know.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Bytes that the format forbids: a damaged or unfinished file, or not a table at all.
    #[error("malformed at byte {offset}: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Where, in bytes from the beginning of the file.
        offset: u64,
    },
}

/// Result of an index reader.
pub type Result<T> = std::result::Result<T, Error>;

/// A file that can be read at an offset, without a position of its own. Readers read each byte of
/// an index at most once, in ascending order as far as the format allows, and in pieces of at most
/// 1 MiB: the caller decides whether they come from the page cache or from the device.
pub trait ReadAt {
    /// Fills `buffer` with the bytes from `offset`, in bytes, on.
    ///
    /// # Errors
    /// Those of the file; [`io::ErrorKind::UnexpectedEof`] if it ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Size in bytes.
    ///
    /// # Errors
    /// Those of the file.
    fn size(&self) -> io::Result<u64>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

impl ReadAt for [u8] {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|from| self.get(from..)?.get(..buffer.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}
