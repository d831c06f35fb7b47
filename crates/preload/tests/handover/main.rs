//! The handover with real RocksDB. After a compaction the blocks of hot keys are in the page cache before the
//! first read, and few others are.

use coldstream_control::{Counter, Mechanism, Outcome};
use coldstream_sstable::rocksdb::SsTable;
use coldstream_testkit::database::{make_cold, sstables};
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{files, memory_cgroup, residency, tools};
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most attempts of a case.
const TRIES: u32 = 3;

/// Bytes of a key of the test program, without its timestamp.
const KEY_BYTES: usize = 16;

/// Commands of the test program that write a data set.
const FLUSHED: &str = "load";
const AGED: &str = "age";
const INGESTED: &str = "ingest";
/// Those that read, and compact. `SCANNED`: all keys once before, in order. `CACHED`: the hot keys once before, and only
/// the block cache knows it.
const READ: &str = "compact";
const SCANNED: &str = "scan";
const CACHED: &str = "cached";

/// A data set and its hot keys.
struct Case<'a> {
    keys: u64,
    runs: u64,
    value_bytes: u64,
    overwrite: bool,
    /// The first `hot` of every `stride` keys are hot. Each is read `reads` times.
    stride: u64,
    hot: u64,
    reads: u32,
    /// How many times everything is compacted.
    passes: u32,
    /// What is read before the compaction.
    read: &'static str,
    /// The least share of hot blocks that are warm afterwards.
    warm_percent: usize,
    /// How the runs are written. `AGED`: the last one is some seconds younger than the earlier ones.
    written: &'static str,
    /// The comparator: the engine's, or the test program's own.
    order: &'static str,
    /// Options of the SSTables and of the database.
    table_options: &'a str,
    options: &'static str,
}

/// Pages of the outputs' data in the page cache.
#[derive(Debug, Default)]
struct Found {
    hot_blocks: usize,
    warm_hot_blocks: usize,
    /// Pages of blocks with hot keys.
    hot_pages: usize,
    /// Other pages.
    wasted_pages: usize,
    tables: usize,
    /// Whether the key ranges of some outputs overlap.
    tables_overlap: bool,
}

