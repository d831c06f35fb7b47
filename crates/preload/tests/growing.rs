//! Threads look at SSTables while a background thread writes them. Each call sees what was written before it.

use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{directories, long, tools};
use std::time::Duration;

/// Bytes of each SSTable.
const BYTES: u64 = 24 << 20;

#[test]
fn every_call_sees_what_was_written_before_it() {
    let room = directories::on_disk();
    let program = tools::compile("growing.c", room.path(), "growing", &[]);
    let files = if long() { 100 } else { 4 };
    let log = room.path().join("log");
    for way in [
        None,
        Some(("direct", "process")),
        Some(("direct", "everywhere")),
        Some(("drop-behind", "auto")),
    ] {
        let preload = way.map(|way| Preload::writing(way).with("COLDSTREAM_LOG", log.display()));
        let ended = Program::new(&program)
            .argument(room.path())
            .arguments([&files.to_string(), &BYTES.to_string()])
            .limit(Duration::from_secs(if long() { 3000 } else { 120 }))
            .run_either(preload.as_ref());
        assert_eq!(ended.well().text(), "well\n", "{way:?}");
    }
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(
        said.contains("write_bytes_overlapped="),
        "nothing was staged: {said}"
    );
}
