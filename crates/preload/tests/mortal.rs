//! Helper threads of the library die, killed by a filter of system calls. The application's threads do their work.

use coldstream_testkit::library::Preload;
use coldstream_testkit::process::{Ended, Program};
use coldstream_testkit::{directories, long, skip, tools};
use std::path::Path;
use std::time::Duration;

const ALL_BYTES: u64 = 5_000_000;

/// A run: its end, the SSTable's bytes, and what was logged.
struct Run {
    ended: Ended,
    content: Vec<u8>,
    log: String,
}

/// Writes an SSTable under the filter. `None` if there can be no filter here.
fn write(program: &Path, call: &str, end: &str, preload: Option<&Preload>) -> Option<Run> {
    let room = directories::on_disk();
    let (table, log) = (room.path().join("000001.sst"), room.path().join("log"));
    let preload = preload.map(|preload| preload.clone().with("COLDSTREAM_LOG", log.display()));
    let ended = Program::new(program)
        .argument(call)
        .argument(&table)
        .argument(end)
        .limit(Duration::from_secs(60))
        .run_either(preload.as_ref());
    if ended.status.code() == Some(77) {
        skip(format!("there can be no filter here: {ended:?}"));
        return None;
    }
    Some(Run {
        ended: ended.well(),
        content: std::fs::read(&table).unwrap(),
        log: std::fs::read_to_string(&log).unwrap_or_default(),
    })
}

#[test]
fn the_writer_goes_on_when_a_helper_is_killed() {
    let room = directories::on_disk();
    let program = tools::compile("mortal.c", room.path(), "mortal", &[]);
    let staged = Preload::writing(("direct", "process"));
    let without_priorities = staged.clone().with("COLDSTREAM_PRIORITY", "off");
    for end in ["close", "fork", "_exit", "exit"] {
        let Some(plain) = write(&program, "none", end, None) else {
            return;
        };
        assert_eq!(plain.content.len() as u64, ALL_BYTES);
        for call in [
            "none",
            "prctl",
            "getpriority",
            "setpriority",
            "ioprio_get",
            "ioprio_set",
            "capget",
            "capset",
            "idle",
            "thread",
            "drainer",
            "early-getpriority",
            "early-capset",
            "early-idle",
            "early-thread",
        ] {
            for preload in [&staged, &without_priorities] {
                let with = write(&program, call, end, Some(preload)).unwrap();
                assert_eq!(plain.ended, with.ended, "{call}, {end}");
                assert!(plain.content == with.content, "{call}, {end}: other bytes");
            }
        }
    }
}

/// A child is made while a helper's write does not return. In the long form the process ends meanwhile.
#[test]
fn nobody_waits_for_a_helper_that_is_stuck() {
    let room = directories::on_disk();
    let program = tools::compile("mortal.c", room.path(), "mortal", &[]);
    let staged = Preload::writing(("direct", "process"));
    let Some(plain) = write(&program, "stuck", "close", None) else {
        return;
    };
    let with = write(&program, "stuck", "close", Some(&staged)).unwrap();
    assert_eq!(plain.ended, with.ended);
    assert!(plain.content == with.content, "other bytes");
    assert!(with.log.contains("drains_late=1"), "{}", with.log);
    if long() {
        let plain = write(&program, "stuck", "_exit", None).unwrap();
        let with = write(&program, "stuck", "_exit", Some(&staged)).unwrap();
        assert_eq!(plain.ended, with.ended);
        assert!(plain.content.starts_with(&with.content), "other bytes");
    }
}

/// A child would wait for the device: nobody else drains the file then.
#[test]
fn nothing_is_staged_where_no_helper_can_be_started() {
    let room = directories::on_disk();
    let program = tools::compile("mortal.c", room.path(), "mortal", &[]);
    let staged = Preload::writing(("direct", "process"));
    for (call, is_staged) in [("none", true), ("early-thread", false)] {
        let Some(run) = write(&program, call, "close", Some(&staged)) else {
            return;
        };
        let log = run.log;
        assert_eq!(log.contains("staged_writes="), is_staged, "{call}: {log}");
    }
}

/// The write of a helper that dies counts as failed.
#[test]
fn a_helper_asks_for_no_priority_while_priorities_are_off() {
    let room = directories::on_disk();
    let program = tools::compile("mortal.c", room.path(), "mortal", &[]);
    let staged = Preload::writing(("direct", "process"));
    for call in ["getpriority", "setpriority", "ioprio_get", "ioprio_set"] {
        let off = staged.clone().with("COLDSTREAM_PRIORITY", "off");
        let Some(run) = write(&program, call, "close", Some(&off)) else {
            return;
        };
        let log = run.log;
        assert!(log.contains("write_bytes_overlapped="), "{call}: {log}");
        assert!(!log.contains("fallback_write_failed="), "{call}: {log}");
    }
}
