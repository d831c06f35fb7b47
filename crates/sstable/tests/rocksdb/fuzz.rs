//! Damaged SSTables. Each must give an error or a well-formed answer, never a panic.
//!
//! The tests change, cut and move bytes of real SSTables. Most damage is in a block that the reader
//! reads. Most damaged blocks get a new checksum: otherwise the code behind the checksum is never
//! reached. `COLDSTREAM_LONG=1` makes two million of them instead of 20,000.

use std::fs;
use std::ops::{Bound, Range};
use std::path::Path;
use std::time::Instant;

use coldstream_sstable::rocksdb::SsTable;
use coldstream_sstable::{Error, Result};

use crate::check::{Watched, all, all_and_orders, kept};
use crate::engines::{self, EngineSsTable, Skipped};
use crate::random::Random;
use coldstream_testkit::skip;

const TRAILER_BYTES: usize = 5;
const FOOTER_BYTES: usize = 53;

/// Data blocks of one SSTable whose keys are read.
const DATA_BLOCKS_MAX: usize = 4;

/// A real SSTable: its bytes, the blocks that are read for its index, and its first data blocks.
///
/// Blocks include their trailers.
struct Seed {
    bytes: Vec<u8>,
    blocks: Vec<Range<usize>>,
    data_blocks: Vec<Range<usize>>,
    /// Zero before `format_version` 6.
    base_context_checksum: u32,
}

impl Seed {
    fn new(sstable: EngineSsTable) -> Self {
        let source = Watched::new(&sstable.bytes);
        let data_blocks = all(&SsTable::open(&source).unwrap())
            .unwrap()
            .iter()
            .take(DATA_BLOCKS_MAX)
            .map(|block| block.offset as usize..(block.offset + block.length) as usize)
            .collect();
        let footer = sstable.bytes.len() - FOOTER_BYTES;
        // The reads of the footer are left out. LevelDB's footer is 5 bytes shorter.
        let block =
            |read: &Range<usize>| read.len() > TRAILER_BYTES && read.end <= footer + TRAILER_BYTES;
        let blocks = source.ranges().filter(block).collect();
        let fixed32 = |at: usize| u32::from_le_bytes(sstable.bytes[at..at + 4].try_into().unwrap());
        let block_based = sstable
            .bytes
            .ends_with(&[0xf7, 0xcf, 0xf4, 0x85, 0xb7, 0x41, 0xe2, 0x88]);
        let extended = block_based && fixed32(footer + 41) >= 6;
        let base_context_checksum = if extended { fixed32(footer + 9) } else { 0 };
        Self {
            bytes: sstable.bytes,
            blocks,
            data_blocks,
            base_context_checksum,
        }
    }

    fn context(&self, offset: usize) -> u32 {
        match self.base_context_checksum {
            0 => 0,
            base => base ^ offset as u32,
        }
    }

    fn mutant(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        match random.below(8) {
            0 => bytes.truncate(random.below(bytes.len())),
            1 => {
                let last = bytes.len() - FOOTER_BYTES..bytes.len();
                change(&mut bytes[last], random);
                self.repair_footer(&mut bytes);
            }
            2 => {
                let from = self.blocks[random.below(self.blocks.len())].start;
                change(&mut bytes[from..], random);
            }
            _ => {
                let blocks = match random.below(3) {
                    0 if !self.data_blocks.is_empty() => &self.data_blocks,
                    _ => &self.blocks,
                };
                for _ in 0..=random.below(2) {
                    let block = blocks[random.below(blocks.len())].clone();
                    // The checksum covers the compression type too.
                    change(&mut bytes[block.start..block.end - 4], random);
                    self.repair_block(&mut bytes, block);
                }
            }
        }
        bytes
    }

    fn repair_block(&self, bytes: &mut [u8], block: Range<usize>) {
        let checksum = masked(crc32c::crc32c(&bytes[block.start..block.end - 4]))
            .wrapping_add(self.context(block.start));
        bytes[block.end - 4..block.end].copy_from_slice(&checksum.to_le_bytes());
    }

