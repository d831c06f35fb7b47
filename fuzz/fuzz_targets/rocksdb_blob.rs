//! Blob files of RocksDB: records that pass by in pieces.
//!
//! The target computes the checksums of headers. Otherwise no random header would be taken for one.

#![no_main]

use arbitrary::Arbitrary;
use coldstream_sstable::rocksdb::BlobRecords;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Part {
    Bytes(Vec<u8>),
    Header { key_bytes: u64, value_bytes: u64 },
    Record { key_bytes: u8, value_bytes: u8 },
}

#[derive(Arbitrary, Debug)]
struct Input {
    is_whole: bool,
    /// The offset of each piece after the end of the last one, and its parts.
    pieces: Vec<(i16, Vec<Part>)>,
    begin: u64,
}

fn header(key_bytes: u64, value_bytes: u64, bytes: &mut Vec<u8>) {
    let begin = bytes.len();
    bytes.extend(key_bytes.to_le_bytes());
    bytes.extend(value_bytes.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    // The mask of RocksDB's `util/crc32c.h`.
    let sum = crc32c::crc32c(&bytes[begin..]).rotate_right(15);
    bytes.extend(sum.wrapping_add(0xa282_ead8).to_le_bytes());
    bytes.extend([7; 4]);
}

fuzz_target!(|input: Input| {
    let (mut records, mut end) = if input.is_whole {
        (BlobRecords::of_file(), 0)
    } else {
        (BlobRecords::of_pieces(), input.begin)
    };
    for (gap, parts) in input.pieces {
        let mut bytes = Vec::new();
        for part in parts {
            match part {
                Part::Bytes(more) => bytes.extend(more),
                Part::Header {
                    key_bytes,
                    value_bytes,
                } => header(key_bytes, value_bytes, &mut bytes),
                Part::Record {
                    key_bytes,
                    value_bytes,
                } => {
                    header(key_bytes.into(), value_bytes.into(), &mut bytes);
                    bytes.resize(
                        bytes.len() + usize::from(key_bytes) + usize::from(value_bytes),
                        1,
                    );
                }
            }
        }
        let offset = u64::wrapping_add_signed(end, gap.into());
        records.pass(offset, &bytes, |record| {
            assert!(record.offset < record.value_offset && record.value_offset <= record.end);
        });
        end = offset.saturating_add(bytes.len() as u64);
    }
});
