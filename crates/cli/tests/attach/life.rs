//! From the start to the end, and what `ctl`, `doctor` and `--json` say meanwhile.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use coldstream_testkit::residency::{cached_pages, drop_pages};
use coldstream_testkit::{directories, skip};

use crate::subject::{
    COLDSTREAM, NOBODY, PAGE, PAGES, Subject, attach, attach_with, attached, counter, ended,
    eventually, interrupt,
};

#[test]
fn a_killed_attach_leaves_nothing_behind() {
    let mut subject = Subject::new();
    let before = subject.descriptors();
    for milliseconds in [0, 3, 17, 60, 130] {
        let Some(mut child) = attach(&subject) else {
            return;
        };
        subject.read("client", "sequential", 0..PAGES);
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert_eq!(subject.descriptors(), before);
        let status = ended(&["ctl", "status", &subject.pid()]);
        assert_eq!(status.status.code(), Some(7));
        drop_pages(&File::open(subject.path()).unwrap());
        // Its readahead is as before: one page is asked for, and more come.
        subject.read("client", "sequential", 0..40);
        let resident = subject.resident();
        assert!((0..40).all(|page| resident.contains(&page)), "{resident:?}");
    }
}

#[test]
fn ctl_stops_and_resumes_it_and_shows_its_figures() {
    let mut subject = Subject::new();
    let Some(child) = attach(&subject) else {
        return;
    };
    let ctl = |action: &str| {
        let output = ended(&["ctl", action, &subject.pid()]).well();
        String::from_utf8(output.stdout).unwrap()
    };
    ctl("off");
    let pid = subject.pid();
    subject.read("client", "sequential", 0..PAGES);
    subject.write_sstable();
    // A file that rests is forgotten after a second.
    std::thread::sleep(Duration::from_millis(1500));
    // The machine may reclaim a few.
    assert!(subject.resident().len() > PAGES / 2);
    assert!(counter(&pid, "bytes_buffered") > PAGES * PAGE / 2);
    ended(&["ctl", "on", &pid]).well();
    drop_pages(&File::open(subject.path()).unwrap());
    subject.read("client", "sequential", 0..PAGES);
    subject.write_sstable();
    assert!(eventually(|| subject.resident().is_empty()));
    // It has no priorities: a request for one is refused with words.
    let refused = ended(&["ctl", "set", &pid, "nice=5"]);
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("from outside"), "{words}");
    let refused = ended(&["ctl", "trial", &pid]);
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("times no reads"), "{words}");
    let list = String::from_utf8(ended(&["ctl", "list"]).stdout).unwrap();
    assert!(list.contains("(attach)"), "{list}");
    let status = ended(&["ctl", "status", &pid, "--all"]);
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(text.contains("bytes_drop_behind"), "{text}");
    assert!(text.contains("from outside"), "{text}");
    assert_eq!(interrupt(child), Some(0));
}

