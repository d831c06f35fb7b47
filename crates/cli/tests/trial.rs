//! `ctl trial` of a real RocksDB process under load and under the real library.

mod common;

use std::process::{Child, Command, Stdio};

use coldstream_control::{Counter, Mechanism};
use common::database::{Database, kill, wait_until};
use common::{Scene, assert_error, outcome};

fn trial(database: &Database, arguments: &str) -> Command {
    let mut command = database.scene.coldstream();
    command
        .args(["ctl", "trial", &database.pid()])
        .args(arguments.split_whitespace());
    command
}

/// A trial that has switched something off.
fn trial_without(database: &Database) -> Child {
    // Two turns without follow on one with: four seconds for whoever ends it.
    let child = trial(database, "--seconds 200 --turns 100 --bound-ms 60000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("off", || !database.is_as_before());
    child
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
    let mut command = trial(&database, "--seconds 4 --turns 4 --bound-ms 60000 --json");
    let (code, stdout, stderr) = outcome(&mut command);
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
    let (expected, words) = match found["verdict"].as_str() {
        Some("too_few_reads") => (1, "use --seconds "),
        Some("no_clear_difference") => (12, "no clear difference"),
        _ => (0, ""),
    };
    assert_eq!(code, expected, "{found:#}");
    assert!(stderr.contains(words), "{stderr}");
    // The same for a person.
    let mut command = trial(
        &database,
        "--seconds 4 --turns 4 --only writes --bound-ms 60000",
    );
    let (_, stdout, _) = outcome(&mut command);
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
    let mut command = trial(&database, "--seconds 300 --turns 300 --bound-ms 0.05");
    let (code, stdout, stderr) = outcome(&mut command);
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
        let child = trial_without(&database);
        kill(signal, child.id());
        interrupted.push(ended(child));
        assert!(database.is_as_before(), "{signal}");
    }
    for (code, stderr) in interrupted {
        assert_eq!(code, Some(130), "{stderr}");
        assert!(stderr.contains("as before"), "{stderr}");
    }

    // Nothing of its own can restore them then: its keeper does.
    let child = trial_without(&database);
    kill("-KILL", child.id());
    let (_, stderr) = ended(child);
    assert!(stderr.contains("the trial died"), "{stderr}");
    assert!(database.is_as_before());

    // A second one would take the first one's switches for the process's own.
    let child = trial_without(&database);
    assert_error(&mut trial(&database, ""), 1, &["another trial of process"]);
    kill("-INT", child.id());
    assert_eq!(ended(child).0, Some(130));

    // Somebody else's switch stays.
    let child = trial_without(&database);
    let mut other = database.scene.coldstream();
    let pid = database.pid();
    let (code, _, stderr) = outcome(other.args(["ctl", "on", &pid, "--only", "reads"]));
    assert_eq!(code, 0, "{stderr}");
    let (code, stderr) = ended(child);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("somebody else"), "{stderr}");
    let off = database.client.page().switches().off;
    assert!(off.contains(Mechanism::Writes) && !off.contains(Mechanism::Reads));

    // The database ends.
    let mut on = database.scene.coldstream();
    assert_eq!(outcome(on.args(["ctl", "on", &pid])).0, 0);
    let child = trial_without(&database);
    kill("-KILL", database.running.process_id());
    let (code, stderr) = ended(child);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("has ended"), "{stderr}");
}

#[test]
fn what_cannot_be_tried_is_an_error() {
    let scene = Scene::new();
    let process = common::process::Process::new(0);
    let pid = process.pid();
    for odd in ["3", "6"] {
        let mut command = scene.coldstream();
        let (code, _, stderr) = outcome(command.args(["ctl", "trial", &pid, "--turns", odd]));
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("use 4, 8, 12 and so on"), "{stderr}");
    }
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

#[test]
fn what_the_operator_has_switched_off_stays_off() {
    let Some(database) = Database::start() else {
        return;
    };
    let mut off = database.scene.coldstream();
    off.args(["ctl", "off", &database.pid(), "--only", "handover"]);
    assert_eq!(outcome(&mut off).0, 0);
    let mut named = trial(&database, "--only handover");
    assert_error(&mut named, 1, &["handover is switched off", "ctl on"]);
    let mut command = trial(&database, "--seconds 4 --turns 4 --bound-ms 60000 --json");
    let (_, stdout, stderr) = outcome(&mut command);
    let found: serde_json::Value = serde_json::from_str(&stdout).expect(&stderr);
    let switched = found["mechanisms"].as_array().unwrap();
    assert!(switched.iter().any(|it| it == "reads"), "{found:#}");
    assert!(switched.iter().all(|it| it != "handover"), "{found:#}");
    let off = database.client.snapshot().switches.off;
    assert!(off.contains(Mechanism::Handover) && !off.contains(Mechanism::Reads));
    let mut all_off = database.scene.coldstream();
    all_off.args(["ctl", "off", &database.pid()]);
    assert_eq!(outcome(&mut all_off).0, 0);
    assert_error(&mut trial(&database, ""), 1, &["all is switched off"]);
}
