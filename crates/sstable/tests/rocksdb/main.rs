//! Tests of the reader for SSTables of RocksDB and LevelDB. The reader must agree with the engines.
//!
//! - RocksDB 7.8 (`db_bench`, `ldb`, `sst_dump`): `format_version` 0 to 5.
//! - A current RocksDB, by its Java API: `format_version` 2 to 7.
//! - LevelDB.
//!
//! Tests of an engine that is not installed print that they are skipped.

mod check;
mod data_block;
mod dump;
mod engines;
mod fuzz;
mod random;

use std::collections::BTreeSet;

use check::{Checked, Watched, all, all_and_orders, check, kept};
use coldstream_sstable::Error;
use coldstream_sstable::rocksdb::{Format, Order, Orders, SsTable};
use coldstream_testkit::skip;
use engines::{EngineSsTable, Skipped};

/// Keys that share prefixes, about 100 data blocks. A partitioned index gets several partitions.
const SMALL: [&str; 5] = [
    "--num=3000",
    "--value_size=40",
    "--block_size=1024",
    "--metadata_block_size=512",
    "--seed=1",
];

fn bench_sstable(options: &[&str]) -> Result<EngineSsTable, Skipped> {
    engines::dumped_db_bench(&[&SMALL[..], options].concat())
}

fn check_all(sstables: impl IntoIterator<Item = EngineSsTable>) -> Checked {
    let mut sum = Checked::default();
    for sstable in sstables {
        sum.add(&check(&sstable));
    }
    println!("{sum:?}");
    sum
}

#[test]
fn every_version_and_index_type_of_rocksdb_7() -> Result<(), Error> {
    let index_types: [&[&str]; 5] = [
        &[],
        &["--use_hash_search=true", "--prefix_size=8"],
        &["--partition_index=true"],
        &["--index_with_first_key=true"],
        &["--partition_index_and_filters=true", "--bloom_bits=10"],
    ];
    let compressions = ["none", "snappy", "zlib", "bzip2", "lz4", "lz4hc", "zstd"];
    let mut sstables = Vec::new();
    for version in 0..=5 {
        for (kind, index_type) in index_types.iter().enumerate() {
            let version = format!("--format_version={version}");
            let compression = format!(
                "--compression_type={}",
                compressions[sstables.len() % compressions.len()]
            );
            // Versions 0 and 1 allow only CRC-32C. The default of RocksDB 7 is XXH3.
            let checksum = match sstables.len() / index_types.len() {
                0 => "--checksum_type=1".to_string(),
                _ => format!("--checksum_type={}", sstables.len() % 5),
            };
            // A hash index must have a restart point at every entry.
            let restarts = [
                "--index_block_restart_interval=1",
                "--index_block_restart_interval=5",
            ][usize::from(kind != 1) * (sstables.len() % 2)];
            let shortening = format!("--index_shortening_mode={}", sstables.len() % 3);
            let mut options = vec![&version[..], &compression, &checksum, restarts, &shortening];
            options.extend(*index_type);
            match bench_sstable(&options) {
                Ok(sstable) => sstables.push(sstable),
                Err(why) => {
                    skip(&why);
                    return Ok(());
                }
            }
        }
    }
    let versions: BTreeSet<_> = sstables
        .iter()
        .map(
            |sstable| match SsTable::open(&&sstable.bytes[..])?.format() {
                Format::RocksDb { format_version } => Ok(format_version),
                other => panic!("{} taken for {other:?}", sstable.name),
            },
        )
        .collect::<Result<_, Error>>()?;
    assert_eq!(versions, (0..=5).collect());
    let checked = check_all(sstables);
    assert_eq!(checked.sstables, 30);
    assert!(checked.read_keys >= checked.keys, "{checked:?}");
    assert!(
        checked.blocks > 30 * 80 && checked.keys > 30 * 1800,
        "{checked:?}"
    );
    Ok(())
}

#[test]
fn every_compression_and_checksum_of_rocksdb_7() {
    let mut sstables = Vec::new();
    // With the number of each type: the reader treats "lz4hc" as LZ4, Zstandard's old number as 7.
    let compressions = [
        ("none", 0),
        ("snappy", 1),
        ("zlib", 2),
        ("bzip2", 3),
        ("lz4", 4),
        ("lz4hc", 5),
        ("zstd", 7),
    ];
    for (compression, number) in compressions {
        for version in [
            "--format_version=1",
            "--format_version=2",
            "--format_version=5",
        ] {
            let compression = format!("--compression_type={compression}");
            let checksum = format!("--checksum_type={}", number % 5);
            let dictionary = "--compression_max_dict_bytes=4096";
            // Long keys make an index that is worth compressing.
            let options = [
                version,
                &compression,
                &checksum,
                dictionary,
                "--key_size=64",
            ];
            match bench_sstable(&options) {
                Ok(sstable) => {
                    let (offset, size) = dump::index_handle(sstable.dump.as_deref().unwrap());
                    let found = sstable.bytes[(offset + size) as usize];
                    assert_eq!(found, number, "{}", sstable.name);
                    sstables.push(sstable);
                }
                Err(why) => return skip(&why),
            }
        }
    }
    assert_eq!(check_all(sstables).sstables, 21);
}

