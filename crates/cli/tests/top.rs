//! `coldstream top` without a terminal, and in a real one (tmux) where that is installed.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use coldstream_testkit::skip;
use common::process::Process;
use common::{Scene, assert_error, outcome};

#[test]
fn one_interval_as_text_and_as_json() {
    let scene = Scene::new();
    let process = Process::new(0);
    let pid = process.pid();
    let (code, stdout, stderr) =
        outcome(
            scene
                .coldstream()
                .args(["top", &pid, "--once", "--interval", "0.1"]),
        );
    assert_eq!((code, stderr.as_str()), (0, ""));
    for words in [
        "1 process",
        "sleep",
        &pid,
        "profile rocksdb",
        "3 MiB did not stay",
        "WORKING SET",
        "OFF",
    ] {
        assert!(stdout.contains(words), "{words} is not in {stdout}");
    }
    let (code, stdout, _) =
        outcome(
            scene
                .coldstream()
                .args(["top", "--json", "--interval", "0.1"]),
        );
    let model: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 0);
    let processes = model["processes"].as_array().unwrap();
    let found = processes
        .iter()
        .find(|found| found["pid"].as_u64() == Some(process.child.id().into()));
    assert_eq!(found.unwrap()["page_cache_spared_bytes"], 3 << 20);
}

#[test]
fn who_works_for_a_process_is_said() {
    let scene = Scene::new();
    let processes = [Process::new(0), Process::new(0)];
    processes[1].attach();
    let [library, attach] = processes.each_ref().map(Process::pid);
    let mut top = scene.coldstream();
    let (code, stdout, _) = outcome(top.args(["top", "--once", "--interval", "0.1"]));
    assert_eq!(code, 0);
    let row = |pid: &str| {
        let mut lines = stdout.lines();
        lines.find(|line| line.starts_with(pid)).expect(&stdout)
    };
    assert!(row(&library).contains("library"), "{stdout}");
    assert!(row(&attach).contains("attach"), "{stdout}");
    for (pid, is_attached) in [(&library, false), (&attach, true)] {
        let mut one = scene.coldstream();
        let (_, stdout, _) = outcome(one.args(["top", pid, "--once", "--interval", "0.1"]));
        let words = "by coldstream attach";
        assert_eq!(stdout.contains(words), is_attached, "{stdout}");
        let mut json = scene.coldstream();
        let (_, stdout, _) = outcome(json.args(["top", pid, "--json", "--interval", "0.1"]));
        let model: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(model["processes"][0]["is_attached"], is_attached);
        let (_, metrics, _) = outcome(scene.coldstream().arg("metrics"));
        let mut lines = metrics.lines();
        let of_process = format!("coldstream_process_info{{pid=\"{pid}\"");
        let line = lines.find(|line| line.starts_with(&of_process)).unwrap();
        let label = format!("attached=\"{is_attached}\"");
        assert!(line.contains(&label), "{line}");
    }
}

#[test]
fn what_is_recorded_can_be_replayed() {
    let scene = Scene::new();
    let process = Process::new(0);
    let record = scene.path("record.jsonl");
    let text = record.to_str().unwrap();
    let arguments = ["top", "--once", "--interval", "0.1", "--record", text];
    let (code, live, _) = outcome(scene.coldstream().args(arguments));
    assert_eq!(code, 0);
    drop(process);
    let (code, again, _) = outcome(scene.coldstream().args(["top", "--once", "--replay", text]));
    assert_eq!((code, again), (0, live));
    // One more interval.
    assert_eq!(outcome(scene.coldstream().args(arguments)).0, 0);
    let lines = || fs::read_to_string(&record).unwrap().lines().count();
    assert_eq!(lines(), 2);
    // A record is never overwritten, and needs no terminal.
    let arguments = "top --interval 0.1 --seconds 1 --record".split(' ');
    let long = |file: &str| outcome(scene.coldstream().args(arguments.clone()).arg(file));
    let (code, _, stderr) = long(text);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("exists"), "{stderr}");
    assert_eq!(lines(), 2);
    let (code, stdout, stderr) = long(scene.path("long.jsonl").to_str().unwrap());
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", ""));
    assert!(
        fs::read_to_string(scene.path("long.jsonl"))
            .unwrap()
            .lines()
            .count()
            >= 2
    );
    let once = scene.path("once.jsonl");
    let shown = once.to_str().unwrap();
    let of_one = [
        "top",
        "--interval",
        "1",
        "--seconds",
        "1",
        "--record",
        shown,
    ];
    assert_eq!(outcome(scene.coldstream().args(of_one)).0, 0);
    assert_eq!(fs::read_to_string(&once).unwrap().lines().count(), 1);
    let none = "top --interval 10 --seconds 5 --record none.jsonl".split(' ');
    let words = ["--seconds 5", "one interval of 10"];
    assert_error(scene.coldstream().args(none), 2, &words);
    assert!(!scene.path("none.jsonl").exists());
    fs::write(&record, "{\n").unwrap();
    let arguments = ["top", "--once", "--interval", "0.1", "--record", text];
    assert_error(scene.coldstream().args(arguments), 1, &["not a record"]);
    let mut replay = scene.coldstream();
    let words = ["line 1", "not a record"];
    assert_error(replay.args(["top", "--once", "--replay", text]), 1, &words);
    let mut absent = scene.coldstream();
    let words = ["cannot replay", "absent"];
    assert_error(
        absent.args(["top", "--once", "--replay", "absent"]),
        7,
        &words,
    );
}

