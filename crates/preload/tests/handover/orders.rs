//! Orders of keys, whatever the comparator is called.

use super::case::{Case, SCANNED, SCATTERED, assert_handed_over, program};
use coldstream_control::Counter;
use coldstream_testkit::library::Preload;
use coldstream_testkit::status_client::StatusClient;
use std::path::Path;

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
