//! `--priority`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coldstream_io::sys::thread_priority;
use coldstream_testkit::skip;
use rustix::process::Signal;

use crate::subject::{
    COLDSTREAM, PAGES, Subject, attach_with, attached, counter, ended, eventually, interrupt,
};

/// Nice value and I/O priority of the subject's thread with this name, once it has one.
fn priority_of(subject: &Subject, name: &str) -> Option<(i32, i32)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", subject.pid())).ok()?;
    tasks.flatten().find_map(|task| {
        let is_it = fs::read_to_string(task.path().join("comm")).is_ok_and(|it| it.trim() == name);
        let id = task.file_name().to_str()?.parse().ok().filter(|_| is_it)?;
        let nice = thread_priority::nice(id).ok()?;
        let io = thread_priority::io_priority(id).ok()?;
        Some((nice, thread_priority::io_priority_with_class(io)))
    })
}

/// Nice value and I/O priority. These tests may run at a nice value above it.
fn lowered() -> Option<(i32, i32)> {
    Some((thread_priority::nice(0).ok()?.max(10), 2 << 13 | 7))
}

#[test]
fn priorities_are_lowered_and_given_back_even_by_a_killed_attach() {
    for is_killed in [false, true] {
        let subject = Subject::with_compaction_thread();
        let before = priority_of(&subject, "rocksdb:low");
        let of_reader = priority_of(&subject, "engine");
        let Some(mut child) = attach_with(&["--priority", &subject.pid()]) else {
            return;
        };
        let is_lowered = || priority_of(&subject, "rocksdb:low") == lowered();
        assert!(eventually(is_lowered), "{before:?}");
        assert_eq!(priority_of(&subject, "engine"), of_reader);
        assert!(eventually(
            || counter(&subject.pid(), "priority_threads") == 1
        ));
        let switch = |word: &str| {
            ended(&["ctl", word, "--only", "priority", &subject.pid()]).well();
        };
        switch("off");
        assert!(eventually(|| priority_of(&subject, "rocksdb:low") == before));
        switch("on");
        assert!(eventually(is_lowered));
        if is_killed {
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            assert_eq!(interrupt(child), Some(0));
        }
        assert!(eventually(|| priority_of(&subject, "rocksdb:low") == before));
    }
}

/// `keep-priorities`, the child of an `attach`.
fn keeper_of(attach: &Child) -> Option<rustix::process::Pid> {
    let path = format!("/proc/{0}/task/{0}/children", attach.id());
    let children = fs::read_to_string(path).ok()?;
    let pid = children.split_whitespace().next()?.parse().ok()?;
    rustix::process::Pid::from_raw(pid)
}

#[test]
fn a_killed_keeper_of_priorities_is_told_of() {
    let subject = Subject::with_compaction_thread();
    let mut command = Command::new(COLDSTREAM);
    command.args(["attach", "--priority", &subject.pid()]);
    let Some((mut child, lines)) = attached(&mut command) else {
        return;
    };
    assert!(eventually(
        || priority_of(&subject, "rocksdb:low") == lowered()
    ));
    let keeper = keeper_of(&child).expect("a child");
    rustix::process::kill_process(keeper, Signal::KILL).unwrap();
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said:?}");
    assert!(said.iter().any(|line| line.contains("renice")), "{said:?}");
}

/// Makes each drop of `attach` wait, until it is dropped.
struct Delay(Child);

impl Delay {
    fn of_drops(attach: &Child) -> Option<Self> {
        let strace = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-e", "trace=fadvise64"])
            .args(["-e", "inject=fadvise64:delay_enter=20000000"])
            .args(["-p", &attach.id().to_string()])
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut strace) = strace else {
            skip("no strace");
            return None;
        };
        let mut said = BufReader::new(strace.stderr.take().unwrap()).lines();
        let line = said.next().unwrap().unwrap();
        assert!(line.contains("attached"), "{line}");
        Some(Self(strace))
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Its keeper is stopped for longer than a signal gives `attach` itself. The loop of `attach` may be stopped, too.
#[test]
fn an_end_that_takes_long_gives_priorities_back_all_the_same() {
    for is_loop_stopped in [false, true] {
        let mut subject = Subject::with_compaction_thread();
        let before = priority_of(&subject, "rocksdb:low");
        let Some(mut child) = attach_with(&["--priority", &subject.pid()]) else {
            return;
        };
        let is_lowered = || priority_of(&subject, "rocksdb:low") == lowered();
        assert!(eventually(is_lowered), "{before:?}");
        let tracer = is_loop_stopped.then(|| Delay::of_drops(&child)).flatten();
        if tracer.is_some() {
            subject.read("rocksdb:low", "random", 0..PAGES);
            std::thread::sleep(Duration::from_millis(500));
        }
        let keeper = keeper_of(&child).expect("a child");
        let attach = rustix::process::Pid::from_child(&child);
        let send = |pid, signal| rustix::process::kill_process(pid, signal).unwrap();
        // It may have released them for a moment: on busy processors.
        let stops_while_lowered = || {
            send(keeper, Signal::STOP);
            let is_lowered = priority_of(&subject, "rocksdb:low") == lowered();
            if !is_lowered {
                send(keeper, Signal::CONT);
            }
            is_lowered
        };
        assert!(eventually(stops_while_lowered));
        send(attach, Signal::INT);
        std::thread::sleep(Duration::from_secs(4));
        assert!(child.try_wait().unwrap().is_none());
        assert_eq!(priority_of(&subject, "rocksdb:low"), lowered());
        send(keeper, Signal::CONT);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(priority_of(&subject, "rocksdb:low"), before);
        drop(tracer);
    }
}

#[test]
fn without_names_of_threads_there_are_no_priorities() {
    let subject = Subject::new();
    let output = ended(&["attach", "--priority", &subject.pid()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no thread of these processes has the name"),
        "{said}"
    );
}
