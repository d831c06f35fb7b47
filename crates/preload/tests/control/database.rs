//! `db_bench` on real RocksDB, while mechanisms are switched.

use crate::control::priorities::{NICE, start_nice};
use coldstream_control::{Counter, Mechanism, Mechanisms, Outcome};
use coldstream_host::process;
use coldstream_testkit::database::content;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{directories, tools};
use std::path::Path;
use std::time::Duration;

/// One thread and a fixed seed: every run writes the same.
fn fill(database: &Path) -> Option<Program> {
    tools::find("ldb")?;
    Some(
        Program::new(tools::find("db_bench")?)
            .argument(format!("--db={}", database.display()))
            .arguments([
                "--benchmarks=fillrandom,overwrite,overwrite,compact",
                "--num=60000",
                "--value_size=1000",
                "--compression_type=none",
                "--seed=42",
                "--threads=1",
                "--write_buffer_size=4194304",
                "--target_file_size_base=4194304",
                "--max_bytes_for_level_base=16777216",
                "--benchmark_write_rate_limit=20000000",
                "--stats_interval=1000000",
            ]),
    )
}

#[test]
fn a_database_that_is_switched_for_ever_has_the_same_content() {
    if !start_nice() {
        return;
    }
    let directory = directories::on_disk();
    let plain = directory.path().join("plain");
    let Some(program) = fill(&plain) else { return };
    program.run().well();
    let database = directory.path().join("switched");
    let preload = Preload::quiet()
        .with("COLDSTREAM_WRITES", "direct")
        .with("COLDSTREAM_VISIBLE", "process")
        .with("COLDSTREAM_PACING", "on")
        // Without the guard: it would restore priorities whenever processors are saturated.
        .with("COLDSTREAM_PRIORITY", "reads-first");
    let running = fill(&database).unwrap().start_with(&preload);
    let process = running.process_id();
    let mut client = StatusClient::of(process);
    client.wait_for("rocksdb:low", |nice, io| nice == 10 && io == 2 << 13 | 7);
    let flush = client.threads("rocksdb:high");
    assert!(!flush.is_empty() && flush.iter().all(|(nice, _)| *nice == NICE));

    let early = (
        process::threads(process).len(),
        process::descriptors(process),
    );
    let mut cycles = 0;
    let all = Mechanisms::of(&[
        Mechanism::Reads,
        Mechanism::Writes,
        Mechanism::Handover,
        Mechanism::Priority,
        Mechanism::Readahead,
        Mechanism::Pacing,
    ]);
    let priorities = client.page().switches().priorities_bits;
    while let Some(outcome) = client.try_ask(u64::from(all.bits()), priorities) {
        assert_eq!(outcome, Outcome::Done);
        // The library's own threads have the name and the priority of their starter until they run.
        client.wait_until("rocksdb:low", |threads| {
            let is_restored = |(nice, io): &(i32, i32)| *nice == NICE && io >> 13 == 0;
            threads.iter().all(is_restored)
        });
        std::thread::sleep(Duration::from_millis(5));
        match client.try_ask(0, priorities) {
            Some(outcome) => assert_eq!(outcome, Outcome::Done),
            None => break,
        }
        std::thread::sleep(Duration::from_millis(15));
        cycles += 1;
        let now = (
            process::threads(process).len(),
            process::descriptors(process),
        );
        assert!(
            now.0 <= early.0 + 10 && now.1 <= early.1 + 250,
            "threads and descriptors {early:?}, then {now:?}"
        );
    }
    running.end().well();
    eprintln!("{cycles} cycles, the longest took {:?}", client.longest);
    assert!(cycles >= 20);
    let page = client.page();
    for counter in [Counter::BytesDirect, Counter::WriteBytesDirect] {
        assert!(page.get(counter) > 0, "{counter:?}");
    }
    for counter in [Counter::FallbackPanic, Counter::WriteErrors] {
        assert_eq!(page.get(counter), 0, "{counter:?}");
    }
    assert_eq!(content(&plain), content(&database));
    let verify = format!(
        "db_bench --db=\"{}\" --benchmarks=verifychecksum --use_existing_db=1",
        database.display()
    );
    Program::shell(&verify).run().well();
}
