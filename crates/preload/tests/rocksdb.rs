//! Debian's `db_bench` and `ldb` on real RocksDB. The content is the same with and without the library, and
//! compaction inputs stay out of the page cache.

use coldstream_control::Counter;
use coldstream_testkit::database::{content, make_cold, sstables};
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{memory_cgroup, residency, tools, within};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of keys of the data sets: 16 bytes each, with values of 1,000 bytes.
const KEYS: &str = "60000";

fn db_bench(database: &Path, benchmarks: &str, more: &[&str]) -> Option<Program> {
    Some(
        Program::new(tools::find("db_bench")?)
            .argument(format!("--db={}", database.display()))
            .argument(format!("--benchmarks={benchmarks}"))
            .arguments([
                &format!("--num={KEYS}") as &str,
                "--value_size=1000",
                "--compression_type=none",
                "--seed=42",
                "--write_buffer_size=4194304",
                "--target_file_size_base=4194304",
                "--max_bytes_for_level_base=16777216",
                "--stats_interval=1000000",
            ])
            .arguments(more),
    )
}

#[test]
fn db_bench_leaves_the_same_content() {
    if tools::find("ldb").is_none() {
        return;
    }
    let directory = coldstream_testkit::directories::on_disk();
    let log = directory.path().join("log");
    let mut contents = Vec::new();
    for (name, preload) in [("plain", None), ("with", Some(Preload::logging_to(&log)))] {
        let database = directory.path().join(name);
        let run = |benchmarks: &str, more: &[&str]| {
            let program = db_bench(&database, benchmarks, more)?;
            let ended = program.run_either(preload.as_ref());
            Some(ended.well())
        };
        // One thread and a fixed seed: every run writes the same.
        if run("fillrandom,overwrite,compact", &["--threads=1"]).is_none() {
            return;
        }
        let before = content(&database);
        // What `readwhilewriting` writes depends on how long its readers take; that everything
        // reads back is checked by the engine's own checksums, of blocks and of files.
        make_cold(&sstables(&database));
        run(
            "readwhilewriting,compact,verifychecksum",
            &[
                "--threads=2",
                "--reads=10000",
                "--use_existing_db=1",
                "--verify_checksum=1",
            ],
        );
        let line = format!("ldb --db=\"{}\" checkconsistency", database.display());
        assert!(Program::shell(&line).run().well().text().contains("OK"));
        contents.push(before);
    }
    assert_eq!(contents[0], contents[1]);
    let log = ExitLog::read(&log);
    assert!(log.direct_bytes + log.drop_behind_bytes > 0, "{}", log.text);
}

/// The most bytes that opening an SSTable reads before its end, in the foreground. 512 KiB while the engine
/// does not know the size of indexes and filters (`table/block_based/block_based_table_reader.cc`,
/// `PrefetchTail`), and the footer.
const TAIL_PAGES: usize = (512 << 10) / 4096 + 1;

/// SSTables after a compaction.
#[derive(Debug, Default)]
struct Pages {
    pages: usize,
    /// Resident pages that opening the SSTables may have read.
    resident_in_tails: usize,
    /// Resident pages that only the compaction can have read.
    resident_elsewhere: usize,
}

impl Pages {
    fn of<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut pages = Self::default();
        for path in paths {
            let resident = residency::resident_pages(&File::open(path).expect("open"));
            let tail = resident.len().saturating_sub(TAIL_PAGES);
            let count = |pages: &[bool]| pages.iter().filter(|page| **page).count();
            pages.pages += resident.len();
            pages.resident_elsewhere += count(&resident[..tail]);
            pages.resident_in_tails += count(&resident[tail..]);
        }
        pages
    }
}

/// The state of the page cache when a compaction begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Cold,
    Warm,
}

