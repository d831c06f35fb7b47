//! The names and handles of an SSTable's other blocks (`table/meta_blocks.cc`).

use super::block::{Block, Position, ValueLength};
use super::bytes::Bytes;
use super::columns::Columns;
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
            metaindex.name(position.key(), handle);
        }
        Ok(metaindex)
    }

    /// Pebble's, a column of names and one of handles.
    pub(super) fn of_columns(columns: &Columns) -> Result<Self> {
        let mut metaindex = Self::default();
        let (names, handles) = (columns.strings(0)?, columns.strings(1)?);
        for row in 0..columns.rows() {
            let name = columns.string(names, row);
            let handle = columns.string(handles, row);
            let handle = handle.and_then(|handle| BlockHandle::decode(&mut Bytes::new(handle)));
            let (name, handle) = name
                .zip(handle)
                .ok_or_else(|| columns.malformed("an entry of the metaindex"))?;
            metaindex.name(name, handle);
        }
        Ok(metaindex)
    }

    fn name(&mut self, name: &[u8], handle: BlockHandle) {
        match name {
            // The first releases used the second name.
            b"rocksdb.properties" | b"rocksdb.stats" => self.properties = Some(handle),
            b"rocksdb.index" => self.index = Some(handle),
            b"rocksdb.compression_dict" => self.dictionary = true,
            name if name.starts_with(b"filter.") => self.filter = true,
            _ => {}
        }
    }
}