#[test]
fn it_gives_every_privilege_away() {
    let subject = Subject::new();
    let Some(child) = attach(&subject) else {
        return;
    };
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    for line in [
        "CapEff:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
    // The SSTable itself is not held.
    let open = coldstream_host::process::open_files(child.id()).unwrap();
    assert!(!open.contains(&subject.path()), "{open:?}");
    assert_eq!(interrupt(child), Some(0));
}

#[test]
fn an_input_is_held_until_it_was_deleted_for_a_while() {
    let mut subject = Subject::with_compaction_thread();
    let Some(child) = attach(&subject) else {
        return;
    };
    subject.read("rocksdb:low", "random", 0..PAGES);
    let (id, name) = (child.id(), subject.path().display().to_string());
    // The name of a deleted file has ` (deleted)` behind it.
    let is_held = || {
        let open = coldstream_host::process::open_files(id).unwrap();
        open.iter()
            .any(|path| path.display().to_string().starts_with(&name))
    };
    assert!(eventually(is_held));
    fs::remove_file(subject.path()).unwrap();
    assert!(eventually(|| !is_held()));
    assert_eq!(interrupt(child), Some(0));
}

#[test]
fn doctor_says_what_fits() {
    let doctor = |pid: u32| {
        let output = ended(&["doctor", &pid.to_string()]);
        // The lines are folded.
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let subject = Subject::new();
    assert!(doctor(subject.child.id()).contains("coldstream run"));
    if let Some(child) = attach(&subject) {
        let text = doctor(subject.child.id());
        assert!(text.contains("works for it from outside"), "{text}");
        assert!(text.contains("dropped behind compactions"), "{text}");
        assert_eq!(interrupt(child), Some(0));
    }
    let directory = directories::on_disk();
    let program = directory.path().join("static");
    let source = directory.path().join("static.c");
    fs::write(
        &source,
        "#include <unistd.h>\nint main(void) { return pause(); }\n",
    )
    .unwrap();
    let compiled = Command::new("cc")
        .arg("-static")
        .args([Path::new("-o"), &program, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return skip("no static C library");
    }
    let mut child = Command::new(program).spawn().unwrap();
    let text = doctor(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(text.contains("the program is static"), "{text}");
}

#[test]
fn a_helper_of_another_user_in_the_cgroup_is_passed_over() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root to become nobody");
    }
    let subject = Subject::new();
    let mut helper = Command::new("sleep")
        .arg("60")
        .uid(NOBODY)
        .gid(NOBODY)
        .spawn()
        .unwrap();
    let cgroup = tempfile::tempdir().unwrap();
    let below = cgroup.path().join("payload");
    fs::create_dir(&below).unwrap();
    for (directory, process) in [
        (cgroup.path(), helper.id().to_string()),
        (&below, subject.pid()),
    ] {
        fs::write(directory.join("cgroup.procs"), process + "\n").unwrap();
    }
    let child = attach_with(&["--cgroup", cgroup.path().to_str().unwrap()]);
    helper.kill().unwrap();
    helper.wait().unwrap();
    if let Some(child) = child {
        assert_eq!(interrupt(child), Some(0));
    }
}

#[test]
fn it_takes_the_groups_of_the_process() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root to change groups");
    }
    let mut command = Command::new("setpriv");
    command.args(["--regid", "65534", "--groups", "7,9", "--"]);
    if Command::new("setpriv").arg("--version").output().is_err() {
        return skip("no setpriv");
    }
    command.arg(std::env::current_exe().unwrap());
    let subject = Subject::under(command);
    let Some(child) = attach(&subject) else {
        return;
    };
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    assert_eq!(interrupt(child), Some(0));
    assert!(status.contains("Groups:\t7 9"), "{status}");
}

