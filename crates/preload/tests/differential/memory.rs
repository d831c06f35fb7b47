//! Random programs while single allocations of the library fail, and while all fail from one on.

use crate::differential::compare::Bench;
use crate::subject::Script;
use crate::subject::generate::APPENDS;
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::library::Preload;
use coldstream_testkit::refusing_heap::RefusingHeap;
use coldstream_testkit::{long, seed};

fn refused(kind: u64) {
    let Some(place) = directories::on(Filesystem::Ext4) else {
        return;
    };
    let records = directories::on_disk();
    let bench = Bench {
        place: place.path(),
        records: records.path(),
    };
    let heap = RefusingHeap::new(records.path());
    let script = Script {
        seed: seed() | kind,
        count: if long() { 600 } else { 120 },
        keep: None,
    };
    let preload = Preload::logging()
        .with("COLDSTREAM_VISIBLE", "process")
        .with("COLDSTREAM_STAGING_BYTES", "256KiB");
    let plain = bench.run(&script, None);
    bench.check(&script, &plain, &heap.counting(&preload));
    let count = heap.count();
    assert!(count > 10, "{count} requests");
    println!("seed {}: {count} requests", script.seed);
    for requests in RefusingHeap::refusals(count, 6) {
        println!("{requests:?} refused");
        bench.check(&script, &plain, &heap.refusing(&preload, &requests));
    }
}

#[test]
fn reads_survive_each_refusal_of_memory() {
    refused(0);
}

#[test]
fn writes_survive_each_refusal_of_memory() {
    refused(APPENDS);
}