impl Case<'_> {
    fn is_aged(&self) -> bool {
        self.written == AGED
    }

    fn options(&self) -> String {
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
    fn load(&self, program: &Path, directory: &Path) {
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
    fn compaction(&self, program: &Path, directory: &Path) -> Program {
        Program::new(program)
            .argument(self.read)
            .argument(directory)
            .arguments(self.uses())
    }

    /// What is read, and how often all is compacted, as arguments of the test program.
    fn uses(&self) -> [String; 7] {
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

    fn is_hot(&self, key: &[u8]) -> bool {
        let (key, time) = key.split_at(KEY_BYTES);
        let number: u64 = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
        let is_newest = time
            .first()
            .is_none_or(|time| u64::from(*time) == self.runs);
        number % self.stride < self.hot && is_newest
    }

    fn find(&self, directory: &Path) -> Found {
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
            ranges.extend(keys);
        }
        ranges.sort();
        let mut neighbours = ranges.windows(2);
        found.tables_overlap = neighbours.any(|both| both[1][0] <= both[0][1]);
        found
    }
}

/// The test program; `None` where RocksDB is not installed.
fn program(directory: &Path) -> Option<PathBuf> {
    tools::find_library("librocksdb.so")?;
    Some(tools::compile(
        "hot_keys.c",
        directory,
        "hot_keys",
        &["-lrocksdb"],
    ))
}

/// A library that warms what is hot, however slow and busy the machine is.
fn exact(preload: Preload, handover: &str) -> Preload {
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

/// The pages found after the compaction of a new database, with the handover on or off.
fn compacted(case: &Case<'_>, program: &Path, directory: &Path, handover: &str) -> Found {
    let database = directory.join(handover);
    let log = directory.join("log");
    let _ = std::fs::remove_dir_all(&database);
    case.load(program, &database);
    let preload = exact(Preload::logging_to(&log), handover);
    case.compaction(program, &database)
        .run_with(&preload)
        .well();
    let found = case.find(&database);
    println!("{handover}: {found:?}");
    println!("{}", std::fs::read_to_string(&log).unwrap_or_default());
    found
}

/// The pages found without and with the handover.
fn without_and_with(case: &Case<'_>) -> Option<[Found; 2]> {
    let directory = coldstream_testkit::directories::on_disk();
    let program = program(directory.path())?;
    Some(["off", "on"].map(|handover| compacted(case, &program, directory.path(), handover)))
}

impl Found {
    fn warm_pages(&self) -> usize {
        self.hot_pages + self.wasted_pages
    }

    fn is_warm(&self) -> bool {
        self.has_warm(99)
    }

    /// Whether so many percent of the hot blocks are warm.
    fn has_warm(&self, percent: usize) -> bool {
        self.warm_hot_blocks * 100 >= self.hot_blocks * percent
    }
}

fn assert_handed_over(case: &Case<'_>) {
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

const FILTER: &str = "filter_policy=bloomfilter:10:false";

const SCATTERED: Case<'static> = Case {
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

const SMALL: Case<'static> = Case {
    keys: 10_000,
    ..SCATTERED
};

#[test]
fn scattered_keys_of_two_interleaved_runs() {
    assert_handed_over(&SCATTERED);
}

/// Only the newest version of a key is read. Only its range of the output is warmed.
#[test]
fn keys_that_were_overwritten() {
    assert_handed_over(&Case {
        keys: 40_000,
        runs: 3,
        value_bytes: 400,
        overwrite: true,
        stride: 100,
        hot: 1,
        reads: 3,
        passes: 1,
        read: READ,
        warm_percent: 99,
        written: FLUSHED,
        order: "engine",
        table_options: "block_size=4096;index_type=kTwoLevelIndexSearch;metadata_block_size=1024",
        options: "compression=kLZ4Compression;",
    });
}

#[test]
fn neighbouring_keys_of_many_runs_behind_filters() {
    assert_handed_over(&Case {
        keys: 200_000,
        runs: 5,
        value_bytes: 200,
        overwrite: false,
        stride: 20_000,
        hot: 2_000,
        reads: 3,
        passes: 1,
        read: READ,
        warm_percent: 99,
        written: FLUSHED,
        order: "engine",
        table_options: "block_size=16384;filter_policy=bloomfilter:10:false",
        options: "",
    });
}

#[test]
fn subcompactions_in_several_threads() {
    assert_handed_over(&Case {
        keys: 60_000,
        runs: 2,
        value_bytes: 1000,
        overwrite: true,
        stride: 50,
        hot: 2,
        reads: 3,
        passes: 1,
        read: READ,
        warm_percent: 99,
        written: FLUSHED,
        order: "engine",
        table_options: "block_size=4096;data_block_index_type=kDataBlockBinaryAndHash",
        options: "max_subcompactions=3;max_background_jobs=4;",
    });
}

/// The compaction thread writes young keys to an SSTable of the last but one level, and old keys to one of
/// the last level.
#[test]
fn young_and_old_keys_side_by_side() {
    assert_handed_over(&Case {
        written: AGED,
        options: "compaction_style=kCompactionStyleUniversal;num_levels=5;\
                  preclude_last_level_data_seconds=8;",
        ..SCATTERED
    });
}

#[test]
fn universal_compaction() {
    assert_handed_over(&Case {
        runs: 4,
        options: "compaction_style=kCompactionStyleUniversal;num_levels=5;",
        ..SMALL
    });
}

/// It merges SSTables of level 0 into one that stays there.
#[test]
fn fifo_compaction() {
    assert_handed_over(&Case {
        runs: 4,
        options: "compaction_style=kCompactionStyleFIFO;num_levels=1;level0_file_num_compaction_trigger=2;\
                  compaction_options_fifo={allow_compaction=true;max_table_files_size=10737418240};",
        ..SMALL
    });
}

/// The inputs were written by the application, and their names are RocksDB's only since they were ingested.
#[test]
fn sstables_that_were_ingested() {
    assert_handed_over(&Case {
        written: INGESTED,
        ..SMALL
    });
}

/// `CompactFiles` compacts in the thread that calls it, whose name tells nothing.
#[test]
fn compact_files_in_a_foreground_thread() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let output = directory.path().join("compact_files");
    let options = ["-std=c++17", "-lrocksdb"];
    let compiled = tools::compile_by(Path::new("c++"), "compact_files.cc", &output, &options);
    let compact_files = compiled.unwrap_or_else(|ended| panic!("{ended:?}"));
    let (database, log) = (directory.path().join("one"), directory.path().join("log"));
    let run = |handover: &str, way: &str| {
        let _ = (
            std::fs::remove_dir_all(&database),
            std::fs::remove_file(&log),
        );
        let case = Case {
            options: match way {
                "subcompactions" => "max_subcompactions=3;",
                _ => "",
            },
            ..SCATTERED
        };
        case.load(&program, &database);
        let preload = exact(Preload::logging_to(&log), handover);
        case.compaction(&compact_files, &database)
            .run_with(&preload)
            .well();
        let found = case.find(&database);
        let log = ExitLog::read(&log);
        println!("{handover} {way}: {found:?} {}", log.text);
        let scan = Case {
            read: SCANNED,
            ..case
        };
        scan.compaction(&program, &database).run().well();
        (found, log)
    };
    for way in ["", "subcompactions"] {
        let (without, log) = run("off", way);
        assert!(without.warm_hot_blocks * 10 < without.hot_blocks);
        let data_bytes = SCATTERED.keys * SCATTERED.value_bytes;
        assert!(log.written_direct_bytes > data_bytes * 9 / 10);
        assert!(log.direct_bytes > data_bytes * 9 / 10);
        let is_exact = |found: &Found| found.is_warm() && found.wasted_pages <= 2 * found.hot_pages;
        assert!((0..TRIES).any(|_| is_exact(&run("on", way).0)));
    }
}

/// A thread that is inside of a compaction, as in [`compact_files_in_a_foreground_thread`], reads the inputs. Whatever
/// else it reads stays in the foreground.
#[test]
fn a_new_sstable_alone_makes_no_background_thread() {
    let directory = coldstream_testkit::directories::on_disk();
    let inside = tools::compile("inside.c", directory.path(), "inside", &[]);
    let log = directory.path().join("log");
    let elsewhere = directory.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("mkdir");
    for (new, old, reads, is_background) in [
        ("000009.sst", "000001.sst", "sequence", true),
        ("000009.sst", "000001.sst", "points", false),
        ("000009.sst", "elsewhere/000001.sst", "sequence", false),
        // RocksDB's writes of clients make blob files, too (`enable_blob_direct_write`).
        ("000009.blob", "000001.sst", "sequence", false),
        ("built.sst", "000001.sst", "sequence", false),
    ] {
        let [new_path, old_path] = [new, old].map(|name| directory.path().join(name));
        files::create(&old_path, 7, 8 << 20);
        make_cold(std::slice::from_ref(&old_path));
        let run = || {
            let _ = (std::fs::remove_file(&log), std::fs::remove_file(&new_path));
            Program::new(&inside)
                .arguments([new_path.as_os_str(), old_path.as_os_str()])
                .argument(reads)
        };
        let plain = run().run().well().text();
        let plain_output = std::fs::read(&new_path).expect("read");
        make_cold(std::slice::from_ref(&old_path));
        let with = run()
            .run_with(&exact(Preload::logging_to(&log), "on"))
            .well();
        assert_eq!(with.text(), plain, "{new} {old} {reads}");
        assert!(std::fs::read(&new_path).expect("read") == plain_output);
        let log = ExitLog::read(&log);
        println!("{new} {old} {reads}: {}", log.text);
        let moved = [log.direct_bytes, log.written_direct_bytes];
        match is_background {
            true => assert!(moved.iter().all(|moved| *moved > 7 << 20), "{moved:?}"),
            false => assert_eq!(moved, [0, 0], "{new} {old} {reads}"),
        }
    }
}

/// As in Kafka Streams: the databases share the threads of compactions.
#[test]
fn several_databases_in_one_process() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let databases = ["one", "two", "three"].map(|name| directory.path().join(name));
    let founds = (0..TRIES).map(|_| {
        for database in &databases {
            let _ = std::fs::remove_dir_all(database);
            SMALL.load(&program, database);
        }
        let paths = databases.each_ref().map(|path| path.to_str().unwrap());
        (SMALL.compaction(&program, Path::new(&paths.join(":"))))
            .run_with(&exact(Preload::quiet(), "on"))
            .well();
        databases.each_ref().map(|path| SMALL.find(path))
    });
    let is_exact = |found: &Found| {
        println!("{found:?}");
        found.is_warm() && found.wasted_pages <= found.hot_pages
    };
    let mut founds = founds.map(|founds| founds.iter().all(is_exact));
    assert!(founds.any(|are_exact| are_exact));
}

