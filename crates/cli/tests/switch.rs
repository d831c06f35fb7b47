//! `ctl on`, `off` and `set` with a program under the real library.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coldstream_testkit::skip;
use common::{Scene, assert_error, doctor_says, is_root, make_pipe, outcome, set_mode};

/// Opens an SSTable, prints a line, and waits. A variable names its thread.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
int main(void) {
  if (getenv("THREAD")) prctl(PR_SET_NAME, getenv("THREAD"));
  if (open("000001.sst", O_RDONLY | O_CREAT, 0600) < 0) return 1;
  puts("open");
  fflush(stdout);
  return getchar() == 0;
}
"#;

struct Database {
    scene: Scene,
    library: PathBuf,
    program: PathBuf,
}

/// A running program. It ends when this is dropped.
struct Running(Child);

impl Database {
    fn new() -> Option<Self> {
        let scene = Scene::new();
        let program = scene.path("database");
        if !scene.compile(PROGRAM, &program, &[]) {
            skip("no C compiler");
            return None;
        }
        // In a directory that other users may read.
        let library = scene.path("real.so");
        fs::copy(coldstream_testkit::library::path(), &library).unwrap();
        set_mode(&library, 0o755);
        Some(Self {
            scene,
            library,
            program,
        })
    }

    fn start(&self, user: Option<u32>) -> Running {
        self.start_with(user, &[])
    }

