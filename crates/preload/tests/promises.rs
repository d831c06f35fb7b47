//! Promises to users that no other suite tests as a whole. `docs/design/promises.md` lists all promises and
//! their tests.

use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{directories, tools};
use std::path::Path;

const COMPACTION: &str = "rocksdb:low0";

/// Bytes that went around the page cache, and writes that waited in memory, of a thread with this name.
fn moved(program: &Path, thread: &str, file: &str, exists: bool) -> (u64, u64) {
    let directory = directories::on_disk();
    let path = directory.path().join(file);
    let program = Program::new(program).argument(thread).argument(&path);
    let run = |preload: Option<&Preload>| {
        let _ = std::fs::remove_file(&path);
        if exists {
            std::fs::write(&path, [7; 5000]).expect("write");
        }
        let ended = program.run_either(preload).well();
        (ended.stdout, std::fs::read(&path).expect("read"))
    };
    let plain = run(None);
    let log = directory.path().join("log");
    let everything = Preload::logging_to(&log)
        .with("COLDSTREAM_READS", "direct")
        .with("COLDSTREAM_WRITES", "direct")
        .with("COLDSTREAM_VISIBLE", "process")
        .with("COLDSTREAM_FLUSH", "bypass");
    assert!(plain == run(Some(&everything)), "{thread}, {file}");
    let log = ExitLog::read(&log);
    let read = log.direct_bytes + log.drop_behind_bytes + log.dontcache_bytes;
    (read + log.written_direct_bytes, log.staged_writes)
}

/// Also with every mechanism forced.
#[test]
fn other_files_and_other_threads_are_left_alone() {
    let directory = directories::on_disk();
    let program = tools::compile("other_files.c", directory.path(), "other_files", &[]);
    let moved = |thread, file, exists| moved(&program, thread, file, exists);
    let (bytes, writes) = moved(COMPACTION, "000001.sst", false);
    assert!(bytes > 0 && writes > 0, "{bytes} bytes, {writes} writes");
    let (bytes, writes) = moved(COMPACTION, "000001.blob", false);
    assert!(bytes > 0 && writes > 0, "{bytes} bytes, {writes} writes");
    for file in [
        "000001.log",
        "MANIFEST-000001",
        "CURRENT",
        "OPTIONS-000007",
        "a1.blob",
        "000001.sst.tmp",
        "CommitLog-7-1.log",
        "nb-1-big-Index.db",
        "nb-1-big-Statistics.db",
        "unknown",
    ] {
        assert_eq!(moved(COMPACTION, file, false), (0, 0), "{file}");
    }
    for thread in [
        "database",
        "rocksdb",
        "compaction",
        "low0",
        "Native-Transpor",
    ] {
        assert_eq!(moved(thread, "000001.sst", false), (0, 0), "{thread}");
    }
    let (_, writes) = moved(COMPACTION, "000001.sst", true);
    assert_eq!(writes, 0, "an existing SSTable");
}
