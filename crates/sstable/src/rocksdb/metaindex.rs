//! Which further blocks a table has, by name (`table/meta_blocks.cc`).

use super::block::{Block, Position, ValueLength};
use super::handle::BlockHandle;
use crate::Result;

#[derive(Debug, Default)]
pub(super) struct MetaIndex {
    /// Only RocksDB writes this block, in every table.
    pub(super) properties: Option<BlockHandle>,
    /// Since `format_version` 6.
    pub(super) index: Option<BlockHandle>,
    /// Data blocks are compressed with a dictionary.
    pub(super) dictionary: bool,
    /// LevelDB names the filter here (`table/table_builder.cc`).
    pub(super) filter: bool,
}

impl MetaIndex {
    pub(super) fn parse(block: &Block) -> Result<Self> {
        let mut found = Self::default();
        let mut position = Position::default();
        while let Some(handle) = block.step(&mut position, ValueLength::Stated, |value, _| {
            BlockHandle::decode(value)
        })? {
            match position.key() {
                // The second name is that of the first releases.
                b"rocksdb.properties" | b"rocksdb.stats" => found.properties = Some(handle),
                b"rocksdb.index" => found.index = Some(handle),
                b"rocksdb.compression_dict" => found.dictionary = true,
                key if key.starts_with(b"filter.") => found.filter = true,
                _ => {}
            }
        }
        Ok(found)
    }
}