#[test]
fn what_cannot_be_shown_is_an_error() {
    let scene = Scene::new();
    assert_error(scene.coldstream().arg("top"), 1, &["no terminal", "--once"]);
    let mut none = scene.coldstream();
    assert_error(
        none.args(["top", "4194304", "--once"]),
        7,
        &["no process 4194304"],
    );
    let own = std::process::id().to_string();
    let mut plain = scene.coldstream();
    assert_error(
        plain.args(["top", &own, "--once"]),
        7,
        &["has no status page"],
    );
}

/// A tmux server of its own, which ends with the test.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    fn start(scene: &Scene, columns: &str, lines: &str, command: &str) -> Self {
        // A server that is just ending may still have the socket of the one before.
        let socket = scene.path(&format!("tmux-{columns}"));
        let tmux = Self { socket };
        tmux.run(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            columns,
            "-y",
            lines,
            command,
        ]);
        tmux
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        let output = tmux
            .arg("-S")
            .arg(&self.socket)
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The screen, as soon as it has these words.
    fn wait_for(&self, words: &str) -> String {
        let patience = Instant::now() + Duration::from_secs(30);
        loop {
            let screen = self.run(&["capture-pane", "-p"]);
            if screen.contains(words) {
                return screen;
            }
            assert!(Instant::now() < patience, "{words} is not in\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

fn command_in(scene: &Scene, arguments: &str) -> String {
    let library = scene.path("libcoldstream.so");
    let program = Path::new(env!("CARGO_BIN_EXE_coldstream"));
    format!(
        "COLDSTREAM_LIBRARY={} {} top --interval 0.1 {arguments}; echo ended with $?; sleep 60",
        library.display(),
        program.display()
    )
}

#[test]
fn a_real_terminal_wide_and_narrow() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return skip("tmux is not installed");
    }
    let scene = Scene::new();
    let process = Process::new(0);
    let pid = process.pid();
    // A short screen has no room for other processes of this machine.
    for (columns, lines, arguments) in [("120", "30", ""), ("40", "12", &pid)] {
        let tmux = Tmux::start(&scene, columns, lines, &command_in(&scene, arguments));
        let screen = tmux.wait_for("q quit");
        assert!(
            screen.contains("coldstream top") && screen.contains(&pid),
            "{screen}"
        );
        tmux.run(&["send-keys", " "]);
        tmux.wait_for("PAUSED");
        tmux.run(&["send-keys", "s"]);
        tmux.wait_for("background");
        tmux.run(&["send-keys", "9"]);
        tmux.wait_for("has no switch 9");
        tmux.run(&["send-keys", "q"]);
        tmux.wait_for("ended with 0");
    }
    let tmux = Tmux::start(&scene, "80", "24", &command_in(&scene, &pid));
    tmux.wait_for("sleep");
    drop(process);
    let screen = tmux.wait_for("ended with 7");
    assert!(screen.contains("has ended"), "{screen}");
}
