//! `coldstream lab` on an engine with a load driver, so small that it means nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use coldstream_testkit::process::{Ended, output_within};
use coldstream_testkit::skip;

/// `coldstream lab ENGINE` in a directory of its own. `None`, and a line on standard error, where the driver is
/// not built.
pub fn lab(engine: &str, directory: &Path, words: &[&str]) -> Option<Ended> {
    let executable = PathBuf::from(env!("CARGO_BIN_EXE_coldstream"));
    let driver = executable.with_file_name(format!("coldstream-{engine}-driver"));
    if !driver.exists() {
        skip(format!(
            "{} is not built (`make drivers`)",
            driver.display()
        ));
        return None;
    }
    let memory: &[&str] = match words.contains(&"--memory-mib") {
        true => &[],
        false => &["--memory-mib", "128"],
    };
    let mut command = Command::new(executable);
    command
        .args(["lab", engine, "--keys", "12000"])
        .args(memory)
        .args(["--hot-keys", "1000", "--reads-per-second", "500"])
        .args(["--warm-up-seconds", "1", "--idle-seconds", "1"])
        .args(["--after-seconds", "1", "--work-dir", "work", "--runs", "1"])
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null());
    Some(output_within(Duration::from_secs(600), &mut command))
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