    fn repair_footer(&self, bytes: &mut [u8]) {
        if self.base_context_checksum != 0 {
            let at = bytes.len() - FOOTER_BYTES;
            bytes[at + 5..at + 9].fill(0);
            let checksum = masked(crc32c::crc32c(&bytes[at..])).wrapping_add(self.context(at));
            bytes[at + 5..at + 9].copy_from_slice(&checksum.to_le_bytes());
        }
    }
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Changes a few bytes in place.
fn change(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let length = 1 + random.below((bytes.len() - at).min(16));
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            // Boundary values of lengths and varints.
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6)],
            3 => bytes[at..at + length].fill([0, 0xff, 0x80][random.below(3)]),
            4 => {
                let from = random.below(bytes.len() - length + 1);
                bytes.copy_within(from..from + length, at);
            }
            // As if a byte were missing.
            _ => bytes.copy_within(at + 1.., at),
        }
    }
}

/// SSTables of all engines that are installed. Long, because it is a list of options.
fn seeds() -> std::result::Result<Vec<Seed>, Skipped> {
    let small = [
        "--seed=1",
        "--num=600",
        "--block_size=512",
        "--metadata_block_size=128",
        "--checksum_type=1",
    ];
    let bench: [&[&str]; 10] = [
        &["--format_version=0", "--compression_type=none"],
        &[
            "--format_version=1",
            "--compression_type=zlib",
            "--key_size=64",
        ],
        &[
            "--format_version=2",
            "--compression_type=none",
            "--partition_index=true",
        ],
        &[
            "--format_version=4",
            "--compression_type=none",
            "--index_block_restart_interval=4",
        ],
        &[
            "--format_version=5",
            "--compression_type=none",
            "--index_with_first_key=true",
        ],
        &[
            "--format_version=5",
            "--compression_type=none",
            "--partition_index=true",
        ],
        &[
            "--format_version=5",
            "--compression_type=zstd",
            "--key_size=64",
        ],
        &[
            "--format_version=5",
            "--compression_type=snappy",
            "--key_size=64",
        ],
        &[
            "--format_version=5",
            "--compression_type=lz4",
            "--key_size=64",
        ],
        &[
            "--format_version=5",
            "--compression_type=bzip2",
            "--key_size=64",
        ],
    ];
    let mut sstables = Vec::new();
    for options in bench {
        sstables.push(engines::db_bench(&[&small[..], options].concat())?);
    }
    let options = "checksum=kCRC32c keys=600 versions=10 index_restart_interval=3";
    let specifications = [
        format!("t6 format_version=6 {options} index_type=kBinarySearchWithFirstKey"),
        format!(
            "t7 format_version=7 {options} index_type=kTwoLevelIndexSearch metadata_block_size=128"
        ),
        format!("own format_version=6 {options} order=reverse index_type=kTwoLevelIndexSearch"),
    ];
    match engines::java(&specifications) {
        Ok(java) => sstables.extend(java),
        Err(why) => skip(why),
    }
    match engines::leveldb([1, 256, 10, 600, 10]) {
        Ok(sstable) => sstables.push(sstable),
        Err(why) => skip(why),
    }
    Ok(sstables.into_iter().map(Seed::new).collect())
}

/// The outcome of reading a damaged SSTable.
struct Exercised {
    /// Data blocks whose keys could be read, and those whose keys could not.
    with_keys: u64,
    without_keys: u64,
}

