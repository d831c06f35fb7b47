//! `coldstream lab pebble` on a real Pebble that is too small to mean anything.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use coldstream_testkit::skip;

/// `coldstream lab pebble` in a directory of its own. `None`, and a line on standard error, where the
/// driver is not built.
fn lab(directory: &Path, words: &[&str]) -> Option<Output> {
    let executable = PathBuf::from(env!("CARGO_BIN_EXE_coldstream"));
    let driver = executable.with_file_name("coldstream-pebble-driver");
    if !driver.exists() {
        skip(format!(
            "{} is not built (`make pebble-driver`)",
            driver.display()
        ));
        return None;
    }
    let ended = Command::new(executable)
        .args(["lab", "pebble", "--keys", "12000", "--memory-mib", "128"])
        .args(["--hot-keys", "1000", "--reads-per-second", "500"])
        .args(["--warm-up-seconds", "1", "--idle-seconds", "1"])
        .args(["--after-seconds", "1", "--work-dir", "work", "--runs", "1"])
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output();
    Some(ended.expect("start"))
}

/// Its report, after an end without an error.
fn report_of(directory: &Path, words: &[&str]) -> Option<serde_json::Value> {
    let ended = lab(directory, &[words, &["--json"]].concat())?;
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    Some(serde_json::from_slice(&ended.stdout).expect("JSON"))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory")
}

#[test]
fn pebble_compacts_all_the_time_while_every_value_is_right() {
    let directory = scratch();
    let words = [
        "--modes",
        "buffered,drop-all@cache_size=16777216",
        "--update-mib-per-second",
        "16",
        "--compaction-seconds",
        "4",
        "--verify",
    ];
    let Some(report) = report_of(directory.path(), &words) else {
        return;
    };
    let engine = report["engine"].as_str().expect("a name");
    assert!(engine.starts_with("Pebble "), "{engine}");
    for mode in 0..2 {
        let run = &report["cases"][0]["runs"][mode][0];
        let figure = |name: &str| run[name].as_f64().expect("a number");
        for name in [
            "compacted_read_bytes",
            "compacted_written_bytes",
            "user_written_bytes",
            "updates_per_second",
            "compaction_cpu_seconds",
        ] {
            assert!(figure(name) > 0.0, "{name}: {run}");
        }
        // What cannot be told apart is not told.
        assert_eq!(figure("compaction_engine_cpu_seconds"), 0.0);
        for phase in 0..3 {
            let phase = &run["phases"][phase];
            assert!(phase["reads"].as_u64() > Some(100), "{phase}");
            assert!(phase["service_us"]["p99"].as_f64() > Some(0.0), "{phase}");
        }
    }
    assert!(!directory.path().join("work").exists());
}

#[test]
fn a_manual_compaction_of_pebble_ends_its_phase() {
    let directory = scratch();
    let words = [
        "--modes",
        "buffered",
        "--update-mib-per-second",
        "0",
        "--verify",
    ];
    let Some(report) = report_of(directory.path(), &words) else {
        return;
    };
    let read_bytes = &report["cases"][0]["runs"][0][0]["compacted_read_bytes"];
    // Two sorted runs.
    assert!(read_bytes.as_u64() > Some(2 * 12000 * 4096), "{report}");
}

#[test]
fn an_option_that_pebble_does_not_know_is_named_before_anything_is_loaded() {
    let directory = scratch();
    let words = ["--modes", "buffered,buffered@no_such_option=1"];
    let Some(ended) = lab(directory.path(), &words) else {
        return;
    };
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{said}");
    assert!(said.contains("no_such_option"), "{said}");
    assert!(!directory.path().join("work").exists());
}
