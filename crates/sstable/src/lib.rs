//! Read-only index readers: which key lives at which offset of an SSTable.
//!
//! Two readers: [`rocksdb::SsTable`] for RocksDB and LevelDB, [`cassandra::SsTable`] for Cassandra.
//! The handover uses them twice. The index of an input turns hot pages into keys. The index of the
//! output turns these keys into pages.
//!
//! What the readers promise:
//!
//! - They never write.
//! - They read the index, and data only on request: a block for its keys, or a chunk for its
//!   partitions.
//! - They decline an SSTable that they do not know for certain: [`Error::Unsupported`].
//! - They report a damaged one: [`Error::Malformed`]. They never guess.
//! - They bound their memory. Damaged lengths cannot make them allocate without limit.
//! - They end with [`Error::OutOfMemory`] where memory is refused. They never end the process.
//!
//! ```no_run
//! use coldstream_sstable::rocksdb::SsTable;
//! # fn main() -> coldstream_sstable::Result<()> {
//! let file = std::fs::File::open("000012.sst")?;
//! let sstable = SsTable::open(&file)?;
//! let mut blocks = sstable.blocks();
//! while let Some(block) = blocks.next()? {
//!     println!("{} + {}: up to {:?}", block.offset, block.length, block.separator);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A reader takes any [`ReadAt`], bytes in memory too. These are the files of a Cassandra SSTable
//! with one partition:
//!
//! ```
//! use coldstream_sstable::cassandra::{Components, Descriptor, Key, SsTable};
//! # fn main() -> coldstream_sstable::Result<()> {
//! // The key's length and the key, the partition's position, no index of its rows.
//! let index = [0, 5, b'a', b'l', b'i', b'c', b'e', 0, 0];
//! // One component of type 0, at byte 16: the name of the partitioner.
//! let mut statistics = [1_u32, 0, 0, 16].map(u32::to_be_bytes).concat();
//! statistics.extend([0, 43]);
//! statistics.extend(b"org.apache.cassandra.dht.Murmur3Partitioner");
//!
//! let descriptor = Descriptor::parse("nb-1-big-Data.db")?;
//! let sstable = SsTable::new(
//!     &descriptor,
//!     Components {
//!         keys: &index[..],
//!         rows: None,
//!         compression_info: None,
//!         statistics: &statistics[..],
//!         data_length: 1000,
//!     },
//! )?;
//! let key = Key::from_partition_key(b"alice");
//! assert_eq!(sstable.partitions()?.find(&key)?, Some(0..1000));
//! # Ok(())
//! # }
//! ```
//!
//! `examples/dump_index.rs` prints the index of an SSTable of either kind.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod cassandra;
mod decompression;
pub mod memory;
pub mod rocksdb;

use std::collections::TryReserveError;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Why an SSTable gives no index.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("cannot read the SSTable: {0}")]
    Io(#[from] io::Error),
    /// A format, version, option, comparator or compression that this reader does not know.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The file does not end as an SSTable of RocksDB, LevelDB or Pebble: it is being written, or was given up.
    #[error("no footer of an SSTable: an unfinished file, or another one")]
    Unfinished,
    /// Bytes that the format forbids: a damaged or unfinished file, or not an SSTable at all.
    #[error("malformed at byte {offset}: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Where, in bytes from the beginning of the file.
        offset: u64,
    },
    /// There is no memory for it.
    #[error("out of memory")]
    OutOfMemory,
}

impl From<TryReserveError> for Error {
    fn from(_: TryReserveError) -> Self {
        Self::OutOfMemory
    }
}

/// [`Error::Unsupported`] with this text.
pub(crate) fn unsupported(what: fmt::Arguments<'_>) -> Error {
    memory::formatted(what).map_or(Error::OutOfMemory, Error::Unsupported)
}

/// Result of an index reader.
pub type Result<T> = std::result::Result<T, Error>;

/// A file that can be read at an offset, without a position of its own.
///
/// The caller decides whether bytes come from the page cache or from the device. Walked from front
/// to back, a reader reads each byte of an index at most once. It reads in ascending order as far as
/// the format allows, and at most 1 MiB at a time. Offsets and lengths are not aligned.
pub trait ReadAt {
    /// Fills all of `buffer` with the bytes from `offset` on. `offset` is in bytes.
    ///
    /// # Errors
    /// Those of the file. [`io::ErrorKind::UnexpectedEof`] if it ends within `buffer`.
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