/// RocksDB's own comparators but the usual one.
#[test]
fn keys_in_reverse_order() {
    assert_handed_over(&Case {
        options: "comparator=rocksdb.ReverseBytewiseComparator;",
        ..SCATTERED
    });
}

/// The application's comparator has a name of its own, as MyRocks has. Nothing but the keys shows the order.
#[test]
fn an_own_comparator_in_bytewise_order() {
    assert_handed_over(&Case {
        order: "bytewise",
        ..SCATTERED
    });
}

#[test]
fn an_own_comparator_in_reverse_order() {
    assert_handed_over(&Case {
        order: "reverse",
        table_options: "block_size=4096;index_type=kTwoLevelIndexSearch;metadata_block_size=1024;\
                        filter_policy=bloomfilter:10:false",
        ..SCATTERED
    });
}

/// Each key has three timestamps, and the newest one is read.
#[test]
fn an_own_comparator_with_timestamps() {
    assert_handed_over(&Case {
        keys: 10_000,
        runs: 3,
        value_bytes: 1000,
        overwrite: true,
        order: "timestamps",
        ..SCATTERED
    });
}

/// The handover declines an order that is neither, and says so. The compaction is not disturbed.
#[test]
fn an_order_that_is_neither_is_declined() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let case = Case {
        order: "backwards",
        ..SCATTERED
    };
    let database = directory.path().join("database");
    case.load(&program, &database);
    let preload = Preload::quiet().with("COLDSTREAM_WRITES", "direct");
    let running = case.compaction(&program, &database).start_with(&preload);
    let client = StatusClient::of(running.process_id());
    running.end().well();
    let snapshot = client.snapshot();
    println!("{snapshot:?}");
    assert!(snapshot.get(Counter::HandoverDeclined) > 0);
    assert_eq!(snapshot.get(Counter::HandoverFailed), 0);
    assert_eq!(snapshot.get(Counter::HandoverPagesWarmed), 0);
    let declined: Vec<_> = snapshot.declined().collect();
    let [declined] = declined[..] else {
        panic!("{declined:?}");
    };
    let directory = database.canonicalize().expect("the database");
    assert_eq!(Path::new(&declined.directory()), directory);
    assert!(declined.reason().contains("test.backwards"), "{declined:?}");
    // Every key is there still.
    let scan = Case {
        read: SCANNED,
        ..case
    };
    scan.compaction(&program, &database).run().well();
}

