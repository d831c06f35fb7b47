//! A data set with hot keys, and what of it is warm after a compaction.

use coldstream_sstable::rocksdb::SsTable;
use coldstream_testkit::database::{make_cold, sstables};
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{residency, tools};
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most attempts of a case.
pub const TRIES: u32 = 3;

/// Bytes of a key of the test program, without its timestamp.
pub const KEY_BYTES: usize = 16;

/// Commands of the test program that write a data set.
pub const FLUSHED: &str = "load";
pub const AGED: &str = "age";
pub const INGESTED: &str = "ingest";
/// Those that read, and compact. `SCANNED`: all keys once before, in order. `CACHED`: the hot keys once before, and only
/// the block cache knows it.
pub const READ: &str = "compact";
pub const SCANNED: &str = "scan";
pub const CACHED: &str = "cached";
/// As `READ`, and goes on with the database open.
pub const STAYING: &str = "stay";

/// A data set and its hot keys.
pub struct Case<'a> {
    pub keys: u64,
    pub runs: u64,
    pub value_bytes: u64,
    pub overwrite: bool,
    /// The first `hot` of every `stride` keys are hot. Each is read `reads` times.
    pub stride: u64,
    pub hot: u64,
    pub reads: u32,
    /// How many times everything is compacted.
    pub passes: u32,
    /// What is read before the compaction.
    pub read: &'static str,
    /// The least share of hot blocks that are warm afterwards.
    pub warm_percent: usize,
    /// How the runs are written. `AGED`: the last one is some seconds younger than the earlier ones.
    pub written: &'static str,
    /// The comparator: the engine's, or the test program's own.
    pub order: &'static str,
    /// Options of the SSTables and of the database.
    pub table_options: &'a str,
    pub options: &'static str,
}

/// Pages of the outputs' data in the page cache.
#[derive(Debug, Default)]
pub struct Found {
    pub hot_blocks: usize,
    pub warm_hot_blocks: usize,
    /// Pages of blocks with hot keys.
    pub hot_pages: usize,
    /// Other pages.
    pub wasted_pages: usize,
    /// Pages of indexes and filters, and those of them that are cached.
    pub metadata_pages: usize,
    pub warm_metadata_pages: usize,
    pub tables: usize,
    /// Whether the key ranges of some outputs overlap.
    pub tables_overlap: bool,
}

impl Case<'_> {
    pub fn is_aged(&self) -> bool {
        self.written == AGED
    }

    pub fn options(&self) -> String {
        format!(
            "disable_auto_compactions=true;create_if_missing=true;write_buffer_size=1073741824;\
             target_file_size_base=16777216;\
             {}block_based_table_factory={{{};{}}}",
            self.options,
            if self.read == CACHED {
                "block_cache=67108864"
            } else {
                "no_block_cache=true"
            },
            self.table_options
        )
    }

    /// Loads the data set, and drops it from the page cache.
    pub fn load(&self, program: &Path, directory: &Path) {
        Program::new(program)
            .argument(self.written)
            .argument(directory)
            .arguments([
                &self.keys.to_string() as &str,
                &self.runs.to_string(),
                &self.value_bytes.to_string(),
                if self.overwrite { "1" } else { "0" },
                &self.options(),
                self.order,
            ])
            .run()
            .well();
        make_cold(&sstables(directory));
    }

    /// Reads the hot keys, then compacts.
    pub fn compaction(&self, program: &Path, directory: &Path) -> Program {
        Program::new(program)
            .argument(self.read)
            .argument(directory)
            .arguments(self.uses())
    }

    /// What is read, and how often all is compacted, as arguments of the test program.
    pub fn uses(&self) -> [String; 7] {
        [
            self.keys.to_string(),
            self.stride.to_string(),
            self.hot.to_string(),
            self.reads.to_string(),
            self.options(),
            self.order.to_owned(),
            self.passes.to_string(),
        ]
    }

    pub fn is_hot(&self, key: &[u8]) -> bool {
        let (key, time) = key.split_at(KEY_BYTES);
        let number: u64 = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
        let is_newest = time
            .first()
            .is_none_or(|time| u64::from(*time) == self.runs);
        number % self.stride < self.hot && is_newest
    }

    pub fn find(&self, directory: &Path) -> Found {
        let mut found = Found::default();
        let mut ranges = Vec::new();
        // All files at once: the kernel may reclaim pages after the first look.
        let looked: Vec<_> = (sstables(directory).iter())
            .map(|path| {
                let file = File::open(path).expect("open");
                let resident = residency::resident_pages(&file);
                (file, resident)
            })
            .collect();
        for (file, resident) in looked {
            found.tables += 1;
            let table = SsTable::open(&file).expect("a table");
            let data_bytes = table.properties().data_bytes.expect("RocksDB's table");
            let mut hot_pages = BTreeSet::new();
            let mut blocks: Vec<Range<u64>> = Vec::new();
            let mut cursor = table.blocks();
            while let Some(block) = cursor.next().expect("index") {
                blocks.push(block.offset..block.offset + block.length);
            }
            let mut keys: Option<[Vec<u8>; 2]> = None;
            for block in blocks {
                let mut is_hot = false;
                table
                    .user_keys(block.start, block.end - block.start, |key| {
                        is_hot |= self.is_hot(key);
                        let [least, most] =
                            keys.get_or_insert_with(|| [key.to_vec(), key.to_vec()]);
                        *least = key.to_vec().min(std::mem::take(least));
                        *most = key.to_vec().max(std::mem::take(most));
                    })
                    .expect("data block");
                if is_hot {
                    let pages = block.start / 4096..block.end.div_ceil(4096);
                    found.hot_blocks += 1;
                    let is_warm = pages.clone().all(|page| resident[page as usize]);
                    found.warm_hot_blocks += usize::from(is_warm);
                    hot_pages.extend(pages);
                }
            }
            found.hot_pages += hot_pages.len();
            // Opening an SSTable reads the index behind the data.
            let data_pages = resident.iter().take(data_bytes as usize / 4096);
            found.wasted_pages += data_pages
                .enumerate()
                .filter(|(page, is_there)| **is_there && !hot_pages.contains(&(*page as u64)))
                .count();
            let metadata = resident.get(data_bytes.div_ceil(4096) as usize..);
            let metadata = metadata.unwrap_or_default();
            found.metadata_pages += metadata.len();
            found.warm_metadata_pages += metadata.iter().filter(|is_there| **is_there).count();
            ranges.extend(keys);
        }
        ranges.sort();
        let mut neighbours = ranges.windows(2);
        found.tables_overlap = neighbours.any(|both| both[1][0] <= both[0][1]);
        found
    }
}

