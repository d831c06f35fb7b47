//! Opens an SSTable: from the footer to the top level of its index.
//!
//! Source: `BlockBasedTable::Open` in `table/block_based/block_based_table_reader.cc` of RocksDB,
//! `Table::Open` in `table/table.cc` of LevelDB.

use super::compression::CompressionFormat;
use super::footer::Footer;
use super::handle::BlockHandle;
use super::index::{IndexBlockCursor, IndexFormat};
use super::metaindex::MetaIndex;
use super::order::{Order, Orders};
use super::properties::{Properties, Schema};
use super::storage::Storage;
use crate::decompression::MAX_BLOCK_BYTES;
use crate::memory::{self, TryVec};
use crate::{Error, ReadAt, Result, unsupported};

/// Most bytes of a comparator's name in a message.
const NAME_BYTES_MAX: usize = 64;
/// The table formats of Pebble since which data and index, metaindex, and properties have columns.
const BLOCK_COLUMNS_SINCE: u32 = 5;
const METAINDEX_COLUMNS_SINCE: u32 = 6;
const PROPERTIES_COLUMNS_SINCE: u32 = 7;
/// What Pebble calls the schema of keys that an application does not define itself.
const DEFAULT_KEYS: &[u8] = b"DefaultKeySchema(";
/// RocksDB's own compression manager, as `format_version` 7 names it.
const BUILT_IN_COMPRESSION: &[u8] = b"BuiltinV2";

/// The format of an SSTable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// LevelDB's.
    LevelDb,
    /// RocksDB's block-based one.
    RocksDb {
        /// `BlockBasedTableOptions::format_version`.
        format_version: u32,
    },
    /// Pebble's.
    Pebble {
        /// The number behind `TableFormatPebblev`.
        table_format: u32,
    },
}

impl Format {
    /// The format by the footer alone, which is the end of the file. RocksDB's of `format_version` 0, which it no longer
    /// writes, counts as LevelDB's.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] for a later or another format of RocksDB or Pebble.
    /// - [`Error::Unfinished`] or [`Error::Malformed`] if there is no footer.
    /// - [`Error::Io`] if reading fails.
    pub fn by_footer(source: &dyn ReadAt) -> Result<Self> {
        let footer = Footer::read(source)?;
        Ok(match footer.format_version {
            0 => Self::LevelDb,
            _ => Self::with_properties(&footer),
        })
    }

    /// That of an SSTable with properties: LevelDB's have none.
    fn with_properties(footer: &Footer) -> Self {
        match footer.is_pebbles {
            true => Self::Pebble {
                table_format: footer.format_version,
            },
            false => Self::RocksDb {
                format_version: footer.format_version,
            },
        }
    }
}

/// An SSTable that is open for reading, and the top level of its index.
///
/// It borrows its file. A reader for another thread is opened anew.
pub struct SsTable<'a> {
    pub(super) storage: Storage<'a>,
    pub(super) index: IndexFormat,
    /// In the order of their keys. An index without partitions counts as one partition.
    pub(super) partitions: Vec<Partition>,
    /// Data blocks are compressed with a dictionary. This reader cannot read them.
    pub(super) dictionary: bool,
    /// The orders of user keys that the comparator's name and the top level of the index leave.
    pub(super) orders: Orders,
    /// The name of the comparator. LevelDB stores none.
    comparator: Option<Vec<u8>>,
    format: Format,
    /// Of Pebble's columns: prefix and suffix of a key are the first two.
    pub(super) has_default_keys: bool,
    properties: Properties,
}

/// One block of the lower level of an index.
pub(super) struct Partition {
    pub(super) handle: BlockHandle,
    /// Its last separator, as it is stored. `None` if the index is not partitioned.
    pub(super) last_key: Option<Vec<u8>>,
}

impl Partition {
    /// The only partition of an index that is not partitioned.
    fn whole(index: BlockHandle) -> Self {
        Self {
            handle: index,
            last_key: None,
        }
    }
}

