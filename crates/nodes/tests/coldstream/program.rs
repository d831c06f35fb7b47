//! The command and the library under test, and the counters of a node under them.

use coldstream_nodes::{Launch, Version};
use coldstream_testkit::cargo_build::built;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `coldstream` command beside its library.
pub fn command() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
        let command = ["--package", "coldstream-cli", "--bin", "coldstream"];
        let library = ["--package", "coldstream-preload", "--lib"];
        let profile_directory = built(&manifest, &[command.as_slice(), &library].concat());
        profile_directory.join("coldstream")
    })
}

/// Starts a node under Coldstream, as users do.
pub fn launch() -> Launch {
    launch_with(&[])
}

/// The same, with handovers that take their time even if the processors are saturated.
pub fn launch_without_guard() -> Launch {
    launch_with(WITHOUT_GUARD)
}

/// The options of [`launch_without_guard`].
pub const WITHOUT_GUARD: &[&str] = &["--priority", "reads-first"];

/// The same, with options of `coldstream run`.
pub fn launch_with(options: &[&str]) -> Launch {
    let words = [&["run", "--profile", "cassandra"], options, &["--"]].concat();
    let mut prefix = vec![command().as_os_str().to_owned()];
    prefix.extend(words.into_iter().map(Into::into));
    Launch {
        prefix,
        ..Launch::default()
    }
}

/// Exit code of `coldstream doctor` with advice.
const SOMETHING_TO_CHANGE: i32 = 13;

/// Asserts the report of `coldstream doctor PID`: the library is loaded and sees reads of data files, and new
/// SSTables are written directly.
pub fn assert_doctor_is_content(process_id: u32, version: Version) {
    let output = Command::new(command())
        .args(["doctor", "--json", &process_id.to_string()])
        .output()
        .expect("coldstream doctor");
    let said = String::from_utf8_lossy(&output.stderr);
    // The machine's readahead, or a limit of its containers, may be something to change.
    let has_ended_well = matches!(output.status.code(), Some(0 | SOMETHING_TO_CHANGE));
    assert!(has_ended_well, "coldstream doctor: {said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let process = &report["processes"][0];
    assert!(process["library"].is_string(), "{process:#}");
    assert_eq!(process["cassandra"]["version"], version.name());
    assert_eq!(process["cassandra"]["data_reads"], "pread");
    let advice = process["cassandra"]["advice"].as_array();
    assert!(advice.is_some_and(Vec::is_empty), "{process:#}");
    assert_eq!(report["paths"][0]["write_io_mode"], "direct");
}

/// Exit code of `coldstream ctl` if a process has not answered within five seconds.
const NO_ANSWER: i32 = 9;
/// The most missed answers that a busy machine may cause.
const SWITCH_TRIES: u32 = 12;

/// Switches everything of a process `on` or `off`.
pub fn switch(process_id: u32, way: &str) {
    for left in (0..SWITCH_TRIES).rev() {
        let output = Command::new(command())
            .args(["ctl", way, &process_id.to_string()])
            .output()
            .expect("coldstream ctl");
        if output.status.success() {
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let is_late = output.status.code() == Some(NO_ANSWER);
        assert!(is_late && left > 0, "coldstream ctl {way}: {said}");
    }
}

/// The counters of a process.
#[derive(Debug)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Those of `coldstream ctl PID status`.
    pub fn of(process_id: u32) -> Self {
        let output = Command::new(command())
            .args(["ctl", &process_id.to_string(), "status", "--json"])
            .output()
            .expect("coldstream ctl");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "coldstream ctl: {said}");
        Self::of_status(&output.stdout)
    }

    /// Those of the output of `ctl status --json`.
    pub fn of_status(json: &[u8]) -> Self {
        let status: serde_json::Value = serde_json::from_slice(json).expect("JSON");
        let counters = status["counters"].as_object().expect("counters");
        Self(
            counters
                .iter()
                .map(|(name, value)| (name.clone(), value.as_u64().expect("a number")))
                .collect(),
        )
    }

    pub fn get(&self, name: &str) -> u64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// Prints the counters. Asserts that the library had no errors of its own.
    pub fn report(&self, who: &str) {
        eprintln!("{who}: {}", self.line());
        self.assert_well(who);
    }

    /// Asserts that the library was active, and had no errors of its own.
    pub fn assert_at_work(&self, who: &str) {
        self.report(who);
        for name in ["bytes_direct", "write_bytes_direct", "staged_writes"] {
            assert!(self.get(name) > 0, "{who}: {name} is 0");
        }
    }

    /// Asserts that the library had no errors of its own.
    pub fn assert_well(&self, who: &str) {
        for name in [
            "fallback_panic",
            "fallback_read_failed",
            "fallback_write_failed",
            "fallback_write_no_effect",
            "fallback_identity",
            "write_errors",
            "staging_ended_call",
            "staging_ended_buffer",
        ] {
            assert_eq!(self.get(name), 0, "{who}: {name}; {}", self.line());
        }
    }

    /// All counters other than 0.
    fn line(&self) -> String {
        let counted = self.0.iter().filter(|(_, value)| **value != 0);
        let words: Vec<_> = counted
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        words.join(" ")
    }
}
