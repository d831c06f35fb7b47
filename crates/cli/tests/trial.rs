//! `ctl trial` of a real RocksDB process under load and under the real library.

mod common;

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use coldstream_control::{Counter, Mechanism};
use coldstream_testkit::database::sstables;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::{Program, Running};
use coldstream_testkit::status_client::StatusClient;
use coldstream_testkit::{directories, residency, tools};
use common::{Scene, assert_error, outcome};

const PATIENCE: Duration = Duration::from_secs(60);

/// `db_bench` that reads while it writes and compacts. Its SSTables leave the page cache again and again.
struct Database {
    scene: Scene,
    running: Running,
    client: StatusClient,
    ends: Arc<AtomicBool>,
    dropping: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Database {
    /// `None`, with a message, where there is no `db_bench`.
    fn start() -> Option<Self> {
        let program = tools::find("db_bench")?;
        let directory = directories::on_disk();
        let path = directory.path().join("db");
        let running = Program::new(program)
            .argument(format!("--db={}", path.display()))
            .arguments([
                "--benchmarks=fillseq,readwhilewriting",
                "--num=10000",
                "--value_size=1000",
                "--compression_type=none",
                "--write_buffer_size=1048576",
                "--target_file_size_base=1048576",
                "--max_bytes_for_level_base=4194304",
                "--cache_size=0",
                "--threads=2",
                "--duration=300",
                "--benchmark_write_rate_limit=8000000",
                "--stats_interval=100000000",
            ])
            .start_with(&Preload::quiet());
        let client = StatusClient::of(running.process_id());
        let ends = Arc::new(AtomicBool::new(false));
        let dropping = {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || drop_pages_until(&path, &ends))
        };
        let database = Self {
            scene: Scene::new(),
            running,
            client,
            ends,
            dropping: Some(dropping),
            _directory: directory,
        };
        wait_until("reads", || database.client.snapshot().device_reads() > 0);
        Some(database)
    }

    fn pid(&self) -> String {
        self.running.process_id().to_string()
    }

    fn trial(&self, arguments: &str) -> Command {
        let mut command = self.scene.coldstream();
        command
            .args(["ctl", "trial", &self.pid()])
            .args(arguments.split_whitespace());
        command
    }

    /// A trial that has switched something off.
    fn trial_without(&self) -> Child {
        // A turn of many seconds: it stays without until somebody ends it.
        let child = self
            .trial("--seconds 400 --turns 100 --bound-ms 60000")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("off", || !self.is_as_before());
        child
    }

    fn is_as_before(&self) -> bool {
        self.client.page().switches().off.is_empty()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(dropping) = self.dropping.take() {
            let _ = dropping.join();
        }
        kill("-KILL", self.running.process_id());
    }
}

