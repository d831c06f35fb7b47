//! `coldstream lab leveldb` on a real LevelDB that is too small to mean anything.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use coldstream_testkit::{directories, skip, tools};

/// `coldstream lab leveldb` in a directory of its own. `None`, and a line on standard error, where
/// LevelDB is not installed or the driver is not built.
fn lab(directory: &Path, words: &[&str]) -> Option<Output> {
    tools::find_library("libleveldb.so")?;
    let executable = PathBuf::from(env!("CARGO_BIN_EXE_coldstream"));
    let driver = executable.with_file_name("coldstream-leveldb-driver");
    if !driver.exists() {
        skip(format!(
            "{} is not built (`make drivers`)",
            driver.display()
        ));
        return None;
    }
    let ended = Command::new(executable)
        .args(["lab", "leveldb", "--keys", "12000", "--memory-mib", "128"])
        .args(["--hot-keys", "1000", "--reads-per-second", "500"])
        .args(["--warm-up-seconds", "1", "--idle-seconds", "1"])
        .args(["--after-seconds", "1", "--work-dir", "work", "--runs", "1"])
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output();
    Some(ended.expect("start"))
}

#[test]
fn leveldb_compacts_all_the_time_while_every_value_is_right() {
    let directory = directories::on_disk();
    let words = [
        "--modes",
        "buffered,coldstream:readahead=scans-and-mapped@max_file_size=4194304",
        "--update-mib-per-second",
        "16",
        "--compaction-seconds",
        "4",
        "--verify",
        "--json",
    ];
    let Some(ended) = lab(directory.path(), &words) else {
        return;
    };
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let engine = report["engine"].as_str().expect("a name");
    assert!(engine.starts_with("LevelDB 1."), "{engine}");
    for mode in 0..2 {
        let run = &report["cases"][0]["runs"][mode][0];
        let figure = |name: &str| run[name].as_f64().expect("a number");
        for name in [
            "compacted_read_bytes",
            "compacted_written_bytes",
            "user_written_bytes",
            "updates_per_second",
            "compaction_engine_cpu_seconds",
        ] {
            assert!(figure(name) > 0.0, "{name}: {run}");
        }
        for phase in 0..3 {
            let phase = &run["phases"][phase];
            assert!(phase["reads"].as_u64() > Some(100), "{phase}");
            assert!(phase["service_us"]["p99"].as_f64() > Some(0.0), "{phase}");
        }
    }
    assert!(!directory.path().join("work").exists());
}

#[test]
fn an_option_that_leveldb_does_not_know_is_named_before_anything_is_loaded() {
    let directory = directories::on_disk();
    for (option, named) in [
        ("no_such_option=1", "no_such_option"),
        ("block_size=4k", "block_size=4k"),
    ] {
        let mode = format!("buffered,buffered@{option}");
        let Some(ended) = lab(directory.path(), &["--modes", &mode]) else {
            return;
        };
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(named), "{said}");
        assert!(!directory.path().join("work").exists());
    }
}
