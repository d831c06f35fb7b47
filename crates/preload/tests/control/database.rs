//! Real RocksDB, by `db_bench`, while somebody switches.

use crate::asker::{Asker, descriptors, tasks};
use crate::priorities::{NICE, start_nice};
use crate::support::database::content;
use crate::support::library::Preload;
use crate::support::process::Program;
use crate::support::{places, tools};
use coldstream_control::{Counter, Mechanism, Mechanisms, Outcome};
use std::path::Path;
use std::time::Duration;

/// One thread and a fixed seed: what is written is the same each time.
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
    let directory = places::on_disk();
    let plain = directory.path().join("plain");
    let Some(program) = fill(&plain) else { return };
    program.run().well();
    let database = directory.path().join("switched");
    let preload = Preload::quiet()
        .with("COLDSTREAM_WRITES", "direct")
        .with("COLDSTREAM_VISIBLE", "process")
        .with("COLDSTREAM_PACING", "on");
    let running = fill(&database).unwrap().start_with(&preload);
    let process = running.process_id();
    let mut asker = Asker::of(process);
    asker.wait_for("rocksdb:low", |nice, io| nice == 10 && io == 2 << 13 | 7);
    let flush = asker.threads("rocksdb:high");
    assert!(!flush.is_empty() && flush.iter().all(|(nice, _)| *nice == NICE));

    let early = (tasks(process).len(), descriptors(process));
    let mut cycles = 0;
    let all = Mechanisms::of(&[
        Mechanism::Reads,
        Mechanism::Writes,
        Mechanism::Handover,
        Mechanism::Priority,
        Mechanism::Readahead,
        Mechanism::Pacing,
    ]);
    let priorities = asker.page().switches().priorities_bits;
    while let Some(outcome) = asker.try_ask(u64::from(all.bits()), priorities) {
        assert_eq!(outcome, Outcome::Done);
        let threads = asker.threads("rocksdb:low");
        assert!(
            threads
                .iter()
                .all(|(nice, io)| *nice == NICE && io >> 13 == 0),
            "{threads:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
        match asker.try_ask(0, priorities) {
            Some(outcome) => assert_eq!(outcome, Outcome::Done),
            None => break,
        }
        std::thread::sleep(Duration::from_millis(15));
        cycles += 1;
        let now = (tasks(process).len(), descriptors(process));
        assert!(
            now.0 <= early.0 + 10 && now.1 <= early.1 + 250,
            "threads and descriptors {early:?}, then {now:?}"
        );
    }
    running.end().well();
    eprintln!("{cycles} cycles, the longest took {:?}", asker.longest);
    assert!(cycles >= 20);
    let page = asker.page();
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