/// The test program; `None` where RocksDB is not installed.
pub fn program(directory: &Path) -> Option<PathBuf> {
    tools::find_library("librocksdb.so")?;
    Some(tools::compile(
        "hot_keys.c",
        directory,
        "hot_keys",
        &["-lrocksdb"],
    ))
}

/// A library that warms what is hot, however slow and busy the machine is.
pub fn exact(preload: Preload, handover: &str) -> Preload {
    // A slow device takes longer over it than a database should wait. And an output would be left in
    // the page cache, without the handover, if the first blocks that its thread gets happen to
    // be cached.
    preload
        .with("COLDSTREAM_HANDOVER", handover)
        .with("COLDSTREAM_HANDOVER_MILLISECONDS", 60_000)
        // Handovers are limited while the processors are saturated, for instance by other tests.
        .with("COLDSTREAM_PRIORITY", "reads-first")
        .with("COLDSTREAM_WRITES", "direct")
}

/// Runs a program with the handover on or off, and reads its log.
pub fn run_logged(program: &Program, handover: &str, log: &Path) -> ExitLog {
    let _ = std::fs::remove_file(log);
    let preload = exact(Preload::logging_to(log), handover);
    program.run_with(&preload).well();
    let log = ExitLog::read(log);
    println!("{}", log.text);
    log
}

/// The pages found after the compaction of a new database, with the handover on or off.
pub fn compacted(case: &Case<'_>, program: &Path, directory: &Path, handover: &str) -> Found {
    let database = directory.join(handover);
    let log = directory.join("log");
    let _ = std::fs::remove_dir_all(&database);
    case.load(program, &database);
    let log = run_logged(&case.compaction(program, &database), handover, &log);
    if case.read == CACHED {
        let is_counted = log.text.contains(" handover_block_cache_bytes=");
        assert_eq!(is_counted, handover == "on", "{}", log.text);
    }
    let found = case.find(&database);
    println!("{handover}: {found:?}");
    found
}

/// The pages found without and with the handover.
pub fn without_and_with(case: &Case<'_>) -> Option<[Found; 2]> {
    let directory = coldstream_testkit::directories::on_disk();
    let program = program(directory.path())?;
    Some(["off", "on"].map(|handover| compacted(case, &program, directory.path(), handover)))
}

impl Found {
    pub fn warm_pages(&self) -> usize {
        self.hot_pages + self.wasted_pages
    }

    pub fn is_warm(&self) -> bool {
        self.has_warm(99)
    }

    /// Whether so many percent of the hot blocks are warm.
    pub fn has_warm(&self, percent: usize) -> bool {
        self.warm_hot_blocks * 100 >= self.hot_blocks * percent
    }
}

pub fn assert_handed_over(case: &Case<'_>) {
    let mut tries = 0;
    let [without, with] = loop {
        let Some(both) = without_and_with(case) else {
            return;
        };
        tries += 1;
        // A machine that reclaims pages by itself may take some before anybody looks, and on a busy one
        // what was young is not by then.
        if tries == TRIES
            || (both[1].has_warm(case.warm_percent) && both[1].tables_overlap == case.is_aged())
        {
            break both;
        }
        println!("once more: {:?}", both[1]);
    };
    assert!(without.hot_blocks > 100, "{without:?}");
    assert!(
        without.warm_hot_blocks * 10 < without.hot_blocks,
        "it is warm anyway: {without:?}"
    );
    assert!(with.has_warm(case.warm_percent), "{with:?}");
    assert_eq!(with.tables_overlap, case.is_aged(), "{with:?}");
    assert!(with.wasted_pages <= 2 * with.hot_pages, "{with:?}");
}

pub const FILTER: &str = "filter_policy=bloomfilter:10:false";

pub const SCATTERED: Case<'static> = Case {
    keys: 20_000,
    runs: 2,
    value_bytes: 4000,
    overwrite: false,
    stride: 20,
    hot: 1,
    reads: 3,
    passes: 1,
    read: READ,
    warm_percent: 99,
    written: FLUSHED,
    order: "engine",
    table_options: "block_size=4096",
    options: "",
};

pub const SMALL: Case<'static> = Case {
    keys: 10_000,
    ..SCATTERED
};