impl<'a> SsTable<'a> {
    /// Reads footer, metaindex, properties, and the top level of a partitioned index.
    ///
    /// They stay in memory, at most 64 MiB.
    ///
    /// # Errors
    /// - [`Error::Unsupported`] for the features that the [module](super) declines.
    /// - [`Error::Malformed`] if the file is damaged or no SSTable.
    /// - [`Error::Io`] if reading fails.
    pub fn open(source: &'a dyn ReadAt) -> Result<Self> {
        let footer = Footer::read(source)?;
        let version = footer.format_version;
        // RocksDB never compresses its metaindex, LevelDB does.
        let compression = match version {
            _ if footer.is_pebbles => CompressionFormat::RocksDbVersion2,
            0 => CompressionFormat::LevelDb,
            _ => CompressionFormat::Uncompressed,
        };
        let mut storage = Storage {
            source,
            footer,
            compression,
        };
        let metaindex = if footer.has_columns_since(METAINDEX_COLUMNS_SINCE) {
            MetaIndex::of_columns(&storage.read_columns(footer.metaindex, 0)?)?
        } else {
            MetaIndex::parse(&storage.read(footer.metaindex)?)?
        };
        let index = footer.index.or(metaindex.index).ok_or(Error::Malformed {
            what: "the metaindex names no index",
            offset: footer.metaindex.offset,
        })?;

        let Some(properties) = metaindex.properties else {
            if version > 0 {
                return Err(unsupported(format_args!(
                    "an SSTable of RocksDB without properties"
                )));
            }
            return Self::of_leveldb(storage, index, &metaindex);
        };
        let schema = if footer.has_columns_since(PROPERTIES_COLUMNS_SINCE) {
            Schema::of_columns(&storage.read_columns(properties, 0)?)?
        } else {
            Schema::read(&storage, properties)?
        };
        if !footer.is_pebbles {
            storage.compression = compression_format(version, &schema.compression);
        }
        let (layout, mut format) = index_format(&schema, version, properties.offset)?;
        format.columns = footer.has_columns_since(BLOCK_COLUMNS_SINCE);
        format.block_properties = footer.is_pebbles && !format.columns;
        let mut sstable = Self {
            storage,
            index: format,
            partitions: Vec::new(),
            dictionary: metaindex.dictionary,
            orders: orders(&schema),
            comparator: schema.comparator,
            format: Format::with_properties(&footer),
            has_default_keys: schema.key_schema.starts_with(DEFAULT_KEYS),
            properties: schema.properties,
        };
        match layout {
            Layout::Partitioned => sstable.read_partitions(index)?,
            Layout::OneBlock => sstable.partitions.try_push(Partition::whole(index))?,
        }
        Ok(sstable)
    }

    /// LevelDB writes no properties: everything about its index is fixed.
    fn of_leveldb(storage: Storage<'a>, index: BlockHandle, metaindex: &MetaIndex) -> Result<Self> {
        Ok(Self {
            storage,
            index: IndexFormat {
                user_keys: false,
                delta_encoded: false,
                first_keys: false,
                block_properties: false,
                columns: false,
            },
            partitions: memory::collected([Partition::whole(index)])?,
            dictionary: metaindex.dictionary,
            orders: Orders::ALL,
            comparator: None,
            format: Format::LevelDb,
            has_default_keys: false,
            properties: Properties {
                filter_bytes: (!metaindex.filter).then_some(0),
                ..Properties::default()
            },
        })
    }

    /// The format of the SSTable.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Where its footer begins, in bytes from the beginning of the file. Every block ends before it.
    #[must_use]
    pub fn footer_offset(&self) -> u64 {
        self.storage.footer.offset
    }

    /// The figures that the SSTable stores about itself.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The name of the comparator. `None` if the SSTable does not have it: LevelDB's never do.
    #[must_use]
    pub fn comparator(&self) -> Option<&[u8]> {
        self.comparator.as_deref()
    }

    /// The error of an SSTable whose keys have none of the orders that are left.
    #[must_use]
    pub fn in_no_known_order(&self) -> Error {
        let name = self.comparator.as_deref().unwrap_or(b"not named");
        let name = name.get(..NAME_BYTES_MAX).unwrap_or(name).escape_ascii();
        unsupported(format_args!(
            "keys neither in bytewise nor in reverse bytewise order (comparator {name})"
        ))
    }

    /// Whether data blocks have columns.
    pub(super) fn has_columns(&self) -> bool {
        self.index.columns
    }

    /// A block of the index, before its first entry.
    pub(super) fn index_block(&self, handle: BlockHandle) -> Result<IndexBlockCursor> {
        let contents = self.storage.read_contents(handle)?;
        IndexBlockCursor::new(contents, handle.offset, self.index)
    }

