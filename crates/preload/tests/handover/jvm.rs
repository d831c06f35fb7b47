//! RocksDB's own Java package in a JVM, as in Kafka Streams and Flink.

use super::case::{SMALL, TRIES, exact, program};
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{rocksdb_java, skip, tools};
use std::path::Path;

/// Threads of the JVM read, and RocksDB's threads in it compact. Both databases share these.
#[test]
fn two_databases_in_a_jvm() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let Some(home) = coldstream_nodes::java_home("17") else {
        return skip("no Java 17 is installed");
    };
    let archive = match rocksdb_java::archive(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        Ok(archive) => archive,
        Err(reason) => return skip(reason),
    };
    let databases = ["one", "two"].map(|name| directory.path().join(name));
    let uses = [SMALL.keys, SMALL.stride, SMALL.hot, SMALL.reads.into()];
    let is_exact = |_| {
        for database in &databases {
            let _ = std::fs::remove_dir_all(database);
            SMALL.load(&program, database);
        }
        Program::new(home.join("bin/java"))
            .arguments(["-Xmx256m", "-cp"])
            .argument(&archive)
            .argument(tools::programs().join("HotKeys.java"))
            .arguments(uses.map(|number| number.to_string()))
            .arguments(&databases)
            .run_with(&exact(Preload::quiet(), "on"))
            .well();
        databases.iter().all(|database| {
            let found = SMALL.find(database);
            println!("{found:?}");
            assert!(found.hot_blocks > 100, "{found:?}");
            found.is_warm() && found.wasted_pages <= found.hot_pages
        })
    };
    assert!((0..TRIES).any(is_exact));
}
