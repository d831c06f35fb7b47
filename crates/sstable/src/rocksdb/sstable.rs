//! Opening a table: from the footer to the top of its index (`BlockBasedTable::Open` in
//! `table/block_based/block_based_table_reader.cc`, `Table::Open` in LevelDB's `table/table.cc`).

use super::block::Block;
use super::compression::CompressionFormat;
use super::footer::Footer;
use super::handle::BlockHandle;
use super::index::{IndexBlockCursor, IndexFormat, Separator};
use super::metaindex::MetaIndex;
use super::properties::{Properties, Schema};
use super::storage::Storage;
use crate::decompression::MAX_BLOCK_BYTES;
use crate::{Error, ReadAt, Result};

/// Bytewise order of user keys, without user-defined timestamps.
const COMPARATOR: &[u8] = b"leveldb.BytewiseComparator";
/// RocksDB's own compression manager, as `format_version` 7 names it.
const BUILT_IN_COMPRESSION: &[u8] = b"BuiltinV2";

/// Whose table it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// LevelDB's.
    LevelDb,
    /// RocksDB's block-based table.
    RocksDb {
        /// `BlockBasedTableOptions::format_version`.
        format_version: u32,
    },
}

/// An open table: what is known of it, and the top level of its index.
pub struct SsTable<'a> {
    pub(super) storage: Storage<'a>,
    pub(super) index: IndexFormat,
    /// In the order of their keys. An index that is not partitioned is a single one.
    pub(super) partitions: Vec<Partition>,
    /// Data blocks are compressed with a dictionary, which this reader does not read.
    pub(super) dictionary: bool,
    format: Format,
    properties: Properties,
}

/// One block of the lower level of an index.
pub(super) struct Partition {
    pub(super) handle: BlockHandle,
    /// Its last separator, as it is stored; `None` if the index is not partitioned.
    pub(super) last_key: Option<Box<[u8]>>,
}

impl<'a> SsTable<'a> {
    /// Reads footer, metaindex and properties, and the top level of a partitioned index; these stay
    /// in memory, at most 64 MiB.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what the [module](super) says is declined, [`Error::Malformed`]
    /// for what is no table or a damaged one, [`Error::Io`] if reading fails.
    pub fn open(source: &'a dyn ReadAt) -> Result<Self> {
        let footer = Footer::read(source)?;
        let version = footer.format_version;
        // RocksDB never compresses its metaindex, LevelDB does.
        let compression = match version {
            0 => CompressionFormat::LevelDb,
            _ => CompressionFormat::Uncompressed,
        };
        let mut storage = Storage {
            source,
            footer,
            compression,
        };
        let metaindex = MetaIndex::parse(&storage.read(footer.metaindex)?)?;
        let index = footer.index.or(metaindex.index).ok_or(Error::Malformed {
            what: "the metaindex names no index",
            offset: footer.metaindex.offset,
        })?;

        let Some(properties) = metaindex.properties else {
            if version > 0 {
                return Err(Error::Unsupported(
                    "a table of RocksDB without properties".into(),
                ));
            }
            return Ok(Self {
                storage,
                index: IndexFormat {
                    user_keys: false,
                    delta_encoded: false,
                    first_keys: false,
                },
                partitions: vec![Partition {
                    handle: index,
                    last_key: None,
                }],
                dictionary: metaindex.dictionary,
                format: Format::LevelDb,
                properties: Properties {
                    filter_bytes: (!metaindex.filter).then_some(0),
                    ..Properties::default()
                },
            });
        };
        let schema = Schema::read(&storage, properties)?;
        if schema.comparator.as_deref() != Some(COMPARATOR) {
            let name = String::from_utf8_lossy(schema.comparator.as_deref().unwrap_or(b"unnamed"));
            return Err(Error::Unsupported(format!("comparator {name}")));
        }
        storage.compression = compression_format(version, &schema.compression);
        let missing = Error::Malformed {
            what: "no index type",
            offset: properties.offset,
        };
        let (partitioned, first_keys) = match schema.index_type {
            // Older than the property.
            None if version < 2 => (false, false),
            None => return Err(missing),
            // A hash index is a binary search index with something beside it.
            Some(0 | 1) => (false, false),
            Some(2) => (true, false),
            Some(3) => (false, true),
            Some(other) => return Err(Error::Unsupported(format!("index type {other}"))),
        };
        let format = IndexFormat {
            user_keys: schema.index_key_is_user_key,
            delta_encoded: schema.index_value_is_delta_encoded,
            first_keys,
        };
        let partitions = if partitioned {
            read_partitions(storage.read(index)?, format)?
        } else {
            vec![Partition {
                handle: index,
                last_key: None,
            }]
        };
        Ok(Self {
            storage,
            index: format,
            partitions,
            dictionary: metaindex.dictionary,
            format: Format::RocksDb {
                format_version: version,
            },
            properties: schema.properties,
        })
    }

    /// Whose table it is.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// What the table says about itself.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }
}

/// What the property `rocksdb.compression` says of the compression types in the blocks.
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

fn read_partitions(top_level: Block, format: IndexFormat) -> Result<Vec<Partition>> {
    let mut partitions: Vec<Partition> = Vec::new();
    let mut bytes = 0;
    let mut cursor = IndexBlockCursor::new(top_level, format);
    while let Some(value) = cursor.step()? {
        let separator = cursor.separator()?;
        if let Some(Partition {
            handle,
            last_key: Some(previous),
        }) = partitions.last()
        {
            let ascend = Separator::decode(previous, format.user_keys)
                .is_some_and(|previous| previous.may_precede(separator));
            if !ascend || handle.end().is_none_or(|end| end > value.handle.offset) {
                return Err(cursor.malformed("partitions of the index in disorder"));
            }
        }
        let last_key: Box<[u8]> = cursor.stored_key().unwrap_or_default().into();
        // Shared prefixes may make far more of a block than it holds.
        bytes += size_of::<Partition>() + last_key.len();
        if bytes > MAX_BLOCK_BYTES {
            return Err(Error::Unsupported(
                "a larger top level of an index than 64 MiB".into(),
            ));
        }
        partitions.push(Partition {
            handle: value.handle,
            last_key: Some(last_key),
        });
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compression_manager_of_ones_own_is_not_known() {
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