/// Nobody reads the hot blocks from the file: the block cache has them. The compaction skips them, and this tells.
#[test]
fn what_the_block_cache_has_is_warm_in_the_output() {
    assert_handed_over(&Case {
        read: CACHED,
        reads: 1,
        ..SCATTERED
    });
}

/// What fills up the blocks is not read either, and tells nothing.
#[test]
fn aligned_blocks() {
    assert_handed_over(&Case {
        keys: 100_000,
        runs: 1,
        value_bytes: 400,
        stride: 200,
        table_options: "block_size=4096;block_align=true",
        options: "compression=kNoCompression;",
        ..SCATTERED
    });
}

/// A program that reads everything once, a backup for example, makes nothing hot.
#[test]
fn what_a_scan_has_passed_is_not_warmed() {
    assert_handed_over(&Case {
        read: SCANNED,
        warm_percent: 95,
        ..SCATTERED
    });
}

/// Compactions in a row, and nobody reads between them. Each one warms the hot blocks, and no more pages than the
/// first one.
#[test]
fn hot_blocks_stay_warm_through_compactions_in_a_row() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    for (runs, filter) in [(1, ""), (2, ""), (2, FILTER)] {
        let mut warm_at_first = usize::MAX;
        for passes in 1..=3 {
            let case = Case {
                keys: 100_000,
                runs,
                value_bytes: 192,
                stride: 499,
                reads: 1,
                passes,
                table_options: &format!("block_size=4096;{filter}"),
                options: "target_file_size_base=4194304;",
                ..SCATTERED
            };
            let found = (0..TRIES)
                .map(|_| compacted(&case, &program, directory.path(), "on"))
                .find(Found::is_warm);
            let Some(found) = found else {
                panic!("{runs} runs, {filter:?}, after pass {passes}");
            };
            let (warm, hot) = (found.warm_pages(), found.hot_pages);
            println!(
                "{runs} runs, {filter:?}, after pass {passes}: {} of {} hot blocks, {warm} pages for {hot}",
                found.warm_hot_blocks, found.hot_blocks
            );
            // A hot block's keys lie in so many blocks of the output, and in one more at the edge.
            assert!(warm <= hot * (runs as usize + 1));
            assert!(
                warm * 100 <= warm_at_first.saturating_mul(105),
                "{warm_at_first}"
            );
            warm_at_first = warm_at_first.min(warm);
        }
    }
}

