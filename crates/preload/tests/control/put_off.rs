//! Handovers while compactions are behind: what takes too long is left to a later output.

use crate::subject::{self, name_thread, wait_for};
use coldstream_control::Counter;
use coldstream_testkit::database::{make_cold, sstables};
use coldstream_testkit::directories;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::tools;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// SSTables of interleaved keys, in small blocks: to find what is hot, the blocks of all are read.
const RUNS: &str = "8";
const KEYS: &str = "160000";
const OPTIONS: &str = "disable_auto_compactions=true;create_if_missing=true;\
     write_buffer_size=1073741824;\
     block_based_table_factory={no_block_cache=true;block_size=256}";
/// Outputs that a compaction publishes at once.
const OUTPUTS: u32 = 20;

/// The subject: the inputs are hot, processors are wanted by many threads, and a compaction waits for them. Then another
/// one publishes its outputs at once.
pub fn run() {
    let inputs = sstables(Path::new("database"));
    for input in &inputs {
        heat(&File::open(input).unwrap());
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..3 * processors {
            scope.spawn(|| {
                while !Path::new("published").exists() {
                    (0..1_000_000).for_each(|number| _ = std::hint::black_box(number));
                }
            });
        }
        scope.spawn(|| {
            name_thread(c"rocksdb:low");
            let input = File::open(&inputs[0]).unwrap();
            while !Path::new("published").exists() {
                input.read_exact_at(&mut [0; 4096], 0).unwrap();
            }
        });
        scope.spawn(|| {
            wait_for("publish");
            name_thread(c"rocksdb:low");
            publish(&inputs);
            File::create_new("published").unwrap();
        });
    });
    wait_for("stop");
}

/// Reads each page more than once, and not in order.
fn heat(input: &File) {
    let size_bytes = input.metadata().unwrap().len();
    for page in 0..size_bytes / 4096 {
        for _ in 0..3 {
            input.read_exact_at(&mut [0; 4096], page * 4096).unwrap();
        }
    }
}

/// Publishes one output with keys of all inputs, and empty ones behind it.
fn publish(inputs: &[PathBuf]) {
    let content = std::fs::read("content").unwrap();
    for input in inputs {
        let input = File::open(input).unwrap();
        input.read_exact_at(&mut [0; 4096], 0).unwrap();
    }
    std::fs::write("001000.sst", content).unwrap();
    for number in 1..OUTPUTS {
        std::fs::write(format!("{}.sst", 1000 + number), [7; 4096]).unwrap();
    }
}

#[test]
fn handovers_that_take_too_long_are_put_off_while_compactions_are_behind() {
    if tools::find_library("librocksdb.so").is_none() {
        return;
    }
    let directory = directories::on_disk();
    let program = tools::compile("hot_keys.c", directory.path(), "hot_keys", &["-lrocksdb"]);
    for (mode, has_guard) in [("auto", true), ("reads-first", false)] {
        let work = directory.path().join(mode);
        std::fs::create_dir(&work).unwrap();
        let database = work.join("database");
        (Program::new(&program).argument("load").argument(&database))
            .arguments([KEYS, RUNS, "50", "0", OPTIONS, "engine"])
            .run()
            .well();
        let inputs = sstables(&database);
        assert_eq!(inputs.len().to_string(), RUNS);
        std::fs::copy(&inputs[0], work.join("content")).unwrap();
        make_cold(&inputs);
        let preload = (Preload::quiet().with("COLDSTREAM_PRIORITY", mode))
            .with("COLDSTREAM_HANDOVER", "on")
            .with("COLDSTREAM_HANDOVER_MILLISECONDS", 60_000);
        let journal = directory.path().join("journal");
        let mut running = subject::program("publishes", &work, &journal).start_with(&preload);
        let client = StatusClient::of(running.process_id());
        if has_guard {
            running.wait_until(|| client.get(Counter::PriorityReleases) > 0);
        }
        std::fs::write(work.join("publish"), "").unwrap();
        running.wait_until(|| work.join("published").exists());
        let [done, put_off] =
            [Counter::HandoverSsTables, Counter::HandoverPutOff].map(|it| client.get(it));
        println!("{mode}: {done} handed over, {put_off} put off");
        assert!(done > 0, "the first output has its turn");
        assert_eq!(put_off > 0, has_guard, "{mode}: {put_off}");
        std::fs::write(work.join("stop"), "").unwrap();
        running.end().well();
    }
}