#[test]
fn a_process_that_forks_and_becomes_another_program_is_followed_to_its_end() {
    let mut subject = Subject::with_compaction_thread();
    let Some(mut child) = attach(&subject) else {
        return;
    };
    let sleep = Path::new("/bin/sleep");
    subject.ask("client", "fork", sleep, 0..5);
    subject.read("rocksdb:low", "random", 0..PAGES);
    subject.write_sstable();
    let is_dropped = eventually(|| subject.resident().len() < PAGES / 8);
    assert!(is_dropped, "{:?}", subject.resident());
    subject.tell("client", "exec", sleep, 0..60);
    let name = format!("/proc/{}/comm", subject.child.id());
    assert!(eventually(
        || fs::read_to_string(&name).unwrap() == "sleep\n"
    ));
    // It has no SSTable any more. It might open one again.
    assert!(child.try_wait().unwrap().is_none());
    subject.child.kill().unwrap();
    subject.child.wait().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn of_two_processes_each_is_served_and_the_end_of_one_is_not_the_end() {
    let mut subjects = [Subject::new(), Subject::new()];
    let mut command = Command::new(COLDSTREAM);
    command
        .arg("attach")
        .args(subjects.each_ref().map(Subject::pid));
    let Some((mut child, mut lines)) = attached(&mut command) else {
        return;
    };
    let mut next_line = || lines.next().unwrap().unwrap();
    assert!(next_line().contains("attached to"));
    for subject in &mut subjects {
        assert_drops(subject);
        assert!(counter(&subject.pid(), "bytes_drop_behind") > 0);
    }
    let [mut first, mut second] = subjects;
    let pid = first.pid();
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert_eq!(next_line(), format!("coldstream: process {pid} has ended"));
    let status = ended(&["ctl", "status", &pid]);
    assert_eq!(status.status.code(), Some(7));
    assert_drops(&mut second);
    assert!(child.try_wait().unwrap().is_none());
    second.child.kill().unwrap();
    second.child.wait().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let pid = second.pid();
    assert_eq!(next_line(), format!("coldstream: process {pid} has ended"));
}

/// What a compaction reads is dropped.
fn assert_drops(subject: &mut Subject) {
    drop_pages(&File::open(subject.path()).unwrap());
    subject.read("client", "sequential", 0..PAGES);
    subject.write_sstable();
    let is_dropped = eventually(|| subject.resident().is_empty());
    assert!(is_dropped, "{:?}", subject.resident());
}

#[test]
fn it_ends_with_the_process() {
    let mut subject = Subject::new();
    let Some(mut child) = attach(&subject) else {
        return;
    };
    subject.child.kill().unwrap();
    subject.child.wait().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_process_with_a_root_directory_of_its_own_is_followed() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root to change the root directory");
    }
    let mut subject = Subject::with_compaction_thread();
    let directory = subject.directory.path().to_owned();
    subject.ask("client", "chroot", &directory, 0..0);
    let Some(child) = attach(&subject) else {
        return;
    };
    subject.ask("rocksdb:low", "random", Path::new("/000007.sst"), 0..PAGES);
    let is_dropped = eventually(|| subject.resident().is_empty());
    assert!(is_dropped, "{:?}", subject.resident());
    assert_eq!(interrupt(child), Some(0));
    // Its SSTables may be outside of that.
    fs::create_dir(directory.join("empty")).unwrap();
    subject.ask("client", "chroot", Path::new("/empty"), 0..0);
    let child = attach(&subject).expect("it was attached before");
    assert_eq!(interrupt(child), Some(0));
}

#[test]
fn a_process_with_mounts_of_its_own_is_followed() {
    let [there, here] = [directories::on_disk(), directories::on_disk()];
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg(r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#)
        .args([Path::new("sh"), there.path(), here.path()])
        .arg(std::env::current_exe().unwrap());
    let probe = ["--mount", "mount", "--bind", "/", "/"];
    if !ended_well(Command::new("unshare").args(probe)) {
        return skip("no mount namespace can be made");
    }
    let sstable = there.path().join("000020.sst");
    fs::write(&sstable, vec![7; PAGES * PAGE]).unwrap();
    let file = File::open(&sstable).unwrap();
    drop_pages(&file);
    let mut subject = Subject::under(command);
    subject.read("rocksdb:low", "stay", 0..0);
    // Only the process sees it here.
    subject.ask("client", "open", here.path(), 0..1);
    let Some(child) = attach(&subject) else {
        return;
    };
    let path = here.path().join("000020.sst");
    assert!(!path.exists());
    subject.ask("rocksdb:low", "random", &path, 0..PAGES);
    assert!(cached_pages(&file) > 0 || counter(&subject.pid(), "bytes_drop_behind") > 0);
    assert!(eventually(|| cached_pages(&file) == 0));
    assert_eq!(interrupt(child), Some(0));
}

fn ended_well(command: &mut Command) -> bool {
    command
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

/// A line of the program's standard output, as JSON.
fn next_event(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> serde_json::Value {
    serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
}

#[test]
fn with_json_each_event_is_a_line() {
    let subject = Subject::new();
    if attach(&subject).map(interrupt).is_none() {
        return;
    }
    let mut child = Command::new(COLDSTREAM)
        .args(["attach", "--json", &subject.pid()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let attached = next_event(&mut lines);
    assert_eq!(attached["event"], "attached");
    assert_eq!(attached["pid"].to_string(), subject.pid());
    assert_eq!(attached["compactions_known_by"], "fadv_sequential");
    // No thread has a name by which its outputs would be known.
    assert_eq!(attached["mechanisms"], serde_json::json!(["reads"]));
    assert_eq!(interrupt(child), Some(0));
    assert_eq!(next_event(&mut lines)["event"], "detached");
    assert!(lines.next().is_none());
}
