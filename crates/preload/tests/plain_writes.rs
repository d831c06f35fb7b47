//! Plain writes of SSTables by background threads are counted as background I/O.

use coldstream_control::{Counter, Snapshot};
use coldstream_testkit::directories::Filesystem;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{directories, tools};
use std::path::Path;

/// What all threads of the program write together.
const WRITTEN_BYTES: u64 = 8 * 16 * (128 << 10);

/// The counters of a program that writes SSTables of plain bytes in this directory.
fn counters_in(program: &Path, directory: &Path, writes: &str) -> Snapshot {
    let stop = directory.join("stop");
    let preload = Preload::quiet()
        .with("COLDSTREAM_WRITES", writes)
        // They count the same fallback.
        .with("COLDSTREAM_READS", "buffered");
    let program = Program::new(program).argument(directory).argument(&stop);
    let mut running = program.start_with(&preload);
    running.wait_until_printed("\n");
    let counters = StatusClient::of(running.process_id()).snapshot();
    std::fs::write(&stop, "").expect("stop");
    running.end().well();
    counters
}

#[test]
fn a_filesystem_that_allows_no_more_is_counted() {
    let Some(place) = directories::on(Filesystem::Tmpfs) else {
        return;
    };
    let room = directories::on_disk();
    let program = tools::compile("full.c", room.path(), "full", &["-pthread"]);
    for (writes, is_counted) in [("direct", true), ("auto", true), ("buffered", false)] {
        let directory = place.path().join(writes);
        std::fs::create_dir(&directory).expect("a directory");
        let counters = counters_in(&program, &directory, writes);
        assert_eq!(counters.get(Counter::WriteBytes), WRITTEN_BYTES);
        let found = counters.get(Counter::FallbackFilesystem) > 0;
        assert_eq!(found, is_counted, "{writes}");
    }
}

#[test]
fn what_stays_in_the_page_cache_is_counted_too() {
    let room = directories::on_disk();
    let program = tools::compile("full.c", room.path(), "full", &["-pthread"]);
    for writes in ["buffered", "direct"] {
        let directory = room.path().join(writes);
        std::fs::create_dir(&directory).expect("a directory");
        let counters = counters_in(&program, &directory, writes);
        let written = counters.get(Counter::WriteBytes);
        let plain = counters.get(Counter::WriteBytesBuffered);
        assert_eq!(written, WRITTEN_BYTES, "{writes}: each byte once");
        if writes == "buffered" {
            assert_eq!(plain, WRITTEN_BYTES);
        }
    }
}

/// Direct I/O of the engine itself is no pollution of the page cache.
#[test]
fn what_the_engine_moves_around_the_page_cache_is_counted_apart() {
    let directory = directories::on_disk();
    let program = tools::compile("own_direct.c", directory.path(), "own_direct", &[]);
    let stop = directory.path().join("stop");
    let program = Program::new(&program)
        .argument(directory.path())
        .argument(&stop);
    let mut running = program.start_with(&Preload::quiet());
    running.wait_until_printed("done");
    let client = StatusClient::of(running.process_id());
    let all = [
        Counter::WriteBytes,
        Counter::WriteBytesEngineDirect,
        Counter::WriteBytesBuffered,
        Counter::BackgroundBytes,
        Counter::BytesEngineDirect,
        Counter::BytesBuffered,
    ];
    let counted = all.map(|counter| client.get(counter));
    std::fs::write(&stop, "").expect("stop");
    running.end().well();
    assert_eq!(counted, [1 << 20, 1 << 20, 0, 1 << 20, 1 << 20, 0]);
}
