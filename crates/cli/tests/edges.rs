//! `top` and `metrics` where things are odd: other users, containers, other versions, very many SSTables.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coldstream_testkit::{library, skip};
use common::process::Process;
use common::{Scene, assert_error, is_root, outcome, set_mode};

/// A user that no other test uses.
const USER: u32 = 61_234;

/// Makes, opens and closes as many SSTables as it is told, prints a line, and waits: with a second word in another
/// thread, after the end of the first.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *wait_for_end(void *unused) {
  getchar();
  exit(0);
}
int main(int count, char **words) {
  char name[32];
  for (int table = 0; table < atoi(words[1]); ++table) {
    snprintf(name, sizeof name, "%06d.sst", table);
    int descriptor = open(name, O_RDONLY | O_CREAT, 0600);
    if (descriptor < 0) return 1;
    close(descriptor);
  }
  puts("open");
  fflush(stdout);
  if (count > 2) {
    pthread_t other;
    pthread_create(&other, NULL, wait_for_end, NULL);
    pthread_exit(NULL);
  }
  return getchar() == 0;
}
"#;

/// Root sees the programs of all tests: one test at a time has some.
static ALONE: Mutex<()> = Mutex::new(());

/// A program under the real library.
struct Database {
    scene: Scene,
    library: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

/// A running program, or the launcher of one. It ends when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Database {
    fn new() -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let scene = Scene::new();
        if !scene.compile(PROGRAM, &scene.path("database"), &["-pthread"]) {
            skip("no C compiler");
            return None;
        }
        set_mode(&scene.path("."), 0o777);
        let library = scene.path("real.so");
        fs::copy(library::path(), &library).unwrap();
        set_mode(&library, 0o755);
        Some(Self {
            scene,
            library,
            _alone: alone,
        })
    }

    /// The line of a shell that becomes the program.
    fn line(&self, tables: u32) -> String {
        format!(
            "exec env LD_PRELOAD={} ./database {tables}",
            self.library.display()
        )
    }

    /// `None` if the launcher does not start it.
    fn start(&self, launcher: &mut Command) -> Option<Running> {
        let mut child = launcher
            .current_dir(self.scene.path("."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let running = Running(child);
        (line == "open\n").then_some(running)
    }

    fn shell(&self, tables: u32) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.line(tables)]);
        shell
    }
}

/// The ids of the processes of [`PROGRAM`] in the output of `metrics`.
fn pids(metrics: &str) -> Vec<String> {
    let lines = metrics.lines();
    let ours = lines.filter(|line| {
        line.starts_with("coldstream_process_info{") && line.contains("program=\"database\"")
    });
    let pids = ours.map(|line| line.split('"').nth(1).unwrap().to_owned());
    pids.collect()
}

#[test]
fn root_sees_a_process_in_a_container_with_a_dev_shm_of_its_own() {
    if !is_root() {
        return skip("only root makes namespaces");
    }
    let Some(database) = Database::new() else {
        return;
    };
    let line = format!("mount -t tmpfs none /dev/shm && {}", database.line(1));
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--pid",
        "--fork",
        "--mount",
        "--mount-proc",
        "sh",
        "-c",
        &line,
    ]);
    let Some(container) = database.start(&mut unshare) else {
        return skip("no namespaces of processes and mounts here");
    };
    let (code, metrics, _) = outcome(database.scene.coldstream().arg("metrics"));
    assert_eq!(code, 0);
    let found = pids(&metrics);
    let [pid] = found.as_slice() else {
        panic!("{found:?} in {metrics}");
    };
    // The id that this side sees; inside it is 1.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ids = status
        .lines()
        .find(|line| line.starts_with("NSpid:"))
        .unwrap();
    assert!(ids.ends_with("\t1") && ids.contains(pid), "{ids}");
    let mut top = database.scene.coldstream();
    let (code, screen, _) = outcome(top.args(["top", pid, "--once", "--interval", "0.1"]));
    assert_eq!(code, 0);
    assert!(
        screen.contains(&format!("process {pid} database")),
        "{screen}"
    );
    drop(container);
    let (_, metrics, _) = outcome(database.scene.coldstream().arg("metrics"));
    assert_eq!(pids(&metrics), Vec::<String>::new());
}

