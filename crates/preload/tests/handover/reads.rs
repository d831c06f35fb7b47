//! What was read before: how it is learned, for how long it is known, and where that is of no use.

use super::case::{
    CACHED, Case, FILTER, Found, SCANNED, SCATTERED, STAYING, TRIES, assert_handed_over, compacted,
    exact, program, run_logged,
};
use coldstream_control::{Counter, Mechanism, Outcome};
use coldstream_testkit::exit_log::ExitLog;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{memory_cgroup, tools, within};

use std::path::Path;

/// Nobody reads the hot blocks from the file: the block cache has them. The compaction skips them, and this tells.
#[test]
fn what_the_block_cache_has_is_warm_in_the_output() {
    assert_handed_over(&Case {
        read: CACHED,
        reads: 1,
        ..SCATTERED
    });
}

/// A program that reads everything once, a backup for example, makes nothing hot.
#[test]
fn what_a_scan_has_passed_is_not_warmed() {
    assert_handed_over(&Case {
        read: SCANNED,
        warm_percent: 95,
        ..SCATTERED
    });
}

/// The process that read the hot keys has ended. The next one compacts before it has read anything.
#[test]
fn what_was_cached_before_a_restart_is_warm_in_the_output() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    let database = directory.path().join("database");
    let log = directory.path().join("log");
    let run = |case: &Case<'_>, handover: &str| {
        run_logged(&case.compaction(&program, &database), handover, &log)
    };
    let reads = Case {
        passes: 0,
        ..SCATTERED
    };
    let compacts = Case {
        reads: 0,
        ..SCATTERED
    };
    let found = |handover: &str| {
        let _ = std::fs::remove_dir_all(&database);
        SCATTERED.load(&program, &database);
        run(&reads, handover);
        let log = run(&compacts, handover);
        let found = SCATTERED.find(&database);
        println!("{handover}: {found:?}");
        (found, log)
    };
    let (without, _) = found("off");
    assert!(
        without.warm_hot_blocks * 10 < without.hot_blocks,
        "{without:?}"
    );
    let is_exact = |(found, log): (Found, ExitLog)| {
        log.text.contains("handover_pages_recalled=")
            && found.is_warm()
            && found.wasted_pages <= 2 * found.hot_pages
    };
    assert!((0..TRIES).any(|_| is_exact(found("on"))));
}

/// Compactions in a row, and nobody reads between them. Each one warms the hot blocks, and no more pages than the
/// first one.
#[test]
fn hot_blocks_stay_warm_through_compactions_in_a_row() {
    let directory = coldstream_testkit::directories::on_disk();
    let Some(program) = program(directory.path()) else {
        return;
    };
    for (runs, filter) in [(1, ""), (2, ""), (2, FILTER)] {
        let mut warm_at_first = usize::MAX;
        for passes in 1..=3 {
            let case = Case {
                keys: 100_000,
                runs,
                value_bytes: 192,
                stride: 499,
                reads: 1,
                passes,
                table_options: &format!("block_size=4096;{filter}"),
                options: "target_file_size_base=4194304;",
                ..SCATTERED
            };
            let found = (0..TRIES)
                .map(|_| compacted(&case, &program, directory.path(), "on"))
                .find(Found::is_warm);
            let Some(found) = found else {
                panic!("{runs} runs, {filter:?}, after pass {passes}");
            };
            let (warm, hot) = (found.warm_pages(), found.hot_pages);
            println!(
                "{runs} runs, {filter:?}, after pass {passes}: {} of {} hot blocks, {warm} pages for {hot}",
                found.warm_hot_blocks, found.hot_blocks
            );
            // A hot block's keys lie in so many blocks of the output, and in one more at the edge.
            assert!(warm <= hot * (runs as usize + 1));
            assert!(
                warm * 100 <= warm_at_first.saturating_mul(105),
                "{warm_at_first}"
            );
            warm_at_first = warm_at_first.min(warm);
        }
    }
}

