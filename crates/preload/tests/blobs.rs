//! Blob files of real RocksDB. After a garbage collection the records of hot keys are in the page cache before the
//! first read, and few others are.

use coldstream_sstable::rocksdb::BlobRecords;
use coldstream_testkit::database::{make_cold, sstables};
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{directories, residency, tools};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The most attempts of a case.
const TRIES: u32 = 3;

/// A data set. Each of its keys has a value in a blob file.
struct Case {
    keys: u64,
    runs: u64,
    value_bytes: u64,
    /// Every so many keys one is hot.
    stride: u64,
    /// How many times everything is collected.
    passes: u32,
    options: &'static str,
}

const SCATTERED: Case = Case {
    keys: 10_000,
    runs: 2,
    value_bytes: 4000,
    stride: 20,
    passes: 1,
    options: "",
};

/// Records of the blob files, and their pages in the page cache.
#[derive(Debug, Default)]
struct Found {
    hot: usize,
    warm_hot: usize,
    records: usize,
    pages: usize,
    /// Pages of hot records.
    hot_pages: usize,
    /// Other pages in the page cache.
    wasted_pages: usize,
}

/// The blob files of a database.
fn blob_files(database: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(database).expect("read the database's directory");
    let paths = entries.map(|entry| entry.expect("entry").path());
    paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "blob")
        })
        .collect()
}

impl Case {
    fn options(&self) -> String {
        format!(
            "disable_auto_compactions=true;create_if_missing=true;write_buffer_size=1073741824;\
             enable_blob_files=true;enable_blob_garbage_collection=true;\
             blob_garbage_collection_age_cutoff=1.0;blob_file_size=16777216;{}\
             block_based_table_factory={{no_block_cache=true}}",
            self.options
        )
    }

    /// Writes the data set, and drops it from the page cache.
    fn load(&self, program: &Path, database: &Path) {
        Program::new(program)
            .argument("load")
            .argument(database)
            .arguments([
                &self.keys.to_string() as &str,
                &self.runs.to_string(),
                &self.value_bytes.to_string(),
                "0",
                &self.options(),
            ])
            .run()
            .well();
        make_cold(&[sstables(database), blob_files(database)].concat());
    }

    /// Reads the hot keys three times, then collects; `scan` reads all keys before.
    fn collection(&self, program: &Path, verb: &str, database: &Path) -> Program {
        Program::new(program)
            .argument(verb)
            .argument(database)
            .arguments([
                &self.keys.to_string() as &str,
                &self.stride.to_string(),
                "1",
                "3",
                &self.options(),
                "engine",
                &self.passes.to_string(),
            ])
    }

    fn find(&self, database: &Path) -> Found {
        let mut found = Found::default();
        // All files at once: the kernel may reclaim pages after the first look.
        let looked: Vec<_> = (blob_files(database).into_iter())
            .map(|path| {
                let resident = residency::resident_pages(&File::open(&path).expect("open"));
                (path, resident)
            })
            .collect();
        for (path, resident) in looked {
            let bytes = std::fs::read(path).expect("read");
            let mut hot_pages = BTreeSet::new();
            BlobRecords::of_file().pass(0, &bytes, |record| {
                found.records += 1;
                let key = &bytes[record.offset as usize + 32..record.value_offset as usize];
                let number: u64 = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
                if number.is_multiple_of(self.stride) {
                    let mut pages = record.offset / 4096..record.end.div_ceil(4096);
                    hot_pages.extend(pages.clone());
                    found.hot += 1;
                    found.warm_hot += usize::from(pages.all(|page| resident[page as usize]));
                }
            });
            found.pages += resident.len();
            found.hot_pages += hot_pages.len();
            let warm = resident
                .iter()
                .enumerate()
                .filter(|(_, is_there)| **is_there);
            found.wasted_pages += warm
                .filter(|(page, _)| !hot_pages.contains(&(*page as u64)))
                .count();
        }
        found
    }
}

/// The test program; `None` where RocksDB is not installed.
fn program(directory: &Path) -> Option<PathBuf> {
    tools::find_library("librocksdb.so")?;
    let libraries = ["-lrocksdb"];
    Some(tools::compile(
        "hot_keys.c",
        directory,
        "hot_keys",
        &libraries,
    ))
}

/// Collects a new database with the handover on or off.
fn collected(case: &Case, program: &Path, directory: &Path, handover: &str) -> (Found, ExitLog) {
    let (database, log) = (directory.join(handover), directory.join("log"));
    let _ = std::fs::remove_dir_all(&database);
    let _ = std::fs::remove_file(&log);
    case.load(program, &database);
    let before = blob_files(&database);
    let preload = Preload::logging_to(&log)
        .with("COLDSTREAM_HANDOVER", handover)
        .with("COLDSTREAM_HANDOVER_MILLISECONDS", 60_000)
        .with("COLDSTREAM_PRIORITY", "reads-first")
        .with("COLDSTREAM_WRITES", "direct");
    case.collection(program, "compact", &database)
        .run_with(&preload)
        .well();
    let found = case.find(&database);
    let log = ExitLog::read(&log);
    println!("{handover}: {found:?} {}", log.text);
    let after = blob_files(&database);
    assert!(after.iter().all(|path| !before.contains(path)), "{after:?}");
    assert_eq!(found.records as u64, case.keys);
    // Every value is there still: the engine verifies their checksums.
    case.collection(program, "scan", &database).run().well();
    (found, log)
}

fn assert_handed_over(case: &Case) {
    let directory = directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let (without, log) = collected(case, &program, directory.path(), "off");
    assert!(without.hot > 100, "{without:?}");
    let resident = without.warm_hot + without.wasted_pages;
    assert!(resident * 20 < without.pages, "not around: {without:?}");
    let data_bytes = case.keys * case.value_bytes * u64::from(case.passes);
    assert!(log.direct_bytes > data_bytes * 9 / 10, "{}", log.text);
    assert!(
        log.written_direct_bytes > data_bytes * 9 / 10,
        "{}",
        log.text
    );
    // A machine that reclaims pages by itself may take some before anybody looks.
    let is_exact = |found: &Found| {
        found.warm_hot * 100 >= found.hot * 99 && found.wasted_pages <= 2 * found.hot_pages
    };
    let mut founds = (0..TRIES).map(|_| collected(case, &program, directory.path(), "on").0);
    assert!(founds.any(|found| is_exact(&found)));
}

#[test]
fn scattered_records_of_two_blob_files() {
    assert_handed_over(&SCATTERED);
}

/// Four or five of them begin in a page, and which of these was read is not known.
#[test]
fn short_records() {
    assert_handed_over(&Case {
        keys: 40_000,
        value_bytes: 900,
        stride: 40,
        ..SCATTERED
    });
}

#[test]
fn long_records() {
    assert_handed_over(&Case {
        keys: 1_000,
        value_bytes: 40_000,
        stride: 5,
        ..SCATTERED
    });
}

/// The engine reads ahead: records begin anywhere in what it reads.
#[test]
fn records_in_readahead() {
    assert_handed_over(&Case {
        options: "blob_compaction_readahead_size=300000;",
        ..SCATTERED
    });
}

#[test]
fn compressed_records_in_several_threads() {
    assert_handed_over(&Case {
        options: "blob_compression_type=kLZ4Compression;max_subcompactions=3;max_background_jobs=4;",
        ..SCATTERED
    });
}

/// Nobody reads between them.
#[test]
fn collections_in_a_row() {
    assert_handed_over(&Case {
        passes: 3,
        ..SCATTERED
    });
}
