//! Cassandra's BIG and BTI formats: partition keys and where their partitions lie in `Data.db`.
//!
//! | format | versions | written by | index |
//! |--------|----------|------------|-------|
//! | BIG | `na`, `nb` | 4.0, 4.1 (5.0 and 6.0 in compatibility mode) | `Index.db` |
//! | BIG | `oa` | 5.0 | `Index.db` |
//! | BIG | `pa` | 6.0 | `Index.db` |
//! | BTI | `da` | 5.0 | `Partitions.db`, `Rows.db` |
//! | BTI | `ea` | 6.0 | `Partitions.db`, `Rows.db` |
//!
//! The version letters of file names are those of `BigFormat.java` and `BtiFormat.java`. All sources
//! that this module names are of Cassandra 4.1.10, 5.0.9 and 6.0-alpha2.
//! [`Error::Unsupported`](crate::Error::Unsupported) declines other versions, and every partitioner
//! except Murmur3.
//!
//! Keys of both formats have one form, [`Key`]. So a key of a BIG SSTable can be looked up in a BTI
//! SSTable, and the other way round.
//!
//! # Finished SSTables
//!
//! [`SsTable`] reads finished SSTables only. `SortedTableWriter.java` finishes the files in this
//! order: the index, `Data.db` with its `CompressionInfo.db`, `Statistics.db`, `TOC.txt`. Without
//! `Statistics.db` [`SsTable::open`] fails with [`std::io::ErrorKind::NotFound`]. This includes
//! SSTables that Cassandra opens early for its own readers.
//!
//! An index that ends within an entry is [`Error::Malformed`](crate::Error::Malformed). The reader
//! returns the partitions before the last complete entry first. The end of that entry's partition is
//! not known.
//!
//! A cut of `Index.db` exactly between two entries cannot be detected. The last partition then seems
//! to reach to the end of the data.
//!
//! # Unfinished SSTables
//!
//! - BIG: [`GrowingIndex`] reads the entries that have been written.
//! - BTI: the index cannot be read before it is complete. [`each_possible_partition`] finds
//!   partitions in the data instead.

mod big;
mod bti;
mod byte_comparable;
mod compression;
mod compression_info;
mod descriptor;
mod forward;
mod growing;
mod key;
mod pages;
mod partition_data;
mod partitions;
mod sstable;
mod statistics;
mod token;
mod trie;

pub use compression::Compression;
pub use compression_info::{ChunkCursor, ChunkMap};
pub use descriptor::{Component, Descriptor, Format};
pub use growing::{GrowingIndex, IndexEntry};
pub use key::Key;
pub use partition_data::{each_possible_partition, partition_key_at};
pub use partitions::{IndexCursor, Partition, Partitions};
pub use sstable::{Components, SsTable};
