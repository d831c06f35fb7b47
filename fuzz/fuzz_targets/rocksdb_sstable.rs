//! SSTables of RocksDB and Pebble: footer, metaindex, properties, index, and the keys of data blocks.
//!
//! The target builds the footer itself. Blocks have no checksums (type 0). Otherwise random bytes would fail at
//! the first one, and the code behind it would never run.

#![no_main]

use arbitrary::Arbitrary;
use coldstream_sstable::rocksdb::SsTable;
use libfuzzer_sys::fuzz_target;

/// `kBlockBasedTableMagicNumber` of RocksDB's `block_based_table_builder.cc`.
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// `pebbleDBMagic` of Pebble's `sstable/table.go`.
const PEBBLE_MAGIC: u64 = 0xf09f_aab3_f09f_aab3_u64.swap_bytes();
/// Bytes of a footer before its version and its magic number.
const HANDLES_BYTES: usize = 41;

#[derive(Arbitrary, Debug)]
enum Format {
    /// `format_version` 0 to 5. Later ones have checksums in the footer.
    RocksDb(u8),
    /// Table formats 1 to 7. Blocks have columns from the fifth on.
    Pebble(u8),
}

impl Format {
    /// What follows the handles in `footer`.
    fn finish(&self, footer: &mut Vec<u8>) {
        match self {
            Self::RocksDb(version) => {
                footer.extend(u32::from(version % 6).to_le_bytes());
                footer.extend(MAGIC.to_le_bytes());
            }
            Self::Pebble(format) => {
                let format = 1 + u32::from(format % 7);
                let end = [&format.to_le_bytes()[..], &PEBBLE_MAGIC.to_le_bytes()].concat();
                if format >= 7 {
                    footer.extend([0; 4]);
                }
                if format >= 6 {
                    let guarded = [&footer[..], &end].concat();
                    footer.extend(masked_crc32c(&guarded).to_le_bytes());
                }
                footer.extend(end);
            }
        }
    }
}

/// As `crc.Value` of Pebble, and `crc32c::Mask` of LevelDB.
fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[derive(Arbitrary, Debug)]
struct Input {
    format: Format,
    metaindex: (u8, u16),
    index: (u16, u16),
    blocks: Vec<u8>,
}

fn varint(value: u64, bytes: &mut Vec<u8>) {
    let mut rest = value;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fuzz_target!(|input: Input| {
    let mut bytes = input.blocks;
    let mut footer = vec![0];
    varint(input.metaindex.0.into(), &mut footer);
    varint(input.metaindex.1.into(), &mut footer);
    varint(input.index.0.into(), &mut footer);
    varint(input.index.1.into(), &mut footer);
    footer.resize(HANDLES_BYTES, 0);
    input.format.finish(&mut footer);
    bytes.extend(footer);

    let source = &bytes[..];
    let Ok(sstable) = SsTable::open(&source) else {
        return;
    };
    let mut blocks = sstable.blocks();
    let mut ranges = Vec::new();
    while ranges.len() < 1000
        && let Ok(Some(block)) = blocks.next()
    {
        ranges.push((block.offset, block.length));
    }
    for (offset, length) in ranges.iter().take(8) {
        let _ = sstable.user_keys(*offset, *length, |_| {});
    }
    let _ = sstable.blocks().seek(b"key");
});
