//! `coldstream lab` on an engine with a load driver, so small that it means nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use coldstream_testkit::process::{Ended, output_within};
use coldstream_testkit::skip;
use serde_json::{Value, json};

/// `coldstream lab ENGINE` in a directory of its own. `None`, and a line on standard error, where the driver is
/// not built.
pub fn lab(engine: &str, directory: &Path, words: &[&str]) -> Option<Ended> {
    driver(engine)?;
    let defaults = [["--memory-mib", "128"], ["--reads-per-second", "500"]];
    let defaults = defaults.iter().filter(|it| !words.contains(&it[0]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_coldstream"));
    command
        .args(["lab", engine, "--keys", "12000", "--hot-keys", "1000"])
        .args(defaults.flatten())
        .args(["--warm-up-seconds", "1", "--idle-seconds", "1"])
        .args(["--after-seconds", "1", "--work-dir", "work", "--runs", "1"])
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null());
    Some(output_within(Duration::from_secs(600), &mut command))
}

/// The engine's driver. `None`, and a line on standard error, where it is not built.
fn driver(engine: &str) -> Option<PathBuf> {
    let command = PathBuf::from(env!("CARGO_BIN_EXE_coldstream"));
    let driver = command.with_file_name(format!("coldstream-{engine}-driver"));
    if !driver.exists() {
        let path = driver.display();
        skip(format!("{path} is not built (`make drivers`)"));
        return None;
    }
    Some(driver)
}

/// Its report, after an end without an error.
pub fn report_of(engine: &str, directory: &Path, words: &[&str]) -> Option<serde_json::Value> {
    let ended = lab(engine, directory, &[words, &["--json"]].concat())?;
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    Some(serde_json::from_slice(&ended.stdout).expect("JSON"))
}

/// Checks that each run of each mode has these figures, and reads in each phase.
pub fn check_runs(report: &serde_json::Value, modes: usize, figures: &[&str]) {
    for mode in 0..modes {
        let run = &report["cases"][0]["runs"][mode][0];
        for name in figures {
            assert!(run[name].as_f64() > Some(0.0), "{name}: {run}");
        }
        for phase in 0..3 {
            let phase = &run["phases"][phase];
            assert!(phase["reads"].as_u64() > Some(100), "{phase}");
            assert!(phase["service_us"]["p99"].as_f64() > Some(0.0), "{phase}");
        }
    }
}

/// Checks that reads for which no reader is free count for the phase in which they are due.
pub fn check_overload(engine: &str, directory: &Path) {
    let words = ["--modes", "buffered", "--update-mib-per-second", "0"];
    // No thread reads and compares that often.
    let load = ["--readers", "1", "--reads-per-second", "2000000"];
    let Some(report) = report_of(engine, directory, &[words, load].concat()) else {
        return;
    };
    let phases = &report["cases"][0]["runs"][0][0]["phases"];
    let figure = |phase: usize, pointer| phases[phase].pointer(pointer).and_then(|it| it.as_f64());
    let unstarted = figure(2, "/unstarted_reads").expect("a number");
    assert!(
        unstarted > figure(2, "/reads").expect("a number"),
        "{phases}"
    );
    // Reads that were due in the compaction have waited at least as long as the next phase was.
    let waited_us = 1e6 * figure(2, "/seconds").expect("a number");
    assert!(figure(1, "/response_us/p50") > Some(waited_us), "{phases}");
    assert!(figure(1, "/service_us/p50") < Some(waited_us), "{phases}");
    let notes = report["limitations"].to_string();
    assert!(
        notes.contains("reads that were due never started"),
        "{notes}"
    );
}

/// Checks that a driver tells how many hot keys its first pass has read.
pub fn check_first_pass(engine: &str, directory: &Path, library: Option<&str>) {
    let Some(driver) = driver(engine) else {
        return;
    };
    let mut database = json!({
        "directory": directory, "options": "", "keys": 100, "value_bytes": 100,
    });
    if let Some(library) = library {
        database["library"] = library.into();
    }
    let run = |command: &str, further: Value| {
        let mut parameters = database.clone();
        let (all, further) = (parameters.as_object_mut(), further.as_object().cloned());
        all.expect("an object").extend(further.expect("an object"));
        let mut driver = Command::new(&driver);
        driver.args([command, &parameters.to_string()]);
        let ended = output_within(Duration::from_secs(60), &mut driver);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{said}");
        ended.stdout
    };
    run("load", json!({"sorted_runs": 1, "updates": 0}));
    for (seconds, read_keys) in [(0, 0), (60, 70)] {
        let records = run(
            "run",
            json!({
                "start": "cold", "hot_keys": 70, "hot_layout": "scattered", "readers": 3,
                "loop": "open", "reads_per_second": 100, "load_steps": [100], "seed": 1,
                "first_pass_seconds": seconds, "warm_up_seconds": 0, "idle_seconds": 0,
                "compaction_seconds": 0, "after_seconds": 0, "compaction_bytes_per_second": 0,
                "update_bytes_per_second": 0, "verify": false,
            }),
        );
        // The kind, a phase, keys that were read, hot keys.
        let records = records.chunks_exact(32);
        let first_pass: Vec<_> = records.filter(|it| it[0] == 8).collect();
        assert_eq!(first_pass.len(), 1);
        assert_eq!((first_pass[0][8], first_pass[0][16]), (read_keys, 70));
    }
}
