//! RocksDB's block-based table and LevelDB's table.
//!
//! [`SsTable::open`] reads a table from its end to the top of its index; [`SsTable::blocks`] then gives
//! each data block's place in the file and the user keys that it may have, reading one block of the
//! index at a time; [`SsTable::user_keys`] reads a data block for its keys. Every block's checksum is verified, unless the table was
//! written without.
//!
//! What is read:
//!
//! - LevelDB's tables as its databases write them. They do not name their comparator: it is taken to
//!   be LevelDB's own, bytewise one. Nor do they tell whether their keys end with a sequence number:
//!   tables that were written by `TableBuilder` alone, with other keys, cannot be told apart.
//! - RocksDB's with `format_version` 0 to 7; all four index types, index keys with and without
//!   sequence numbers, delta-encoded handles; all checksum types; index blocks that are compressed by
//!   Snappy, zlib, bzip2, LZ4 or Zstandard; tables that were taken in from outside.
//!
//! What is declined with [`Error::Unsupported`](crate::Error::Unsupported): a later `format_version`
//! or a footer's future feature; plain and cuckoo tables; a comparator other than
//! `leveldb.BytewiseComparator`, and with it user-defined timestamps; RocksDB's tables without
//! properties; index types, checksum types and block features that this reader does not know;
//! compression by XPRESS or by a compression manager of the application's own; and a single block of
//! an index, or the top level of a partitioned one, of more than 64 MiB.
//!
//! The format is that of the engines' sources, as each module names them: RocksDB 11.9 (`table/`,
//! `table/block_based/`, `util/`) and LevelDB 1.23 (`table/`, `doc/table_format.md`). RocksDB's
//! `format_version` 0 and 1, which 11.0 gave up, are those of RocksDB 7.8.

mod block;
mod blocks;
mod bytes;
mod checksum;
mod compression;
mod data;
mod footer;
mod handle;
mod index;
mod metaindex;
mod properties;
mod sstable;
mod storage;

pub use blocks::{Blocks, DataBlock};
pub use properties::Properties;
pub use sstable::{Format, SsTable};
