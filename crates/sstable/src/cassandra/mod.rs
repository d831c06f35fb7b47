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
//! The version letters of file names are those of `BigFormat.java` and `BtiFormat.java` (Cassandra
//! 4.1.10, 5.0.9 and 6.0-alpha2; all formats' sources named in this module are of these). Other
//! versions are [`Error::Unsupported`](crate::Error::Unsupported), and so is every partitioner but
//! Murmur3.
//!
//! Keys of both formats have one form, [`Key`], hence a partition of a BIG table can be looked for
//! in a BTI table and the other way round.
//!
//! [`SsTable`] reads finished tables only. While Cassandra writes a table, even while it opens it early for
//! its own readers, there is no `Statistics.db` yet (`SortedTableWriter.java` finishes the index,
//! then `Data.db` with its `CompressionInfo.db`, then `Statistics.db`, then `TOC.txt`), so that
//! [`SsTable::open`] fails with [`std::io::ErrorKind::NotFound`]. An index that ends within an entry
//! is [`Error::Malformed`](crate::Error::Malformed) there; the partitions before the last whole
//! entry, whose own end is not known, have been given by then. Of an `Index.db` that was cut
//! exactly between two entries nothing tells that it is incomplete: its last partition appears to
//! reach to the end of the data. What has been written of it [`GrowingIndex`] reads. Of a BTI index
//! nothing can be read before its end: there [`each_possible_partition`] finds partitions in the data.

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
pub use growing::{GrowingIndex, Written};
pub use key::Key;
pub use partition_data::{each_possible_partition, partition_key_at};
pub use partitions::{IndexCursor, Partition, Partitions};
pub use sstable::{Components, SsTable};