#[test]
fn a_user_sees_the_own_processes_and_root_sees_all() {
    if !is_root() {
        return skip("needs root, to become two users");
    }
    let Some(database) = Database::new() else {
        return;
    };
    let of_root = database.start(&mut database.shell(1)).unwrap();
    fs::remove_file(database.scene.path("000000.sst")).unwrap();
    let of_user = database.start(database.shell(1).uid(USER)).unwrap();
    let (root_pid, user_pid) = (of_root.0.id().to_string(), of_user.0.id().to_string());
    let (_, metrics, _) = outcome(database.scene.coldstream().arg("metrics"));
    let all = pids(&metrics);
    assert!(
        all.contains(&root_pid) && all.contains(&user_pid),
        "{all:?}"
    );

    let coldstream = database.scene.copy_of_coldstream();
    let as_user = |arguments: &[&str]| {
        let mut command = Command::new(&coldstream);
        command.uid(USER).args(arguments);
        command
    };
    let (code, metrics, stderr) = outcome(&mut as_user(&["metrics"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(pids(&metrics), [user_pid.as_str()]);
    for command in [
        &["top", &root_pid, "--once"][..],
        &["ctl", "trial", &root_pid],
    ] {
        assert_error(&mut as_user(command), 5, &["belongs to user root"]);
    }
    // Root has no page of its own there, and sees where a user has none.
    let status = ["ctl", "status", &user_pid];
    let belongs = format!("belongs to user {USER}");
    assert_error(database.scene.coldstream().args(status), 5, &[&belongs]);
    let mut without_page = Command::new("sleep").arg("60").uid(USER).spawn().unwrap();
    let bare_pid = without_page.id().to_string();
    for command in [
        &["top", &bare_pid, "--once"][..],
        &["ctl", "status", &bare_pid],
    ] {
        let doctor = format!("see `coldstream doctor {bare_pid}`");
        let words = ["has no status page", &doctor];
        assert_error(database.scene.coldstream().args(command), 7, &words);
    }
    without_page.kill().unwrap();
    without_page.wait().unwrap();
    // Its last process takes the directory away.
    let pages = coldstream_control::directory_path(USER);
    assert!(pages.exists());
    drop(of_user);
    assert!(!pages.exists());
}

#[test]
fn a_process_that_nobody_waited_for_is_not_shown() {
    let scene = Scene::new();
    let mut process = Process::new(0);
    let pid = process.pid();
    let seen = || {
        let (_, metrics, _) = outcome(scene.coldstream().arg("metrics"));
        metrics.contains(&format!("pid=\"{pid}\""))
    };
    assert!(seen());
    process.child.kill().unwrap();
    while !coldstream_host::process::has_ended(process.child.id()) {
        std::thread::yield_now();
    }
    assert!(!seen());
    let own = std::process::id();
    let words = format!("process {pid} has ended, and its parent {own} has not collected it");
    assert_error(scene.coldstream().args(["doctor", &pid]), 7, &[&words]);
    assert!(process.page.exists());
    let mut top = scene.coldstream();
    assert_error(top.args(["top", &pid, "--once"]), 7, &["has ended"]);
    assert!(!process.page.exists());
    for command in [&["top", &pid, "--once"][..], &["ctl", "status", &pid]] {
        assert_error(scene.coldstream().args(command), 7, &[&words]);
    }
}

#[test]
fn a_process_without_its_first_thread_is_shown() {
    let Some(database) = Database::new() else {
        return;
    };
    let line = format!("{} threads", database.line(1));
    let running = database
        .start(Command::new("sh").args(["-c", &line]))
        .unwrap();
    let pid = running.0.id();
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !stat().contains(") Z ") {
        std::thread::yield_now();
    }
    let (_, metrics, _) = outcome(database.scene.coldstream().arg("metrics"));
    assert_eq!(pids(&metrics), [pid.to_string()]);
}

#[test]
fn a_page_of_another_version_is_said_and_not_guessed() {
    let scene = Scene::new();
    for version in [0_u64, 2] {
        let process = Process::new(0);
        let pid = process.pid();
        // The second word.
        let page = fs::OpenOptions::new()
            .write(true)
            .open(&process.page)
            .unwrap();
        page.write_all_at(&version.to_ne_bytes(), 8).unwrap();
        let words =
            format!("status page of layout version {version}, this program reads version 1");
        let (code, metrics, stderr) = outcome(scene.coldstream().arg("metrics"));
        assert_eq!(code, 0);
        assert!(stderr.contains(&words), "{stderr}");
        assert!(!metrics.contains(&format!("pid=\"{pid}\"")), "{metrics}");
        let mut top = scene.coldstream();
        let (code, screen, stderr) = outcome(top.args(["top", "--once", "--interval", "0.1"]));
        assert_eq!(code, 0);
        assert!(screen.contains("unreadable page"), "{screen}");
        assert!(stderr.contains(&words), "{stderr}");
        for command in [
            &["top", &pid, "--once"][..],
            &["ctl", "status", &pid],
            &["ctl", "trial", &pid],
        ] {
            assert_error(scene.coldstream().args(command), 1, &[&words]);
        }
    }
}

#[test]
fn ten_thousand_sstables_are_no_more_metrics_than_one() {
    let Some(database) = Database::new() else {
        return;
    };
    let lines = |pid: &str| {
        let (_, metrics, _) = outcome(database.scene.coldstream().arg("metrics"));
        let label = format!("pid=\"{pid}\"");
        metrics.lines().filter(|line| line.contains(&label)).count()
    };
    let one = database.start(&mut database.shell(1)).unwrap();
    let many = database.start(&mut database.shell(10_000)).unwrap();
    let (one, many) = (one.0.id().to_string(), many.0.id().to_string());
    let (_, metrics, _) = outcome(database.scene.coldstream().arg("metrics"));
    let opened = format!(
        "coldstream_tracked_files_opened_total{{pid=\"{many}\",program=\"database\"}} 10000"
    );
    assert!(metrics.lines().any(|line| line == opened), "{metrics}");
    assert!(lines(&one) > 100);
    assert_eq!(lines(&one), lines(&many));
}
