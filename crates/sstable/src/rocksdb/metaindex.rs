//! The names and handles of an SSTable's other blocks (`table/meta_blocks.cc`).

use super::block::{Block, Position, ValueLength};
use super::handle::BlockHandle;
use crate::Result;

#[derive(Debug, Default)]
pub(super) struct MetaIndex {
    /// Only RocksDB writes this block, in every SSTable.
    pub(super) properties: Option<BlockHandle>,
    /// Named here since `format_version` 6.
    pub(super) index: Option<BlockHandle>,
    /// Data blocks are compressed with a dictionary.
    pub(super) dictionary: bool,
    /// LevelDB names the filter here (`table/table_builder.cc`).
    pub(super) filter: bool,
}

impl MetaIndex {
    pub(super) fn parse(block: &Block) -> Result<Self> {
        let mut metaindex = Self::default();
        let mut position = Position::default();
        while let Some(handle) = block.step(&mut position, ValueLength::Stated, |value, _| {
            BlockHandle::decode(value)
        })? {
            match position.key() {
                // The first releases used the second name.
                b"rocksdb.properties" | b"rocksdb.stats" => metaindex.properties = Some(handle),
                b"rocksdb.index" => metaindex.index = Some(handle),
                b"rocksdb.compression_dict" => metaindex.dictionary = true,
                key if key.starts_with(b"filter.") => metaindex.filter = true,
                _ => {}
            }
        }
        Ok(metaindex)
    }
}