    /// Reads the top level of a partitioned index, and checks its order.
    fn read_partitions(&mut self, top_level: BlockHandle) -> Result<()> {
        let mut bytes = 0;
        let mut cursor = self.index_block(top_level)?;
        while let Some(value) = cursor.step()? {
            let separator = cursor.separator()?;
            if let Some(Partition {
                handle,
                last_key: Some(previous),
            }) = self.partitions.last()
            {
                let orders = (self.index.separator(previous))
                    .map_or(Orders::NONE, |it| it.orders_before(separator, self.orders));
                if handle.end().is_none_or(|end| end > value.handle.offset) {
                    return Err(cursor.malformed("partitions of the index that are not in order"));
                }
                if orders.is_empty() {
                    return Err(self.out_of_order(&cursor));
                }
                self.orders = orders;
            }
            let last_key = memory::copied(cursor.stored_key().unwrap_or_default())?;
            // Keys share prefixes in the block. Expanded, they may take far more memory than the block.
            bytes += size_of::<Partition>() + last_key.len();
            if bytes > MAX_BLOCK_BYTES {
                return Err(unsupported(format_args!(
                    "a top level of an index above 64 MiB"
                )));
            }
            self.partitions.try_push(Partition {
                handle: value.handle,
                last_key: Some(last_key),
            })?;
        }
        Ok(())
    }

    /// The error of separators in none of the orders: the SSTable is damaged if its order is known by name.
    pub(super) fn out_of_order(&self, cursor: &IndexBlockCursor) -> Error {
        let name = self.comparator.as_deref();
        match name.and_then(Order::of_comparator) {
            Some(_) => cursor.malformed("separators that are not in order"),
            None => self.in_no_known_order(),
        }
    }
}

/// The orders that the comparator's name allows.
fn orders(schema: &Schema) -> Orders {
    let name = schema.comparator.as_deref();
    match name.and_then(Order::of_comparator) {
        Some(order) if schema.without_timestamps => Orders::only(order.without_timestamps()),
        Some(order) => Orders::only(order),
        None => Orders::ALL,
    }
}

/// Whether an index has two levels.
#[derive(Clone, Copy)]
enum Layout {
    OneBlock,
    Partitioned,
}

/// The index that the properties at `offset` of the file describe.
fn index_format(
    schema: &Schema,
    format_version: u32,
    offset: u64,
) -> Result<(Layout, IndexFormat)> {
    let (layout, first_keys) = match schema.index_type {
        // These versions are older than the property.
        None if format_version < 2 => (Layout::OneBlock, false),
        None => {
            return Err(Error::Malformed {
                what: "no index type",
                offset,
            });
        }
        // A hash index (1) is a binary search index (0) with an additional block.
        Some(0 | 1) => (Layout::OneBlock, false),
        Some(2) => (Layout::Partitioned, false),
        Some(3) => (Layout::OneBlock, true),
        Some(other) => return Err(unsupported(format_args!("index type {other}"))),
    };
    let format = IndexFormat {
        user_keys: schema.index_key_is_user_key,
        delta_encoded: schema.index_value_is_delta_encoded,
        first_keys,
        block_properties: false,
        columns: false,
    };
    Ok((layout, format))
}

/// How blocks are compressed. `property` is the value of `rocksdb.compression`.
fn compression_format(format_version: u32, property: &[u8]) -> CompressionFormat {
    match format_version {
        0 | 1 => CompressionFormat::RocksDbVersion1,
        2..=6 => CompressionFormat::RocksDbVersion2,
        _ if property.split(|&byte| byte == b';').next() == Some(BUILT_IN_COMPRESSION) => {
            CompressionFormat::RocksDbVersion2
        }
        _ => CompressionFormat::Uncompressed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_applications_own_compression_manager_is_declined() {
        use CompressionFormat::{RocksDbVersion1, RocksDbVersion2, Uncompressed};
        for (version, property, expected) in [
            (0, &b"Zlib"[..], RocksDbVersion1),
            (6, b"ZSTD", RocksDbVersion2),
            (7, b"BuiltinV2;04;", RocksDbVersion2),
            (7, b"Mine;04;", Uncompressed),
            (7, b"", Uncompressed),
        ] {
            assert_eq!(compression_format(version, property), expected);
        }
    }
}