#[test]
fn aligned_blocks_of_rocksdb_7() {
    match bench_sstable(&[
        "--block_align=true",
        "--block_size=4096",
        "--compression_type=none",
    ]) {
        Ok(sstable) => {
            let checked = check(&sstable);
            assert!(checked.blocks > 20, "{checked:?}");
        }
        Err(why) => skip(&why),
    }
}

#[test]
fn a_sequence_number_written_into_a_finished_table() {
    match engines::ingested() {
        Ok(sstable) => {
            let checked = check(&sstable);
            assert!(checked.blocks > 1, "{checked:?}");
        }
        Err(why) => skip(&why),
    }
}

#[test]
fn what_is_not_known_is_declined() {
    let options = [
        "--use_plain_table=true",
        "--mmap_read=true",
        "--prefix_size=8",
        "--compression_type=none",
    ];
    match engines::db_bench(&[&SMALL[..], &options].concat()) {
        Ok(sstable) => {
            let error = SsTable::open(&&sstable.bytes[..]).err();
            assert!(matches!(error, Some(Error::Unsupported(_))), "{error:?}");
        }
        Err(why) => skip(&why),
    }
}

/// Keys of 16 bytes, each with a timestamp of 8 bytes.
#[test]
fn timestamps_behind_the_keys() {
    for index in ["--partition_index=false", "--partition_index=true"] {
        let options = ["--user_timestamp_size=8", "--compression_type=none", index];
        match engines::db_bench(&[&SMALL[..], &options].concat()) {
            Ok(sstable) => {
                let bytes = &sstable.bytes[..];
                let opened = SsTable::open(&bytes).unwrap();
                assert_eq!(
                    opened.blocks().orders(),
                    Orders::only(Order::BytewiseTimestamped)
                );
                let checked = check(&sstable);
                assert!(checked.blocks > 80 && checked.keys > 1800, "{checked:?}");
            }
            Err(why) => return skip(&why),
        }
    }
}

/// All versions and index types that a current RocksDB writes. Some keys have several versions.
fn java_specifications() -> Vec<String> {
    let index_types = [
        "kBinarySearch",
        "kHashSearch",
        "kTwoLevelIndexSearch",
        "kBinarySearchWithFirstKey",
    ];
    let checksums = ["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"];
    let shortenings = [
        "kNoShortening",
        "kShortenSeparators",
        "kShortenSeparatorsAndSuccessor",
    ];
    let mut specifications = Vec::new();
    for version in 2..=7 {
        for index_type in index_types {
            for versions in [1, 30] {
                let at = specifications.len();
                let restarts = if index_type == "kHashSearch" {
                    1
                } else {
                    1 + at % 4
                };
                specifications.push(format!(
                    "t{at} format_version={version} index_type={index_type} versions={versions} \
                     seed={at} index_restart_interval={restarts} checksum={} shortening={} filter={}",
                    checksums[at % 5],
                    shortenings[at % 3],
                    at % 2,
                ));
            }
        }
    }
    let compressions = [
        "SNAPPY_COMPRESSION",
        "ZLIB_COMPRESSION",
        "BZLIB2_COMPRESSION",
        "LZ4_COMPRESSION",
        "LZ4HC_COMPRESSION",
        "ZSTD_COMPRESSION",
    ];
    for version in [6, 7] {
        for compression in compressions {
            specifications.push(format!(
                "{compression}-{version} format_version={version} compression={compression}"
            ));
        }
        for index_type in ["kBinarySearch", "kTwoLevelIndexSearch"] {
            for options in [
                "block_align=1",
                "block_size=2000 super_block_alignment=4096",
                "separate_key_value=1 versions=20",
                "uniform=100 keys=5000",
                "keys=1",
                // Only a range deletion: no data block at all.
                "keys=0",
            ] {
                let at = specifications.len();
                specifications.push(format!(
                    "t{at} format_version={version} index_type={index_type} {options}"
                ));
            }
        }
    }
    specifications
}

#[test]
fn every_version_and_index_type_of_rocksdb_11() {
    match engines::java(&java_specifications()) {
        Ok(sstables) => {
            let count = sstables.len();
            let empty = sstables.iter().filter(|sstable| {
                all(&SsTable::open(&&sstable.bytes[..]).unwrap())
                    .unwrap()
                    .is_empty()
            });
            assert_eq!(empty.count(), 4, "SSTables without a data block");
            let checked = check_all(sstables);
            assert_eq!(checked.sstables, count);
            assert!(checked.continued > 500, "{checked:?}");
        }
        Err(why) => skip(&why),
    }
}

