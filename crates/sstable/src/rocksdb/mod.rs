//! RocksDB's block-based SSTables, LevelDB's and Pebble's.
//!
//! - [`SsTable::open`] reads footer, metaindex, properties, and the top level of a partitioned index.
//! - [`SsTable::blocks`] walks the index. It returns the offset of each data block and the user keys
//!   that it may hold. It reads one block of the index at a time.
//! - [`SsTable::user_keys`] reads a data block and returns its keys.
//! - [`Order`] says how user keys are sorted. Where the comparator's name does not tell, the walk
//!   through the index finds out: [`Blocks::orders`].
//! - [`BlobRecords`] finds the records of a blob file that passes by.
//!
//! The reader verifies the checksum of every block. SSTables written without checksums are the
//! exception.
//!
//! # Supported
//!
//! LevelDB's SSTables, as its databases write them. The comparator is not named.
//! Whether keys end with a sequence number is not stored. The reader assumes it. SSTables that
//! `TableBuilder` alone wrote, with other keys, look the same.
//!
//! RocksDB's SSTables with:
//!
//! - `format_version` 0 to 7;
//! - bytewise and reverse bytewise order, whatever the comparator is called, also with the
//!   timestamps of `.u64ts`;
//! - all four index types, index keys with and without sequence numbers, delta-encoded handles;
//! - all checksum types;
//! - index blocks compressed by Snappy, zlib, bzip2, LZ4 or Zstandard;
//! - a global sequence number: SSTables that were ingested.
//!
//! Pebble's SSTables of its table formats 1 to 7. Since 5 they have columns: keys of data blocks are known there
//! if the application has no columns of its own.
//!
//! # Declined
//!
//! [`Error::Unsupported`](crate::Error::Unsupported) means one of these:
//!
//! - a later `format_version`, or a later feature of the footer;
//! - plain and cuckoo SSTables;
//! - keys in any other order;
//! - an SSTable of RocksDB without properties;
//! - unknown index types, checksum types and block features;
//! - compression by XPRESS, MinLZ or by the application's own compression manager;
//! - an index block, or the top level of a partitioned index, above 64 MiB.
//!
//! # Sources
//!
//! Each module names the files of the engines that define its part of the format:
//!
//! - RocksDB 11.9: `table/`, `table/block_based/`, `util/`;
//! - RocksDB 7.8 for `format_version` 0 and 1, which 11.0 dropped;
//! - Pebble 2.1: `sstable/`, `sstable/colblk/`;
//! - LevelDB 1.23: `table/`, `doc/table_format.md`.

mod blob;
mod block;
mod blocks;
mod bytes;
mod checksum;
mod columns;
mod compression;
mod data;
mod footer;
mod handle;
mod index;
mod metaindex;
mod order;
mod properties;
mod sstable;
mod storage;

pub use blob::{BlobRecord, BlobRecords};
pub use blocks::{Blocks, DataBlock};
pub use order::{Order, Orders};
pub use properties::Properties;
pub use sstable::{Format, SsTable};
