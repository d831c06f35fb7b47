//! A device does not answer while a background thread reads one SSTable. No open, close or delete of another SSTable
//! waits for it. Nor does the close of an SSTable that is only read ahead.

use coldstream_testkit::device_limit::DeviceLimit;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{directories, files, skip, tools};
use std::path::Path;

/// The program's steps, in this order.
const STEPS: [&str; 8] = [
    "ready",
    "stalled",
    "opened",
    "closed",
    "closed-what-was-read",
    "closed-what-is-read-ahead",
    "opened-again",
    "replaced",
];

/// So slow that a read does not come while a test lasts.
const STALLED_BYTES_PER_SECOND: u64 = 1;

/// The steps that the program has not made, if it stops.
fn missing(signals: &Path) -> Vec<&'static str> {
    let is_missing = |step: &&str| !signals.join(step).exists();
    STEPS.into_iter().filter(is_missing).collect()
}

#[test]
fn no_open_or_close_waits_for_another_sstables_device_read() {
    let directory = directories::on_disk();
    let program = tools::compile("stalled.c", directory.path(), "stalled", &["-pthread"]);
    for number in 1..=5 {
        let path = directory.path().join(format!("00000{number}.sst"));
        files::create(&path, number, 8 << 20);
    }
    std::thread::sleep(files::REST);
    let Ok(signals) = tempfile::TempDir::new_in("/dev/shm") else {
        skip("/dev/shm: no directory can be made there");
        return;
    };
    let limit = match DeviceLimit::hold(directory.path(), "read_bps_device", 1 << 40) {
        Ok(limit) => limit,
        Err(error) => {
            skip(format!("no device can be stalled here: {error}"));
            return;
        }
    };
    let mut running = Program::new(program)
        .argument(directory.path())
        .argument(signals.path())
        .start_with(&Preload::quiet());
    let there = |name: &str| signals.path().join(name).exists();
    running.wait_until(|| there("ready"));
    limit.change(STALLED_BYTES_PER_SECOND).expect("stall");
    std::fs::write(signals.path().join("go"), "").expect("go");
    let ends_in_time = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !there("done") && std::time::Instant::now() < ends_in_time {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let missing = missing(signals.path());
    let is_done = there("done");
    // Otherwise the program could not end, not even by a signal.
    limit.change(1 << 40).expect("go on");
    running.end().well();
    assert!(is_done, "waited for the device: {missing:?}");
}