/// Compacts a copy of the prepared database. Returns the resident pages of its inputs and outputs. A second
/// link keeps the inputs after their deletion.
fn compact(
    prepared: &Path,
    scratch: &Path,
    start: Start,
    preload: Option<&Preload>,
) -> (Pages, Pages) {
    let database = scratch.join("copy");
    let kept = scratch.join("kept");
    for path in [&database, &kept] {
        let _ = std::fs::remove_dir_all(path);
        std::fs::create_dir(path).expect("mkdir");
    }
    for entry in std::fs::read_dir(prepared).expect("read") {
        let path = entry.expect("entry").path();
        let name = path.file_name().expect("name");
        std::fs::copy(&path, database.join(name)).expect("copy");
        if path.extension().is_some_and(|extension| extension == "sst") {
            std::fs::hard_link(database.join(name), kept.join(name)).expect("link");
        }
    }
    let paths = sstables(&kept);
    make_cold(&paths);
    for path in &paths {
        let file = File::open(path).expect("open");
        assert_eq!(residency::cached_pages(&file), 0, "the inputs are cold");
        if start == Start::Warm {
            std::fs::read(path).expect("read");
        }
    }
    let program = db_bench(
        &database,
        "compact",
        &["--use_existing_db=1", "--disable_auto_compactions=1"],
    )
    .expect("db_bench was there before");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if start == Start::Warm {
            // The kernel may reclaim idle pages.
            scope.spawn(|| {
                for path in paths.iter().cycle() {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    std::fs::read(path).expect("read");
                }
            });
        }
        let _over = SetWhenDropped(&is_over);
        program.run_either(preload).well();
    });
    let is_input = |path: &PathBuf| kept.join(path.file_name().expect("name")).exists();
    let outputs: Vec<PathBuf> = sstables(&database)
        .into_iter()
        .filter(|path| !is_input(path))
        .collect();
    (Pages::of(&paths), Pages::of(&outputs))
}

/// Stops a thread when dropped, also in a panic.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A database of overlapping SSTables; `None` where there is no `db_bench`.
fn prepared(directory: &Path) -> Option<PathBuf> {
    let prepared = directory.join("prepared");
    let fill = db_bench(&prepared, "fillrandom", &["--disable_auto_compactions=1"])?;
    fill.run().well();
    Some(prepared)
}

#[test]
fn no_page_of_an_input_or_output_enters_the_page_cache() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(prepared) = prepared(directory.path()) else {
        return;
    };
    let log = directory.path().join("log");
    let compact =
        |preload: Option<&Preload>| compact(&prepared, directory.path(), Start::Cold, preload);
    let (plain, plain_outputs) = compact(None);
    // Without the handover: what the engine reads when it opens the inputs may count as hot, after a restart.
    let preload = Preload::logging_to(&log).with("COLDSTREAM_HANDOVER", "off");
    let (with, outputs) = compact(Some(&preload));
    eprintln!("plain {plain:?} {plain_outputs:?}, with the library {with:?} {outputs:?}");
    assert!(
        plain.resident_elsewhere > plain.pages / 10
            && plain_outputs.resident_elsewhere > plain_outputs.pages / 10,
        "a plain compaction brings all in, else this test shows nothing: {plain:?} {plain_outputs:?}"
    );
    assert_eq!(with.resident_elsewhere, 0, "{with:?}");
    let log = ExitLog::read(&log);
    // The page in which one write ended and the next began, for each write of about 1 MiB.
    assert!(
        outputs.resident_elsewhere <= outputs.pages / 100,
        "{outputs:?} {}",
        log.text
    );
    // The direct reads cover the inputs, except for tails that were resident already.
    let (least, most) = (
        (with.pages - with.resident_in_tails) as u64 * 4096 * 9 / 10,
        with.pages as u64 * 4096,
    );
    assert!(
        (least..=most).contains(&log.direct_bytes),
        "read directly {}, expected {least} to {most}: {}",
        log.direct_bytes,
        log.text
    );
    assert!(
        log.written_direct_bytes > outputs.pages as u64 * 4096 * 9 / 10,
        "{}",
        log.text
    );
}

#[test]
fn where_the_inputs_are_cached_the_outputs_are() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(prepared) = prepared(directory.path()) else {
        return;
    };
    let log = directory.path().join("log");
    // Without the handover: on a machine with little free memory it would hand over what is cached.
    let preload = Preload::logging_to(&log).with("COLDSTREAM_HANDOVER", "off");
    let (_, outputs) = compact(&prepared, directory.path(), Start::Warm, Some(&preload));
    let log = ExitLog::read(&log);
    assert!(
        outputs.resident_elsewhere > outputs.pages / 10,
        "{outputs:?} {}",
        log.text
    );
    // The kernel may have reclaimed some of the inputs.
    assert!(log.direct_bytes < log.cache_bytes / 4, "{}", log.text);
}

