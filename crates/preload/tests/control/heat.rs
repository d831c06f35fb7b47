//! Heat that made room for that of other parts is counted.

use crate::subject::{self, wait_for};
use coldstream_control::Counter;
use coldstream_testkit::directories;
use coldstream_testkit::library::Preload;
use coldstream_testkit::status_client::StatusClient;
use std::fs::File;
use std::os::unix::fs::FileExt;

const TABLE: &str = "nb-1-big-Data.db";
/// One group of the sketch has the heat of so many bytes.
const GROUP_BYTES: u64 = 224 << 10;
/// Four times as many as the smallest sketch has.
const GROUPS: u64 = 4096;

/// The subject: one page of each group is read.
pub fn run() {
    let table = File::open(TABLE).unwrap();
    let mut bytes = [0; 4096];
    for group in 0..GROUPS {
        table
            .read_exact_at(&mut bytes, group * GROUP_BYTES)
            .unwrap();
    }
    File::create_new("read").unwrap();
    wait_for("go on");
}

#[test]
fn displaced_heat_is_counted() {
    for (heat_bytes, is_displaced) in [(64 << 10, true), (64 << 20, false)] {
        let directory = directories::on_disk();
        let work = directory.path().join("work");
        std::fs::create_dir(&work).unwrap();
        // Sparse: what is read does not matter.
        let table = File::create_new(work.join(TABLE)).unwrap();
        table.set_len(GROUPS * GROUP_BYTES).unwrap();
        let preload = Preload::quiet().with("COLDSTREAM_HEAT_BYTES", heat_bytes);
        let journal = directory.path().join("journal");
        let mut running = subject::program("reads far apart", &work, &journal).start_with(&preload);
        let client = StatusClient::of(running.process_id());
        running.wait_until(|| work.join("read").exists());
        let displaced = client.get(Counter::HeatDisplaced);
        assert_eq!(displaced > GROUPS / 2, is_displaced, "{displaced}");
        assert_eq!(displaced > 0, is_displaced, "{displaced}");
        File::create_new(work.join("go on")).unwrap();
        running.end().well();
    }
}
