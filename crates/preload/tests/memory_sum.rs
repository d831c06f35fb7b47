//! The sum of the library's memory. Its parts are reserved or capped, so its address space is an upper bound.

use coldstream_control::Counter;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{directories, skip, tools};
use std::path::Path;

/// As `docs/words-and-costs.md` promises.
const SUM_KIB_MAX: u64 = 150 << 10;
/// `--memory`, by default.
const WINDOWS_BYTES: u64 = 64 << 20;

/// The program, in a new directory of `room`.
fn full(program: &Path, room: &Path, name: &str, stop: &Path) -> Program {
    let directory = room.join(name);
    std::fs::create_dir(&directory).expect("a directory");
    // The application's allocator reserves 64 MiB for each thread that allocates.
    Program::new(program)
        .argument(directory)
        .argument(stop)
        .with_variable("MALLOC_ARENA_MAX", 1)
}

#[test]
fn all_parts_together_are_within_the_promise() {
    let room = directories::on_disk();
    let program = tools::compile("full.c", room.path(), "full", &["-pthread"]);
    let stop = room.path().join("stop");
    std::fs::write(&stop, "").expect("stop");
    let plain = full(&program, room.path(), "plain", &stop).run().well();
    let kib = |text: &str| text.trim().parse::<u64>().expect("a number");
    let plain_kib = kib(&plain.text());
    std::fs::remove_file(&stop).expect("stop");

    let preload = Preload::quiet()
        .with("COLDSTREAM_EVICTION", "on")
        .with("COLDSTREAM_VISIBLE", "process");
    let mut running = full(&program, room.path(), "with", &stop).start_with(&preload);
    running.wait_until_printed("\n");
    let client = StatusClient::of(running.process_id());
    let windows_bytes = client.get(Counter::WindowMemoryPeakBytes);
    std::fs::write(&stop, "").expect("stop");
    let with_kib = kib(&running.end().well().text());
    if windows_bytes == 0 {
        return skip("no direct I/O here");
    }
    assert!(
        windows_bytes > WINDOWS_BYTES * 9 / 10,
        "{windows_bytes}: else this test shows nothing"
    );
    let sum_kib = with_kib - plain_kib;
    println!("{sum_kib} KiB of address space, {windows_bytes} bytes of windows");
    assert!(sum_kib <= SUM_KIB_MAX, "{sum_kib} KiB");
    assert!(
        sum_kib << 10 > windows_bytes,
        "{sum_kib} KiB: less than the windows alone"
    );
}