/// Reads the whole index, seeks, and reads the keys of some data blocks.
fn exercise(bytes: &[u8], random: &mut Random) -> Result<Exercised> {
    let sstable = SsTable::open(&bytes)?;
    let blocks = all_and_orders(&sstable);
    if let Ok((blocks, orders)) = &blocks {
        let order = orders.first().expect("an order");
        let mut end = 0;
        for block in blocks {
            assert!(block.offset >= end);
            end = block.offset + block.length;
            assert!(end <= bytes.len() as u64);
            let (Bound::Included(lower) | Bound::Excluded(lower)) = &block.lower else {
                continue;
            };
            assert!(order.compare(lower, &block.separator).is_le());
        }
    }
    // After an error a seek must still work, and must not return a wrong block.
    let mut cursor = sstable.blocks();
    for _ in 0..4 {
        let key: Vec<u8> = (0..random.below(20)).map(|_| random.next() as u8).collect();
        if cursor.seek(&key).is_ok()
            && let Ok(Some(block)) = kept(&mut cursor)
        {
            let order = cursor.orders().first().expect("an order");
            assert!(order.compare(&block.separator, &key).is_ge());
        }
    }
    let (mut with_keys, mut without_keys) = (0, 0);
    for block in blocks?.0.iter().take(DATA_BLOCKS_MAX) {
        let mut bytes_of_keys = 0;
        match sstable.user_keys(block.offset, block.length, |key| bytes_of_keys += key.len()) {
            Ok(()) => with_keys += 1,
            Err(_) => without_keys += 1,
        }
    }
    Ok(Exercised {
        with_keys,
        without_keys,
    })
}

#[test]
fn damaged_tables() {
    let long = std::env::var_os("COLDSTREAM_LONG").is_some_and(|value| value != "0");
    let executions = if long { 2_000_000 } else { 20_000 };
    let seeds = match seeds() {
        Ok(seeds) => seeds,
        Err(why) => return skip(why),
    };
    let (mut read, mut malformed, mut unsupported) = (0u64, 0u64, 0u64);
    let (mut with_keys, mut without_keys) = (0u64, 0u64);
    let begin = Instant::now();
    for execution in 0..executions {
        let mut random = Random::new(execution);
        let mutant = seeds[random.below(seeds.len())].mutant(&mut random);
        let outcome = std::panic::catch_unwind(|| exercise(&mutant, &mut random.clone()));
        match outcome {
            Ok(Ok(exercised)) => {
                read += 1;
                with_keys += exercised.with_keys;
                without_keys += exercised.without_keys;
            }
            Ok(Err(Error::Unsupported(_))) => unsupported += 1,
            Ok(Err(Error::Malformed { .. } | Error::Unfinished)) => malformed += 1,
            failure => {
                // Kept for a later look. The engines write times and identities, so another run
                // has other SSTables.
                let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged.sst");
                fs::write(&path, &mutant).unwrap();
                panic!(
                    "execution {execution}, kept as {}: {:?}",
                    path.display(),
                    failure.map(|outcome| outcome.map(|_| ()))
                );
            }
        }
    }
    println!(
        "{executions} executions in {:.0?}: {read} read, {malformed} malformed, {unsupported} \
         unsupported; keys of {with_keys} data blocks read, of {without_keys} not",
        begin.elapsed()
    );
    assert!(with_keys > executions / 4 && without_keys > executions / 20);
    assert!(read > executions / 20 && malformed > executions / 20 && unsupported > 0);
}

/// A flipped bit in any block of the index is an error.
#[test]
fn a_flipped_bit_in_a_block_is_noticed() {
    let seeds = match seeds() {
        Ok(seeds) => seeds,
        Err(why) => return skip(why),
    };
    let mut random = Random::new(1);
    let mut flipped = 0;
    for seed in &seeds {
        for block in &seed.blocks {
            for _ in 0..20 {
                let mut bytes = seed.bytes.clone();
                bytes[block.start + random.below(block.len())] ^= 1 << random.below(8);
                let result =
                    SsTable::open(&&bytes[..]).and_then(|sstable| all(&sstable).map(|_| ()));
                assert!(matches!(result, Err(Error::Malformed { .. })), "{result:?}");
                flipped += 1;
            }
        }
    }
    println!("{flipped} bits flipped");
}
