//! RocksDB's block-based table and LevelDB's table.

mod block;
mod blocks;
mod bytes;
mod checksum;
mod compression;
mod footer;
mod handle;
mod index;
mod metaindex;
mod properties;
mod storage;
mod table;

pub use blocks::{Blocks, DataBlock};
pub use properties::Properties;
pub use table::{Format, Table};
