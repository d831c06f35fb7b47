//! Writes SSTables of RocksDB in memory: `format_version` 5, without checksums and compression. The separators
//! are the last keys of the blocks.

use coldstream_testkit::database::varint;

/// `kBlockBasedTableMagicNumber` of RocksDB's `block_based_table_builder.cc`.
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// Bytes of a footer before its version and its magic number.
const HANDLES_BYTES: usize = 41;

pub struct Table {
    pub bytes: Vec<u8>,
    pub blocks: Vec<Block>,
}

/// A data block.
pub struct Block {
    pub offset: u64,
    pub keys: Vec<Vec<u8>>,
}

/// How the keys lie in an SSTable.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Keys of a block.
    pub block: usize,
    pub value_bytes: usize,
    pub has_filter: bool,
    /// Data blocks cannot be read: they would need a dictionary.
    pub has_dictionary: bool,
}

impl From<usize> for Layout {
    /// Blocks of this many keys, with small values.
    fn from(block: usize) -> Self {
        Self {
            block,
            value_bytes: 20,
            has_filter: true,
            has_dictionary: false,
        }
    }
}

impl Table {
    /// An SSTable with these user keys, in this order.
    pub fn new(comparator: &str, keys: &[Vec<u8>], layout: impl Into<Layout>) -> Self {
        let Layout {
            block,
            value_bytes,
            has_filter,
            has_dictionary,
        } = layout.into();
        let mut bytes = Vec::new();
        let mut blocks = Vec::new();
        let mut index = Vec::new();
        for keys in keys.chunks(block) {
            let entries: Vec<_> = keys
                .iter()
                .map(|key| (internal(key), vec![7; value_bytes]))
                .collect();
            let offset = bytes.len() as u64;
            let handle = append(&entries, &mut bytes);
            index.push((keys.last().unwrap().clone(), handle));
            blocks.push(Block {
                offset,
                keys: keys.to_vec(),
            });
        }
        let data_bytes = bytes.len() as u64;
        let index = append(&index, &mut bytes);
        let properties = [
            ("rocksdb.block.based.table.index.type", vec![0; 4]),
            ("rocksdb.comparator", comparator.as_bytes().to_vec()),
            ("rocksdb.data.size", varint(data_bytes)),
            ("rocksdb.filter.size", varint(u64::from(has_filter))),
            ("rocksdb.index.key.is.user.key", varint(1)),
        ];
        let properties = properties.map(|(name, value)| (name.as_bytes().to_vec(), value));
        let properties = append(&properties, &mut bytes);
        let mut metaindex = vec![(b"rocksdb.properties".to_vec(), properties)];
        if has_dictionary {
            let dictionary = append(&[], &mut bytes);
            metaindex.insert(0, (b"rocksdb.compression_dict".to_vec(), dictionary));
        }
        let metaindex = append(&metaindex, &mut bytes);
        let mut footer = [&[0][..], &metaindex, &index].concat();
        footer.resize(HANDLES_BYTES, 0);
        footer.extend(5_u32.to_le_bytes());
        footer.extend(MAGIC.to_le_bytes());
        bytes.extend(footer);
        Self { bytes, blocks }
    }

    /// The number of the block with a key.
    pub fn block_of(&self, key: &Vec<u8>) -> Option<usize> {
        self.blocks
            .iter()
            .position(|block| block.keys.contains(key))
    }
}

/// A user key with a sequence number and the type of a value.
fn internal(user_key: &[u8]) -> Vec<u8> {
    [user_key, &(5_u64 << 8 | 1).to_le_bytes()].concat()
}

/// Appends a block, with a restart point at every entry. Returns its handle.
fn append(entries: &[(Vec<u8>, Vec<u8>)], bytes: &mut Vec<u8>) -> Vec<u8> {
    let offset = bytes.len();
    let mut restarts = Vec::new();
    for (key, value) in entries {
        restarts.push((bytes.len() - offset) as u32);
        bytes.push(0);
        bytes.extend(varint(key.len() as u64));
        bytes.extend(varint(value.len() as u64));
        bytes.extend(key);
        bytes.extend(value);
    }
    for restart in &restarts {
        bytes.extend(restart.to_le_bytes());
    }
    bytes.extend((restarts.len() as u32).to_le_bytes());
    let size = bytes.len() - offset;
    // No compression, no checksum.
    bytes.extend([0; 5]);
    [varint(offset as u64), varint(size as u64)].concat()
}