    fn start_with(&self, user: Option<u32>, variables: &[(&str, &str)]) -> Running {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("LD_PRELOAD", &self.library)
            .envs(variables.iter().copied())
            .current_dir(self.scene.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(user) = user {
            command.uid(user);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "open\n");
        Running(child)
    }
}

impl Running {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.pid()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed may have left it stopped: then it would never end.
        let _ = Command::new("kill").args(["-CONT", &self.pid()]).status();
        // It ends by itself, so that it removes its page.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn status(database: &Database, pid: &str) -> serde_json::Value {
    let mut command = database.scene.coldstream();
    let (code, stdout, stderr) = outcome(command.args(["ctl", "status", pid, "--json"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn a_process_is_switched_and_set() {
    let Some(database) = Database::new() else {
        return;
    };
    let running = database.start(None);
    let pid = running.pid();
    let done = |arguments: &[&str]| {
        let (code, stdout, stderr) = outcome(database.scene.coldstream().args(arguments));
        assert_eq!((code, stderr.as_str()), (0, ""), "{arguments:?}");
        stdout
    };
    let said = done(&["ctl", "off", &pid]);
    assert!(said.contains("on: nothing; off: reads"), "{said}");
    let switches = &status(&database, &pid)["switches"];
    let off = serde_json::json!({
        "reads": false, "writes": false, "handover": false, "priority": false, "readahead": false
    });
    assert_eq!(*switches, off);

    // The process may be named first. Single mechanisms can be switched.
    done(&["ctl", &pid, "on", "--only", "reads,priority"]);
    let switches = &status(&database, &pid)["switches"];
    assert_eq!(switches["writes"], false);
    assert_eq!(switches["reads"], true);
    let said = done(&["ctl", &pid]);
    for (mechanism, state) in [("reads", "on;"), ("writes", "off")] {
        let mut lines = said.lines();
        let row = lines.find(|line| line.trim_start().starts_with(mechanism));
        let words: Vec<_> = row.expect(mechanism).split_whitespace().collect();
        assert_eq!(words[1], state, "{said}");
    }

    let said = done(&[
        "ctl",
        "set",
        &pid,
        "nice=3,streaming:none",
        "io-priority=idle",
        "--json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    let nice = "compaction:3,flush:none,validation:3,streaming:none";
    assert_eq!(json[0]["nice"], nice);
    let now = status(&database, &pid);
    assert_eq!(now["nice"], nice);
    let io_priority = "compaction:idle,flush:none,validation:idle,streaming:idle";
    assert_eq!(now["io_priority"], io_priority);
    assert_eq!(now["switches"]["writes"], false, "as it was");
    assert_eq!(now["counters"]["switch_requests"], 3);
}

#[test]
fn doctor_says_what_is_switched_off() {
    let Some(database) = Database::new() else {
        return;
    };
    let running = database.start(None);
    let pid = running.pid();
    let doctor = |format: &[&str]| {
        let mut command = database.scene.coldstream();
        doctor_says(command.args(["doctor", &pid]).args(format))
    };
    assert!(!doctor(&[]).contains("switched off"));
    let all = "everything is switched off: `coldstream ctl on";
    for (only, row, is_all) in [
        (
            &["--only", "writes"][..],
            "switched off         writes (`coldstream ctl on ",
            false,
        ),
        (
            &[],
            "switched off         reads, writes, handover, priority, readahead (`",
            true,
        ),
    ] {
        let mut off = database.scene.coldstream();
        assert_eq!(outcome(off.args(["ctl", "off", &pid]).args(only)).0, 0);
        let text = doctor(&[]);
        assert!(text.contains(row), "{text}");
        assert_eq!(text.contains(all), is_all, "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&doctor(&["--json"])).unwrap();
    let off = &json["processes"][0]["mechanisms_off"];
    assert_eq!(off[0], "reads");
    assert_eq!(off.as_array().unwrap().len(), 5);
}

#[test]
fn eviction_is_switched_where_it_is_configured() {
    let Some(database) = Database::new() else {
        return;
    };
    let running = database.start_with(None, &[("COLDSTREAM_EVICTION", "on")]);
    let pid = running.pid();
    assert_eq!(status(&database, &pid)["switches"]["eviction"], true);
    for (action, is_on) in [("off", false), ("on", true)] {
        let arguments = ["ctl", action, &pid, "--only", "eviction"];
        let (code, _, stderr) = outcome(database.scene.coldstream().args(arguments));
        assert_eq!((code, stderr.as_str()), (0, ""));
        let switches = &status(&database, &pid)["switches"];
        assert_eq!(switches["eviction"], is_on);
        assert_eq!(switches["reads"], true);
    }
}

#[test]
fn impossible_requests_are_refused() {
    let Some(database) = Database::new() else {
        return;
    };
    let running = database.start_with(None, &[("COLDSTREAM_HANDOVER", "off")]);
    let pid = running.pid();
    for (arguments, code, words) in [
        (
            &["off", &pid, "--only", "handover"][..],
            1,
            &["no handover"][..],
        ),
        (
            // Eviction is off by default.
            &["off", &pid, "--only", "eviction"],
            1,
            &["no eviction"],
        ),
        (
            &["set", &pid, "window=1MiB"],
            2,
            &["window cannot", "nice and io-priority"],
        ),
        (
            &["set", &pid, "nice=20"],
            2,
            &["nice=20", "none or 0 to 19"],
        ),
        (&["set", &pid, "nice"], 2, &["none or 0 to 19"]),
        (&["off", "4194304"], 7, &["no process 4194304"]),
    ] {
        let mut command = database.scene.coldstream();
        assert_error(command.arg("ctl").args(arguments), code, words);
    }
    for arguments in [
        &["off", &pid, "--only", "everything"][..],
        &["off", "0"],
        // An unset variable in quotes. Without them it would mean all processes.
        &["off", ""],
        &["status", ""],
        &["set", &pid],
        &["set"],
    ] {
        let (code, _, _) = outcome(database.scene.coldstream().arg("ctl").args(arguments));
        assert_eq!(code, 2, "{arguments:?}");
    }
    assert_eq!(status(&database, &pid)["counters"]["switch_requests"], 0);
}

#[test]
fn a_process_that_does_not_answer() {
    let Some(database) = Database::new() else {
        return;
    };
    let running = database.start(None);
    let pid = running.pid();
    running.signal("-STOP");
    let mut command = database.scene.coldstream();
    assert_error(
        command.args(["ctl", "off", &pid]),
        9,
        &["has not answered", "it is stopped", "kill -CONT", "status"],
    );
    running.signal("-CONT");
    let start = Instant::now();
    while status(&database, &pid)["switches"]["reads"] != false {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    // The next request is answered as usual.
    let (code, _, _) = outcome(database.scene.coldstream().args(["ctl", "on", &pid]));
    assert_eq!(code, 0);
    assert_eq!(status(&database, &pid)["switches"]["reads"], true);
}

#[test]
fn an_unanswered_request_is_not_undone_by_the_next() {
    let Some(database) = Database::new() else {
        return;
    };
    let running = database.start(None);
    let pid = running.pid();
    running.signal("-STOP");
    for arguments in [
        &["ctl", "off", &pid, "--only", "reads"][..],
        &["ctl", "off", &pid, "--only", "writes"],
        &["ctl", "set", &pid, "nice=3"],
    ] {
        let mut command = database.scene.coldstream();
        assert_error(command.args(arguments), 9, &["has not answered"]);
    }
    running.signal("-CONT");
    let start = Instant::now();
    while status(&database, &pid)["counters"]["switch_requests"] == 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let now = status(&database, &pid);
    let switches = &now["switches"];
    assert_eq!(
        (&switches["reads"], &switches["writes"]),
        (&false.into(), &false.into())
    );
    assert_eq!(switches["handover"], true);
    assert!(now["nice"].as_str().unwrap().starts_with("compaction:3"));
}

/// A user id that is in use nowhere else: all of its processes belong to this test.
const USER: u32 = 64_901;

/// A program and a copy of the command that other users may start.
fn for_two_users() -> Option<(Database, PathBuf)> {
    if !is_root() {
        skip("needs root, to become two users");
        return None;
    }
    let database = Database::new()?;
    set_mode(&database.scene.path("."), 0o777);
    let coldstream = database.scene.copy_of_coldstream();
    Some((database, coldstream))
}

#[test]
fn users_switch_their_own_processes() {
    let Some((database, coldstream)) = for_two_users() else {
        return;
    };
    let as_user = |arguments: &[&str]| {
        let mut command = Command::new(&coldstream);
        command.uid(USER).args(arguments);
        command
    };
    let of_root = database.start(None);
    fs::remove_file(database.scene.path("000001.sst")).unwrap();
    let theirs = [database.start(Some(USER)), database.start(Some(USER))];
    for arguments in [&["off"][..], &["on"], &["set"]] {
        let mut words = vec!["ctl"];
        words.extend(arguments);
        let pid = of_root.pid();
        words.push(&pid);
        if arguments == ["set"] {
            words.push("nice=1");
        }
        assert_error(
            &mut as_user(&words),
            5,
            &["belongs to user root", "sudo -u root coldstream"],
        );
    }
    // Nobody can be asked here whether all are meant.
    let mut all = as_user(&["ctl", "off"]);
    assert_error(&mut all, 2, &["name a process id", "--all"]);
    // All processes of the user, and no others.
    let words = ["ctl", "off", "--all", "--only", "writes"];
    let (code, stdout, stderr) = outcome(&mut as_user(&words));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
    for running in &theirs {
        let line = format!(
            "process {}: on: reads, handover, priority, readahead; off: writes",
            running.pid()
        );
        assert!(stdout.contains(&line), "{stdout}");
    }
    // Several that are named, and no question.
    let named = theirs.each_ref().map(Running::pid);
    let words = ["ctl", "off", &named[0], &named[1]];
    let (code, stdout, stderr) = outcome(&mut as_user(&words));
    assert_eq!((code, stderr.as_str()), (0, ""));
    for pid in &named {
        let line = format!("process {pid}: on: nothing; off: reads");
        assert!(stdout.contains(&line), "{stdout}");
    }
    let root_is = status(&database, &of_root.pid());
    assert_eq!(root_is["counters"]["switch_requests"], 0);
    drop(theirs);
    assert_error(
        &mut as_user(&["ctl", "off"]),
        7,
        &["no process of this user"],
    );
    let _ = fs::remove_dir(coldstream_control::directory_path(USER));
}

#[test]
fn a_refused_nice_value_is_said_in_the_answer() {
    const UNPRIVILEGED: u32 = 64_903;
    let Some((database, coldstream)) = for_two_users() else {
        return;
    };
    for (thread, refused) in [("rocksdb:low0", 1), ("reader", 0)] {
        let running = database.start_with(Some(UNPRIVILEGED), &[("THREAD", thread)]);
        fs::remove_file(database.scene.path("000001.sst")).unwrap();
        let pid = running.pid();
        let set = |words: &[&str]| {
            let mut command = Command::new(&coldstream);
            command
                .uid(UNPRIVILEGED)
                .args(["ctl", "set", &pid])
                .args(words);
            let (code, stdout, stderr) = outcome(&mut command);
            assert_eq!((code, stderr.as_str()), (0, ""));
            stdout
        };
        let said = set(&["nice=15"]);
        assert_eq!(
            said.contains("but refused for 1 thread: set LimitNICE=+0"),
            refused == 1,
            "{said}"
        );
        let json: serde_json::Value = serde_json::from_str(&set(&["nice=15", "--json"])).unwrap();
        assert_eq!(json[0]["nice_refused_threads"], refused);
        let said = set(&["nice=none"]);
        assert!(!said.contains("refused"), "{said}");
        let json: serde_json::Value = serde_json::from_str(&set(&["nice=0", "--json"])).unwrap();
        assert_eq!(json[0]["nice_refused_threads"], 0);
    }
    let _ = fs::remove_dir(coldstream_control::directory_path(UNPRIVILEGED));
}

/// Another user made the directory first. The command trusts nothing in it, and does not wait for a pipe in it.
#[test]
fn a_directory_of_another_user_is_refused() {
    const VICTIM: u32 = 64_902;
    let Some((database, coldstream)) = for_two_users() else {
        return;
    };
    let directory = coldstream_control::directory_path(VICTIM);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o777);
    let running = database.start(Some(VICTIM));
    let pid = running.pid();
    assert!(fs::read_dir(&directory).unwrap().next().is_none());
    let pipe = directory.join(&pid);
    make_pipe(&pipe);
    for words in [
        &["ctl", "status", &pid][..],
        &["ctl", "off", &pid],
        &["ctl", "on", &pid],
        &["ctl", "off"],
        &["ctl", "list"],
    ] {
        let mut command = Command::new(&coldstream);
        command.uid(VICTIM).args(words);
        assert_error(
            &mut command,
            5,
            &["belongs to user root, not to user 64902"],
        );
    }
    // Root is told the same.
    let (_, text, _) = outcome(database.scene.coldstream().args(["doctor", &pid]));
    let status = text.lines().find(|line| line.contains("  status "));
    let words = format!("belongs to user root, not to user {VICTIM}");
    assert!(status.is_some_and(|line| line.contains(&words)), "{text}");
    drop(running);
    fs::remove_dir_all(&directory).unwrap();
}

/// A read-only `/dev/shm`, as a container may have one. Root looks itself.
#[test]
fn root_says_that_no_page_could_be_made() {
    const USER: u32 = 64_904;
    let Some((database, _)) = for_two_users() else {
        return;
    };
    let mounted = "mount -t tmpfs -o ro coldstream-test /dev/shm";
    let line = format!(
        "{mounted} && exec setpriv --reuid={USER} --regid={USER} --clear-groups env LD_PRELOAD={} {}",
        database.library.display(),
        database.program.display()
    );
    let mut child = Command::new("unshare")
        .args(["-m", "sh", "-c", &line])
        .current_dir(database.scene.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut said).unwrap();
    let running = Running(child);
    if said.is_empty() {
        return skip("no mount namespaces here");
    }
    let mut doctor = database.scene.coldstream();
    let text = doctor_says(doctor.args(["doctor", &running.pid()]));
    let words =
        "SSTables are open but there is no status page: the library could not make it in /dev/shm";
    assert!(text.contains(words), "{text}");
    assert!(!text.contains("run this as user"), "{text}");
}