/// An order with each kind of index.
fn specifications_of(order: &str) -> Vec<String> {
    let index_types = [
        "kBinarySearch",
        "kTwoLevelIndexSearch",
        "kBinarySearchWithFirstKey",
    ];
    // An application's comparator in Java shortens nothing.
    let shortenings: &[&str] = match order {
        "engine-reverse" => &[
            "kNoShortening",
            "kShortenSeparators",
            "kShortenSeparatorsAndSuccessor",
        ],
        _ => &["kShortenSeparators"],
    };
    let mut specifications = Vec::new();
    for index_type in index_types {
        for shortening in shortenings {
            for versions in [1, 30] {
                let at = specifications.len();
                specifications.push(format!(
                    "o{at} order={order} index_type={index_type} shortening={shortening} \
                     versions={versions} seed={at} keys=1000 index_restart_interval={}",
                    1 + at % 4
                ));
            }
        }
    }
    specifications
}

#[test]
fn an_order_is_seen_whatever_its_comparator_is_called() {
    let orders = [
        ("engine-reverse", Order::ReverseBytewise),
        ("bytewise", Order::Bytewise),
        ("reverse", Order::ReverseBytewise),
    ];
    for (name, order) in orders {
        match engines::java(&specifications_of(name)) {
            Ok(sstables) => {
                for sstable in &sstables {
                    let bytes = &sstable.bytes[..];
                    let opened = SsTable::open(&bytes).unwrap();
                    let named = opened.blocks().orders();
                    assert!(name != "engine-reverse" || named == Orders::only(order));
                    let (_, orders) = all_and_orders(&opened).unwrap();
                    assert_eq!(orders, Orders::only(order), "{}", sstable.name);
                }
                let checked = check_all(sstables);
                assert!(
                    checked.blocks > 300 && checked.continued > 50,
                    "{checked:?}"
                );
            }
            Err(why) => return skip(&why),
        }
    }
}

#[test]
fn an_order_that_is_neither_is_declined() {
    match engines::java(&specifications_of("length")) {
        Ok(sstables) => {
            for sstable in &sstables {
                let bytes = &sstable.bytes[..];
                let opened = SsTable::open(&bytes);
                let error = opened.and_then(|sstable| all(&sstable).map(|_| ())).err();
                assert!(
                    matches!(&error, Some(Error::Unsupported(what)) if what.contains("tests.Own")),
                    "{}: {error:?}",
                    sstable.name
                );
            }
        }
        Err(why) => skip(&why),
    }
}

/// One key fits every order. Two keys tell whether keys ascend or descend.
#[test]
fn one_key_fits_every_order() {
    match engines::java(&["one order=reverse keys=1".to_owned()]) {
        Ok(sstables) => {
            for sstable in &sstables {
                let bytes = &sstable.bytes[..];
                let opened = SsTable::open(&bytes).unwrap();
                let (blocks, orders) = all_and_orders(&opened).unwrap();
                assert!(blocks.len() == 1 && orders.have_both_directions());
            }
        }
        Err(why) => skip(&why),
    }
}

#[test]
fn tables_of_leveldb() {
    let mut sstables = Vec::new();
    for compression in [0, 1] {
        for [block_size, filter_bits] in [[256, 0], [1024, 10], [4096, 10]] {
            for versions in [1, 40] {
                match engines::leveldb([compression, block_size, filter_bits, 4000, versions]) {
                    Ok(sstable) => sstables.push(sstable),
                    Err(why) => return skip(&why),
                }
            }
        }
    }
    for sstable in &sstables {
        assert_eq!(
            SsTable::open(&&sstable.bytes[..]).unwrap().format(),
            Format::LevelDb
        );
    }
    let checked = check_all(sstables);
    assert!(checked.continued > 100, "{checked:?}");
}

#[test]
fn partitions_of_no_interest_are_not_read() {
    let sstable = match bench_sstable(&["--partition_index=true", "--num=100000"]) {
        Ok(sstable) => sstable,
        Err(why) => return skip(&why),
    };
    let source = Watched::new(&sstable.bytes);
    let opened = SsTable::open(&source).unwrap();
    let after_open = source.bytes_read();
    let blocks = all(&opened).unwrap();
    let whole_index = source.bytes_read() - after_open;

    let middle = &blocks[blocks.len() / 2];
    let before = source.bytes_read();
    let mut cursor = opened.blocks();
    cursor.seek(&middle.separator).unwrap();
    assert_eq!(kept(&mut cursor).unwrap().as_ref(), Some(middle));
    let by_key = source.bytes_read() - before;
    println!(
        "index of {whole_index} bytes, {} blocks; read for a key: {by_key}",
        blocks.len()
    );
    assert!(by_key < whole_index / 50);
}
