//! The handover between mapped SSTables, with real LevelDB. After a compaction the blocks of hot keys are in the
//! page cache, and few others are.

use coldstream_control::Counter;
use coldstream_sstable::rocksdb::SsTable;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{residency, tools};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

/// 80 hot keys: LevelDB compacts an SSTable by itself after a hundred reads that it answered in vain.
const KEYS: u64 = 8000;
const STRIDE: u64 = 100;
/// Heat is known after four looks, one a second.
const REST_SECONDS: u64 = 8;
/// The most attempts: the machine may reclaim pages.
const TRIES: u32 = 3;

/// Data pages of all SSTables in the page cache.
#[derive(Debug, Default)]
struct Found {
    pages: usize,
    hot_blocks: usize,
    warm_hot_blocks: usize,
    hot_pages: usize,
    /// Pages without a hot key.
    wasted_pages: usize,
}

fn find(database: &Path) -> Found {
    let mut found = Found::default();
    for entry in std::fs::read_dir(database).expect("read") {
        let path = entry.expect("entry").path();
        if path.extension().is_none_or(|extension| extension != "ldb") {
            continue;
        }
        let file = File::open(&path).expect("open");
        let resident = residency::resident_pages(&file);
        let table = SsTable::open(&file).expect("a table");
        let (mut hot_pages, mut data_pages) = (BTreeSet::new(), 0);
        let mut blocks = table.blocks();
        let mut ranges = Vec::new();
        while let Some(block) = blocks.next().expect("index") {
            ranges.push((block.offset, block.length));
        }
        for (offset, length) in ranges {
            let mut is_hot = false;
            let is_hot_key = |key: &[u8]| {
                let number: u64 = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
                number.is_multiple_of(STRIDE)
            };
            (table.user_keys(offset, length, |key| is_hot |= is_hot_key(key))).expect("a block");
            let pages = offset / 4096..(offset + length).div_ceil(4096);
            data_pages = pages.end as usize - 1;
            if is_hot {
                found.hot_blocks += 1;
                let is_warm = pages.clone().all(|page| resident[page as usize]);
                found.warm_hot_blocks += usize::from(is_warm);
                hot_pages.extend(pages);
            }
        }
        let cached = resident.iter().take(data_pages).enumerate();
        let wasted = cached.filter(|(page, there)| **there && !hot_pages.contains(&(*page as u64)));
        found.wasted_pages += wasted.count();
        found.hot_pages += hot_pages.len();
        found.pages += data_pages;
    }
    found
}

/// Compacts a new database, with a handover of so many milliseconds at most. Returns what is warm, and how many
/// handovers were cut short; `None` where LevelDB is not installed.
fn compacted(handover: &str, milliseconds: u32) -> Option<(Found, u64)> {
    tools::find_library("libleveldb.so")?;
    let directory = coldstream_testkit::directories::on_disk();
    let options = ["-lleveldb"];
    let program = tools::compile(
        "mapped_hot_keys.c",
        directory.path(),
        "mapped_hot_keys",
        &options,
    );
    let database = directory.path().join("database");
    let log = directory.path().join("log");
    let preload = Preload::logging_to(&log)
        .with("COLDSTREAM_HANDOVER", handover)
        .with("COLDSTREAM_HANDOVER_MILLISECONDS", milliseconds)
        .with("COLDSTREAM_READAHEAD", "scans-and-mapped");
    let mut running = Program::new(&program)
        .argument(&database)
        .arguments([KEYS, STRIDE, REST_SECONDS].map(|number| number.to_string()))
        .start_with(&preload);
    let client = StatusClient::of(running.process_id());
    let takes_heat = handover == "on";
    if takes_heat {
        running.wait_until(|| client.get(Counter::MappedLooks) > 0);
    }
    running.end().well();
    assert_eq!(client.get(Counter::MappedLooks) > 0, takes_heat);
    let found = find(&database);
    println!("{handover}: {found:?}");
    println!("{}", std::fs::read_to_string(&log).unwrap_or_default());
    Some((found, client.get(Counter::HandoverCutShort)))
}

#[test]
fn hot_blocks_of_mapped_sstables_stay_warm_and_few_others() {
    for attempt in 1..=TRIES {
        let Some((found, _)) = compacted("on", 60_000) else {
            return;
        };
        let is_warm = found.warm_hot_blocks * 100 >= found.hot_blocks * 99;
        let is_exact = found.wasted_pages <= 4 * found.hot_pages;
        if found.hot_blocks >= 80 && is_warm && is_exact {
            return;
        }
        assert!(attempt < TRIES, "{found:?}");
    }
}

/// Without it, LevelDB's outputs stay in the page cache as a whole.
#[test]
fn without_the_handover_all_of_an_output_is_cached() {
    if let Some((found, _)) = compacted("off", 60_000) {
        assert!(found.wasted_pages * 2 > found.pages, "{found:?}");
    }
}

#[test]
fn a_handover_without_time_is_counted() {
    if let Some((found, cut_short)) = compacted("on", 1) {
        assert!(cut_short > 0, "{found:?}");
    }
}