fn drop_pages_until(path: &std::path::Path, ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        let files: Vec<PathBuf> = sstables(path);
        for file in files.iter().filter_map(|path| File::open(path).ok()) {
            residency::drop_pages(&file);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(signal: &str, pid: u32) {
    let pid = pid.to_string();
    let _ = Command::new("kill").args([signal, &pid]).status();
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < patience, "no {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), stderr)
}

#[test]
fn a_trial_switches_in_turn_and_says_what_it_found() {
    let Some(database) = Database::start() else {
        return;
    };
    let before = database.client.get(Counter::SwitchRequests);
    let mut trial = database.trial("--seconds 6 --turns 4 --bound-ms 60000 --json");
    let (code, stdout, stderr) = outcome(&mut trial);
    let found: serde_json::Value = serde_json::from_str(&stdout).expect(&stderr);
    assert_eq!(found["ended"], "completed", "{found:#}");
    assert_eq!(found["restored"], true);
    let sides = found["turns"].as_array().unwrap().iter();
    let sides: Vec<_> = sides.map(|turn| turn["side"].as_str().unwrap()).collect();
    assert_eq!(sides, ["with", "without", "without", "with"]);
    // With and without: one request each turn, and one that restores.
    assert_eq!(database.client.get(Counter::SwitchRequests), before + 5);
    assert!(database.is_as_before());
    for side in ["with", "without"] {
        let figures = &found[side];
        let reads = figures["device_reads"]["device_reads"].as_u64().unwrap();
        assert!(reads > 0, "{found:#}");
        assert!(
            figures["background_read_bytes_per_second"]
                .as_f64()
                .unwrap()
                > 0.0,
            "{found:#}"
        );
    }
    // A slow machine may have too few reads: then it says so.
    let has_too_few = found["verdict"] == "too_few_reads";
    assert_eq!(code, i32::from(has_too_few), "{found:#}");
    assert_eq!(stderr.contains("too few reads"), has_too_few, "{stderr}");
    // The same for a person.
    let mut trial = database.trial("--seconds 4 --turns 4 --only writes --bound-ms 60000");
    let (_, stdout, _) = outcome(&mut trial);
    for words in [
        "2 turns with writes, 2 without",
        "p99 of device reads",
        "MiB/s",
    ] {
        assert!(stdout.contains(words), "{words} is not in {stdout}");
    }
}

#[test]
fn the_guard_ends_it_at_once() {
    let Some(database) = Database::start() else {
        return;
    };
    // The first turn without would last 75 s.
    let mut trial = database.trial("--seconds 300 --turns 300 --bound-ms 0.05");
    let (code, stdout, stderr) = outcome(&mut trial);
    assert_eq!(code, 10, "{stderr}");
    assert!(stderr.contains("the guard ended the trial"), "{stderr}");
    assert!(stdout.contains("no verdict"), "{stdout}");
    assert!(database.is_as_before());
}

#[test]
fn however_it_ends_the_switches_are_as_before() {
    let Some(database) = Database::start() else {
        return;
    };
    let mut interrupted = Vec::new();
    for signal in ["-INT", "-TERM"] {
        let trial = database.trial_without();
        kill(signal, trial.id());
        interrupted.push(ended(trial));
        assert!(database.is_as_before(), "{signal}");
    }
    for (code, stderr) in interrupted {
        assert_eq!(code, Some(130), "{stderr}");
        assert!(stderr.contains("as before"), "{stderr}");
    }

    // Nothing of its own can restore them then: its keeper does.
    let trial = database.trial_without();
    kill("-KILL", trial.id());
    let (_, stderr) = ended(trial);
    assert!(stderr.contains("the trial died"), "{stderr}");
    assert!(database.is_as_before());

    // Somebody else's switch stays.
    let trial = database.trial_without();
    let mut other = database.scene.coldstream();
    let pid = database.pid();
    let (code, _, stderr) = outcome(other.args(["ctl", "on", &pid, "--only", "reads"]));
    assert_eq!(code, 0, "{stderr}");
    let (code, stderr) = ended(trial);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("somebody else"), "{stderr}");
    let off = database.client.page().switches().off;
    assert!(off.contains(Mechanism::Writes) && !off.contains(Mechanism::Reads));

    // The database ends.
    let mut on = database.scene.coldstream();
    assert_eq!(outcome(on.args(["ctl", "on", &pid])).0, 0);
    let trial = database.trial_without();
    kill("-KILL", database.running.process_id());
    let (code, stderr) = ended(trial);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("has ended"), "{stderr}");
}

#[test]
fn what_cannot_be_tried_is_an_error() {
    let scene = Scene::new();
    let process = common::process::Process::new(0);
    let pid = process.pid();
    let mut odd = scene.coldstream();
    assert_error(
        odd.args(["ctl", "trial", &pid, "--turns", "6"]),
        2,
        &["--turns 6", "4, 8, 12"],
    );
    let mut short = scene.coldstream();
    assert_error(
        short.args(["ctl", pid.as_str(), "trial", "--seconds", "5"]),
        2,
        &["too few for 8 turns"],
    );
    let mut older = scene.coldstream();
    assert_error(
        older.args(["ctl", "trial", &pid]),
        1,
        &["nothing that can be switched"],
    );
    let mut none = scene.coldstream();
    assert_error(
        none.args(["ctl", "trial", "4194304"]),
        7,
        &["no process 4194304"],
    );
}