/// Reads `case`'s hot keys in turn and compacts, again and again, in a memory cgroup that holds a fifth of the data.
/// Returns the log; `None` where that is not possible.
fn rounds(case: &Case<'_>) -> Option<ExitLog> {
    let directory = coldstream_testkit::directories::on_disk();
    let program = program(directory.path())?;
    let cgroup = memory_cgroup(ROUNDS_LIMIT_BYTES)?;
    let (database, log) = (
        directory.path().join("database"),
        directory.path().join("log"),
    );
    case.load(&program, &database);
    let enter = format!("echo $$ > {}", cgroup.processes_file().display());
    Program::new("/bin/sh")
        .arguments(["-c", &format!("{enter} && exec \"$@\""), "enter"])
        .argument(&program)
        .argument("rounds")
        .argument(&database)
        .arguments(case.uses())
        .run_with(&exact(Preload::logging_to(&log), "on"))
        .well();
    let log = ExitLog::read(&log);
    println!("{}", log.text);
    Some(log)
}

const ROUNDS_LIMIT_BYTES: u64 = 48 << 20;
/// An epoch has as many pages as the limit. Half an epoch of reads is judged at a time.
const ROUNDS: Case<'static> = Case {
    keys: 60_000,
    runs: 1,
    reads: 7_000,
    passes: 10,
    options: "target_file_size_base=8388608;",
    ..SCATTERED
};

/// No key is read twice: so reads come from the device, and hardly anything that is warmed is ever read.
#[test]
fn handovers_are_frugal_where_reads_are_spread_over_more_than_memory() {
    let uniform = Case {
        stride: 1,
        hot: 1,
        ..ROUNDS
    };
    let Some(log) = rounds(&uniform) else { return };
    assert!(log.text.contains("handovers_frugal="), "{}", log.text);
}

#[test]
fn handovers_of_a_hot_set_are_not_frugal() {
    let skewed = Case {
        stride: 20,
        hot: 1,
        passes: 5,
        ..ROUNDS
    };
    let Some(log) = rounds(&skewed) else { return };
    assert!(!log.text.contains("handovers_frugal="), "{}", log.text);
    assert!(log.text.contains("handover_ranges_hit="), "{}", log.text);
}

/// Number of calls that warm a range, in a trace.
fn ranges_warmed(trace: &Path) -> usize {
    let traced = std::fs::read_to_string(trace).unwrap_or_default();
    traced.matches("POSIX_FADV_WILLNEED").count()
}

#[test]
fn switched_off_it_ends_where_it_is() {
    let directory = coldstream_testkit::directories::on_disk();
    let (Some(strace), Some(program)) = (tools::tracer(), program(directory.path())) else {
        return;
    };
    let (database, trace) = (
        directory.path().join("database"),
        directory.path().join("trace"),
    );
    SCATTERED.load(&program, &database);
    // An SSTable has about two hundred ranges. The program is the child, the tracer the grandchild.
    let launcher = [
        strace.as_str(),
        "-D",
        "-f",
        "-qq",
        "--seccomp-bpf",
        "-o",
        trace.to_str().unwrap(),
        "-e",
        "trace=fadvise64",
        "-e",
        "inject=fadvise64:delay_enter=100000",
    ];
    let preload = Preload::quiet()
        .with("COLDSTREAM_HANDOVER_MILLISECONDS", 60_000)
        .with("COLDSTREAM_WRITES", "direct")
        // Only the handover asks for ranges.
        .with("COLDSTREAM_READAHEAD", "kernel");
    let mut running = SCATTERED
        .compaction(&program, &database)
        .start_under(&launcher.map(str::to_owned), &preload);
    running.wait_until(|| ranges_warmed(&trace) >= 10);
    let mut client = StatusClient::of(running.process_id());
    assert_eq!(client.off(&[Mechanism::Handover]), Outcome::Done);
    let before = ranges_warmed(&trace);
    running.end().well();
    let after = ranges_warmed(&trace) - before;
    println!("{before} ranges before, {after} after");
    assert!(after <= 4, "{before} before it was off, {after} after");
    assert_eq!(client.get(Counter::HandoverCutShort), 1);
}