#[test]
fn what_a_flush_writes_stays_cached_unless_told_otherwise() {
    let directory = coldstream_testkit::directories::on_disk();
    for (flush, cached) in [("auto", true), ("cached", true), ("bypass", false)] {
        let database = directory.path().join(flush);
        let more = ["--disable_auto_compactions=1"];
        let Some(fill) = db_bench(&database, "fillrandom", &more) else {
            return;
        };
        fill.run_with(&Preload::quiet().with("COLDSTREAM_FLUSH", flush))
            .well();
        let flushed = Pages::of(&sstables(&database));
        assert_eq!(
            flushed.resident_elsewhere > flushed.pages / 10,
            cached,
            "{flush}: {flushed:?}"
        );
    }
}

/// Random reads of a database that is several times the memory: pages are evicted and read again all the time.
#[test]
fn flushes_go_around_the_page_cache_while_memory_is_short() {
    let directory = coldstream_testkit::directories::on_disk();
    let database = directory.path().join("database");
    let Some(fill) = db_bench(&database, "fillrandom", &["--num=300000"]) else {
        return;
    };
    let Some(cgroup) = memory_cgroup(64 << 20) else {
        return;
    };
    fill.run().well();
    let more = [
        "--num=300000",
        "--use_existing_db=1",
        "--threads=3",
        "--duration=3600",
    ];
    let load = db_bench(&database, "readwhilewriting", &more).expect("as before");
    let preload = Preload::quiet().with("COLDSTREAM_FLUSH", "auto");
    let mut running = within(&cgroup, &load).start_with(&preload);
    let client = StatusClient::of(running.process_id());
    running.wait_until(|| client.get(Counter::FlushesBypassed) > 0);
    running.kill();
    let check = Program::new(tools::find("ldb").expect("beside db_bench"))
        .argument(format!("--db={}", database.display()))
        .argument("checkconsistency");
    assert!(check.run().well().text().contains("OK"));
}

/// Pacing at its floor, with foreground reads that all go to the device.
#[test]
fn a_paced_database_has_the_same_content() {
    if tools::find("ldb").is_none() {
        return;
    }
    let directory = coldstream_testkit::directories::on_disk();
    let log = directory.path().join("log");
    let paced = Preload::logging_to(&log)
        .with("COLDSTREAM_PACING", "on")
        .with("COLDSTREAM_PACING_FLOOR", 4);
    let mut contents = Vec::new();
    for (name, preload) in [("plain", None), ("paced", Some(paced))] {
        let database = directory.path().join(name);
        // One thread and a fixed seed: every run writes the same.
        let more = ["--threads=1", "--num=20000", "--use_direct_reads=1"];
        let Some(update) = db_bench(&database, "fillrandom,updaterandom,compact", &more) else {
            return;
        };
        match &preload {
            Some(preload) => update.run_with(preload),
            None => update.run(),
        }
        .well();
        contents.push(content(&database));
    }
    assert_eq!(contents[0], contents[1]);
    let log = std::fs::read_to_string(&log).expect("log");
    eprintln!("{log}");
    assert!(!log.contains("panic"), "{log}");
}

/// The database is killed at random moments while it writes, flushes and compacts. It opens again, and every
/// block of every SSTable has its checksum.
#[test]
fn a_database_survives_kills() {
    let directory = coldstream_testkit::directories::on_disk();
    let rounds = if coldstream_testkit::long() { 20 } else { 3 };
    let mut random = coldstream_testkit::random::Random::new(coldstream_testkit::seed());
    for (writes, visible) in [
        ("direct", "process"),
        ("auto", "auto"),
        ("drop-behind", "auto"),
    ] {
        let database = directory.path().join(writes);
        let preload = Preload::quiet()
            .with("COLDSTREAM_WRITES", writes)
            .with("COLDSTREAM_VISIBLE", visible)
            .with("COLDSTREAM_FLUSH", "bypass");
        for round in 0..rounds {
            let existing = format!("--use_existing_db={}", u8::from(round > 0));
            let Some(overwrite) = db_bench(&database, "overwrite", &[&existing, "--num=2000000"])
            else {
                return;
            };
            let mut running = overwrite.start_with(&preload);
            running.wait_until(|| sstables(&database).len() > 4);
            std::thread::sleep(std::time::Duration::from_millis(random.below(400)));
            running.kill();
            for benchmark in ["verifychecksum", "readseq"] {
                let verify = db_bench(&database, benchmark, &["--use_existing_db=1"]);
                verify.expect("db_bench was there before").run().well();
            }
        }
    }
}
