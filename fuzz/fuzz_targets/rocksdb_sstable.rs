//! SSTables of RocksDB: footer, metaindex, properties, index, and the keys of data blocks.
//!
//! The target builds the footer itself, without checksums (type 0). Otherwise random bytes would
//! fail at the first block's checksum, and the code behind it would never run.

#![no_main]

use arbitrary::Arbitrary;
use coldstream_sstable::rocksdb::SsTable;
use libfuzzer_sys::fuzz_target;

/// `kBlockBasedTableMagicNumber` of RocksDB's `block_based_table_builder.cc`.
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// Bytes of a footer before its version and its magic number.
const HANDLES_BYTES: usize = 41;

#[derive(Arbitrary, Debug)]
struct Input {
    format_version: u8,
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
    footer.extend(u32::from(input.format_version % 6).to_le_bytes());
    footer.extend(MAGIC.to_le_bytes());
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