/// An eighth of the cgroup's memory holds half of the output's hot pages.
#[test]
fn what_a_handover_has_no_room_for_is_warm_after_the_publication() {
    let directory = coldstream_testkit::directories::on_disk();
    let program = program(directory.path());
    let (Some(program), Some(cgroup)) = (program, memory_cgroup(ROUNDS_LIMIT_BYTES)) else {
        return;
    };
    let case = Case {
        read: STAYING,
        options: "target_file_size_base=1073741824;",
        ..SCATTERED
    };
    let database = directory.path().join("database");
    let found = || {
        let _ = std::fs::remove_dir_all(&database);
        case.load(&program, &database);
        let preload = exact(Preload::quiet(), "on");
        let compaction = case.compaction(&program, &database);
        let mut running = within(&cgroup, &compaction).start_with(&preload);
        let client = StatusClient::of(running.process_id());
        running.wait_until(|| client.get(Counter::HandoverPagesWarmedLate) > 0);
        let [before, late, left_out] = [
            Counter::HandoverPagesWarmed,
            Counter::HandoverPagesWarmedLate,
            Counter::HandoverPagesLeftOut,
        ]
        .map(|counter| client.get(counter));
        running.kill();
        let found = case.find(&database);
        println!("{before} pages before, {late} of {left_out} afterwards: {found:?}");
        assert!((1..=ROUNDS_LIMIT_BYTES / 8 / 4096).contains(&before) && left_out > 500);
        found.is_warm() && found.wasted_pages <= 2 * found.hot_pages
    };
    assert!((0..TRIES).any(|_| found()));
}

/// Reads `case`'s hot keys in turn and compacts, again and again, in a memory cgroup that holds a fifth of the data.
/// Returns the log; `None` where that is not possible.
fn rounds(case: &Case<'_>) -> Option<ExitLog> {
    let directory = coldstream_testkit::directories::on_disk();
    let program = program(directory.path())?;
    let cgroup = memory_cgroup(ROUNDS_LIMIT_BYTES)?;
    let (database, log) = (
        directory.path().join("database"),
        directory.path().join("log"),
    );
    case.load(&program, &database);
    let rounds = Program::new(&program)
        .argument("rounds")
        .argument(&database)
        .arguments(case.uses());
    Some(run_logged(&within(&cgroup, &rounds), "on", &log))
}

const ROUNDS_LIMIT_BYTES: u64 = 48 << 20;
/// An epoch has as many pages as the limit. Half an epoch of reads is judged at a time.
const ROUNDS: Case<'static> = Case {
    keys: 60_000,
    runs: 1,
    reads: 7_000,
    passes: 10,
    options: "target_file_size_base=8388608;",
    ..SCATTERED
};

/// No key is read twice: so reads come from the device, and hardly anything that is warmed is ever read.
#[test]
fn handovers_are_frugal_where_reads_are_spread_over_more_than_memory() {
    let uniform = Case {
        stride: 1,
        hot: 1,
        ..ROUNDS
    };
    let Some(log) = rounds(&uniform) else { return };
    assert!(log.text.contains("handovers_frugal="), "{}", log.text);
}

#[test]
fn handovers_of_a_hot_set_are_not_frugal() {
    let skewed = Case {
        stride: 20,
        hot: 1,
        passes: 5,
        ..ROUNDS
    };
    let Some(log) = rounds(&skewed) else { return };
    assert!(!log.text.contains("handovers_frugal="), "{}", log.text);
    assert!(log.text.contains("handover_ranges_hit="), "{}", log.text);
}

/// Number of calls that warm a range, in a trace.
fn ranges_warmed(trace: &Path) -> usize {
    let traced = std::fs::read_to_string(trace).unwrap_or_default();
    traced.matches("POSIX_FADV_WILLNEED").count()
}

#[test]
fn switched_off_it_ends_where_it_is() {
    let directory = coldstream_testkit::directories::on_disk();
    let (Some(strace), Some(program)) = (tools::tracer(), program(directory.path())) else {
        return;
    };
    let (database, trace) = (
        directory.path().join("database"),
        directory.path().join("trace"),
    );
    SCATTERED.load(&program, &database);
    // An SSTable has about two hundred ranges. The program is the child, the tracer the grandchild.
    let launcher = [
        strace.as_str(),
        "-D",
        "-f",
        "-qq",
        "--seccomp-bpf",
        "-o",
        trace.to_str().unwrap(),
        "-e",
        "trace=fadvise64",
        "-e",
        "inject=fadvise64:delay_enter=100000",
    ];
    let preload = Preload::quiet()
        .with("COLDSTREAM_HANDOVER_MILLISECONDS", 60_000)
        .with("COLDSTREAM_WRITES", "direct")
        // Only the handover asks for ranges.
        .with("COLDSTREAM_READAHEAD", "kernel");
    let mut running = SCATTERED
        .compaction(&program, &database)
        .start_under(&launcher.map(str::to_owned), &preload);
    running.wait_until(|| ranges_warmed(&trace) >= 10);
    let mut client = StatusClient::of(running.process_id());
    assert_eq!(client.off(&[Mechanism::Handover]), Outcome::Done);
    let before = ranges_warmed(&trace);
    running.end().well();
    let after = ranges_warmed(&trace) - before;
    println!("{before} ranges before, {after} after");
    assert!(after <= 4, "{before} before it was off, {after} after");
    assert_eq!(client.get(Counter::HandoverCutShort), 1);
}
