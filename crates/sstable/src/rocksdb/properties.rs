//! The properties block of an SSTable.
//!
//! Source: `ParsePropertiesBlock` in `table/meta_blocks.cc`. The names are those of
//! `table/table_properties.cc` and `table/block_based/block_based_table_factory.cc`.

use super::block::{Block, Position, ValueLength};
use super::bytes::Bytes;
use super::columns::Columns;
use super::handle::BlockHandle;
use super::storage::{Storage, mismatch};
use crate::{Result, memory, unsupported};

const UNDECODABLE: &str = "a property whose value cannot be decoded";
const GLOBAL_SEQUENCE_NUMBER: &[u8] = b"rocksdb.external_sst_file.global_seqno";

/// Figures that an SSTable stores about itself. LevelDB's SSTables have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Entries. Each version and each deletion of a key counts.
    pub entries: Option<u64>,
    /// Number of data blocks.
    pub data_blocks: Option<u64>,
    /// Bytes of all stored data blocks, including their trailers.
    pub data_bytes: Option<u64>,
    /// Bytes of the filter. 0 without a filter, for LevelDB too.
    pub filter_bytes: Option<u64>,
}

/// The properties that decide how to read the SSTable.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) properties: Properties,
    pub(super) comparator: Option<Vec<u8>>,
    /// `BlockBasedTableOptions::IndexType`.
    pub(super) index_type: Option<u32>,
    pub(super) index_key_is_user_key: bool,
    pub(super) index_value_is_delta_encoded: bool,
    /// User-defined timestamps are left out of the keys, although the comparator expects them.
    pub(super) without_timestamps: bool,
    /// Since `format_version` 7 its first field names the compression manager.
    pub(super) compression: Vec<u8>,
    /// Pebble's name of the columns that keys have.
    pub(super) key_schema: Vec<u8>,
}

impl Schema {
    pub(super) fn read(storage: &Storage<'_>, handle: BlockHandle) -> Result<Self> {
        let mut stored = storage.read_stored(handle)?;
        if !storage.is_intact(&stored) {
            // Ingestion may write a sequence number into the finished SSTable. The checksum was
            // computed with zeros in its place.
            let parsed = Block::parse(memory::copied(stored.payload())?, handle.offset)
                .and_then(|block| Self::parse(&block));
            let Ok((_, Some(at))) = parsed else {
                return Err(mismatch(handle));
            };
            stored.payload_mut()[at..at + 8].fill(0);
            if !storage.is_intact(&stored) {
                return Err(mismatch(handle));
            }
        }
        if stored.compression_type() != 0 {
            return Err(unsupported(format_args!("compressed properties")));
        }
        let block = Block::parse(stored.into_payload(), handle.offset)?;
        Ok(Self::parse(&block)?.0)
    }

    /// The properties, and the offset of the global sequence number in the block.
    fn parse(block: &Block) -> Result<(Self, Option<usize>)> {
        let mut schema = Self::default();
        let mut global_sequence_number_at = None;
        let mut position = Position::default();
        while let Some(value) = block.step(&mut position, ValueLength::Stated, |value, _| {
            let from = value.position();
            value.rest();
            Some(from..value.position())
        })? {
            let at = value.start;
            let value = &block.contents()[value];
            let is_known = schema.set(position.key(), value)?;
            is_known.ok_or_else(|| block.malformed(UNDECODABLE))?;
            if position.key() == GLOBAL_SEQUENCE_NUMBER && value.len() == 8 {
                global_sequence_number_at = Some(at);
            }
        }
        Ok((schema, global_sequence_number_at))
    }
    /// Pebble's, a column of names and one of values.
    pub(super) fn of_columns(columns: &Columns) -> Result<Self> {
        let mut schema = Self::default();
        let (names, values) = (columns.strings(0)?, columns.strings(1)?);
        for row in 0..columns.rows() {
            let malformed = || columns.malformed(UNDECODABLE);
            let name = columns.string(names, row);
            let (name, value) = name
                .zip(columns.string(values, row))
                .ok_or_else(malformed)?;
            schema.set(name, value)?.ok_or_else(malformed)?;
        }
        Ok(schema)
    }

    /// Takes a property in. `None` if its value cannot be decoded.
    fn set(&mut self, name: &[u8], value: &[u8]) -> Result<Option<()>> {
        let number = || {
            let mut value = Bytes::new(value);
            value.varint64().filter(|_| value.is_empty())
        };
        match name {
            b"rocksdb.comparator" => self.comparator = Some(memory::copied(value)?),
            b"rocksdb.compression" => self.compression = memory::copied(value)?,
            b"pebble.colblk.schema" => self.key_schema = memory::copied(value)?,
            _ => return Ok(self.set_number(name, value, number)),
        }
        Ok(Some(()))
    }

    fn set_number(
        &mut self,
        name: &[u8],
        value: &[u8],
        number: impl Fn() -> Option<u64>,
    ) -> Option<()> {
        match name {
            b"rocksdb.num.entries" => self.properties.entries = Some(number()?),
            b"rocksdb.num.data.blocks" => self.properties.data_blocks = Some(number()?),
            b"rocksdb.data.size" => self.properties.data_bytes = Some(number()?),
            b"rocksdb.filter.size" => self.properties.filter_bytes = Some(number()?),
            b"rocksdb.block.based.table.index.type" => {
                self.index_type = Some(u32::from_le_bytes(value.try_into().ok()?));
            }
            b"rocksdb.index.key.is.user.key" => self.index_key_is_user_key = number()? != 0,
            b"rocksdb.index.value.is.delta.encoded" => {
                self.index_value_is_delta_encoded = number()? != 0;
            }
            b"rocksdb.user.defined.timestamps.persisted" => {
                self.without_timestamps = number()? == 0
            }
            _ => {}
        }
        Some(())
    }
}
