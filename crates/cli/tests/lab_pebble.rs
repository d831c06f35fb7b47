//! `coldstream lab pebble` on a real Pebble that is too small to mean anything.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::Bound;
use std::path::Path;

use coldstream_sstable::rocksdb::{Format, SsTable};
use coldstream_testkit::process::Ended;

mod lab_drivers;

use lab_drivers::{check_first_pass, check_overload, check_runs};

/// The laboratory on Pebble. `None` where the driver is not built.
fn lab(directory: &Path, words: &[&str]) -> Option<Ended> {
    lab_drivers::lab("pebble", directory, words)
}

fn report_of(directory: &Path, words: &[&str]) -> Option<serde_json::Value> {
    lab_drivers::report_of("pebble", directory, words)
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory")
}

#[test]
fn pebble_compacts_all_the_time_while_every_value_is_right() {
    let directory = scratch();
    let words = [
        "--modes",
        "buffered,drop-all@cache_size=16777216",
        "--update-mib-per-second",
        "16",
        "--compaction-seconds",
        "4",
        "--verify",
    ];
    let Some(report) = report_of(directory.path(), &words) else {
        return;
    };
    let engine = report["engine"].as_str().expect("a name");
    assert!(engine.starts_with("Pebble "), "{engine}");
    let figures = [
        "compacted_read_bytes",
        "compacted_written_bytes",
        "user_written_bytes",
        "updates_per_second",
        "compaction_cpu_seconds",
    ];
    check_runs(&report, 2, &figures);
    for mode in 0..2 {
        // What cannot be told apart is not told.
        let run = &report["cases"][0]["runs"][mode][0];
        assert_eq!(run["compaction_engine_cpu_seconds"].as_f64(), Some(0.0));
    }
    assert!(!directory.path().join("work").exists());
}

#[test]
fn reads_of_pebble_that_no_reader_starts_count_when_they_are_due() {
    check_overload("pebble", scratch().path());
}

#[test]
fn a_first_pass_over_pebble_tells_what_it_has_read() {
    check_first_pass("pebble", scratch().path(), None);
}

#[test]
fn a_manual_compaction_of_pebble_ends_its_phase() {
    let directory = scratch();
    let words = [
        "--modes",
        "buffered",
        "--update-mib-per-second",
        "0",
        "--verify",
    ];
    let Some(report) = report_of(directory.path(), &words) else {
        return;
    };
    let read_bytes = &report["cases"][0]["runs"][0][0]["compacted_read_bytes"];
    // Two sorted runs.
    assert!(read_bytes.as_u64() > Some(2 * 12000 * 4096), "{report}");
}

/// `coldstream attach` reads the index of Pebble's SSTables. A database keeps old formats until it asks for a new one.
#[test]
fn every_key_of_pebbles_sstables_is_in_the_block_that_the_index_says() {
    // `format_major_version` of Pebble 2.1, and the table format that it writes then; the last is the newest.
    let versions = [(13, 2), (15, 4), (19, 5), (21, 6), (24, 7)];
    std::thread::scope(|scope| {
        for (version, table_format) in versions {
            scope.spawn(move || check_version(version, Format::Pebble { table_format }));
        }
    });
}

/// Checks a data set of this `format_major_version`.
fn check_version(version: u32, format: Format) {
    let directory = scratch();
    let engine_options = format!("format_major_version={version}");
    let words = ["--modes", "buffered", "--keep", "--update-mib-per-second"];
    let words = [&words[..], &["0", "--engine-options", &engine_options]].concat();
    if report_of(directory.path(), &words).is_some() {
        let data = directory.path().join("work/dataset-pebble-12000x4096");
        check_index(&data, format);
    }
}

/// Checks every key of a data set of 12,000.
fn check_index(data: &Path, format: Format) {
    let mut keys = BTreeSet::new();
    for entry in fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "sst") {
            continue;
        }
        let file = File::open(&path).unwrap();
        let sstable = SsTable::open(&file).unwrap();
        assert_eq!(sstable.format(), format);
        let mut blocks = sstable.blocks();
        let mut count = 0;
        while let Some(block) = blocks.next().unwrap() {
            let (lower, separator) = (block.lower.map(<[u8]>::to_vec), block.separator.to_vec());
            let mut versions = 0;
            let visit = |key: &[u8]| {
                versions += 1;
                let is_behind = match &lower {
                    Bound::Unbounded => true,
                    Bound::Included(lower) => key >= lower.as_slice(),
                    Bound::Excluded(lower) => key > lower.as_slice(),
                };
                assert!(is_behind && key <= separator.as_slice(), "{path:?}");
                keys.insert(key.to_vec());
            };
            sstable
                .user_keys(block.offset, block.length, visit)
                .unwrap();
            assert!(versions > 0);
            count += 1;
        }
        assert_eq!(sstable.properties().data_blocks, Some(count));
    }
    assert_eq!(keys.len(), 12_000);
}

#[test]
fn an_option_that_pebble_does_not_know_is_named_before_anything_is_loaded() {
    let directory = scratch();
    let words = ["--modes", "buffered,buffered@no_such_option=1"];
    let Some(ended) = lab(directory.path(), &words) else {
        return;
    };
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{said}");
    assert!(said.contains("no_such_option"), "{said}");
    assert!(!directory.path().join("work").exists());
}
