//! Running a program in a clean environment, with a limit on its time: a deadlock is a failed
//! test, not a hanging one.

use super::library::Preload;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A program to be run.
#[derive(Clone)]
pub struct Program {
    words: Vec<OsString>,
    variables: Vec<(String, String)>,
    directory: Option<PathBuf>,
    input: Option<Vec<u8>>,
    standard_error: Option<Arc<OwnedFd>>,
    limit: Duration,
}

/// How it ended, and what it wrote.
#[derive(PartialEq, Eq)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{}\n--- stdout\n{}--- stderr\n{}---",
            self.status,
            String::from_utf8_lossy(&self.stdout),
            String::from_utf8_lossy(&self.stderr)
        )
    }
}

impl Ended {
    /// Panics with everything that the program said unless it ended well.
    #[track_caller]
    pub fn well(self) -> Self {
        assert!(self.status.success(), "{self:?}");
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Program {
    pub fn new(executable: impl AsRef<OsStr>) -> Self {
        Self {
            words: vec![executable.as_ref().into()],
            variables: Vec::new(),
            directory: None,
            input: None,
            standard_error: None,
            limit: Duration::from_secs(120),
        }
    }

    /// A line for the shell.
    pub fn shell(line: &str) -> Self {
        Self::new("/bin/sh").arguments(["-c", line])
    }

    pub fn argument(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().into());
        self
    }

    pub fn arguments<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        for word in words {
            self.words.push(word.as_ref().into());
        }
        self
    }

    pub fn variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.into(), value.into()));
    }

    pub fn with_variable(mut self, name: &str, value: impl ToString) -> Self {
        self.variable(name, &value.to_string());
        self
    }

    pub fn within(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.into());
        self
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// What it writes to standard error goes there, and not into what is told of its end.
    pub fn standard_error(mut self, to: impl Into<OwnedFd>) -> Self {
        self.standard_error = Some(Arc::new(to.into()));
        self
    }

    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// This program as an argument of another one, which becomes it.
    pub fn behind(mut self, launcher: &Path, options: &[&str]) -> Self {
        let options = options.iter().map(OsString::from);
        let words: Vec<OsString> = [launcher.into()].into_iter().chain(options).collect();
        self.words.splice(0..0, words);
        self
    }

    /// Runs it as it is.
    pub fn run(&self) -> Ended {
        self.run_with_words(&self.words, &self.variables)
    }

    /// Runs it with the library.
    pub fn run_with(&self, preload: &Preload) -> Ended {
        let mut program = self.clone();
        preload.apply(&mut program);
        program.run()
    }

    /// Runs it with the library, if `preload` says how, or as it is.
    pub fn run_either(&self, preload: Option<&Preload>) -> Ended {
        match preload {
            Some(preload) => self.run_with(preload),
            None => self.run(),
        }
    }

    /// Runs it with the library under a tracer or the like: `launcher` comes before the program,
    /// and is not itself given the library.
    pub fn run_under(&self, launcher: &[String], preload: &Preload) -> Ended {
        self.start_under(launcher, preload).end()
    }

    /// Starts it so, and goes on.
    pub fn start_under(&self, launcher: &[String], preload: &Preload) -> Running {
        let mut inner = self.clone();
        preload.apply(&mut inner);
        let mut words: Vec<OsString> = launcher.iter().map(OsString::from).collect();
        words.push("/usr/bin/env".into());
        for (name, value) in &inner.variables {
            words.push(format!("{name}={value}").into());
        }
        words.extend(inner.words);
        self.start(&words, &[])
    }

    /// Starts it with the library, and goes on.
    pub fn start_with(&self, preload: &Preload) -> Running {
        let mut program = self.clone();
        preload.apply(&mut program);
        program.start(&program.words, &program.variables)
    }

    fn start(&self, words: &[OsString], variables: &[(String, String)]) -> Running {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        for name in std::env::vars_os().map(|(name, _)| name) {
            // Of the surroundings nothing that steers the loader or the library.
            let steers = |prefix: &str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
            if steers("LD_") || steers("COLDSTREAM") {
                command.env_remove(name);
            }
        }
        command
            .env("LC_ALL", "C.UTF-8")
            .envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        // Files, not pipes: nobody has to empty them while the program runs, and a child that
        // outlives it does not keep the test waiting.
        let (stdout, stderr) = (scratch(), scratch());
        let stdin = match &self.input {
            Some(bytes) => {
                let mut file = scratch();
                std::io::Write::write_all(&mut file, bytes).unwrap();
                file.rewind().unwrap();
                Stdio::from(file)
            }
            None => Stdio::null(),
        };
        let standard_error = match &self.standard_error {
            Some(other) => Stdio::from(other.try_clone().unwrap()),
            None => Stdio::from(stderr.try_clone().unwrap()),
        };
        let child = command
            .stdin(stdin)
            .stdout(stdout.try_clone().unwrap())
            .stderr(standard_error)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", words[0].display()));
        Running {
            child,
            stdout,
            stderr,
            words: words.to_vec(),
            limit: self.limit,
        }
    }

    fn run_with_words(&self, words: &[OsString], variables: &[(String, String)]) -> Ended {
        self.start(words, variables).end()
    }
}

/// A program that runs; killed when dropped, with everything that it started.
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
    words: Vec<OsString>,
    limit: Duration,
}

impl Running {
    /// Its process id.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended, within the limit of its time.
    pub fn end(mut self) -> Ended {
        let child = &mut self.child;
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        let status = loop {
            match child.try_wait().expect("wait") {
                Some(status) => break status,
                None if started.elapsed() > self.limit => {
                    let stacks = stacks_of(child.id());
                    // SAFETY: the group was made for this child.
                    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
                    let _ = child.wait();
                    panic!(
                        "{:?} had not ended after {:?}\n{stacks}{}",
                        self.words,
                        self.limit,
                        String::from_utf8_lossy(&content(&mut self.stderr))
                    );
                }
                None => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        Ended {
            status,
            stdout: content(&mut self.stdout),
            stderr: content(&mut self.stderr),
        }
    }

    /// Waits until something has happened; fails if the program ends before.
    #[track_caller]
    pub fn wait_until(&mut self, happened: impl Fn() -> bool) {
        let started = Instant::now();
        while !happened() {
            let ended = self.child.try_wait().expect("wait");
            assert!(
                ended.is_none() && started.elapsed() < Duration::from_secs(60),
                "{ended:?} {}",
                String::from_utf8_lossy(&content(&mut self.stderr))
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// `kill -9`, of a program that must be running still.
    #[track_caller]
    pub fn kill(mut self) {
        let ended = self.child.try_wait().expect("wait");
        assert!(
            ended.is_none(),
            "{ended:?} {}",
            String::from_utf8_lossy(&content(&mut self.stderr))
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: the group was made for this child, which has not been waited for, or has ended
        // with its group.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// Where each thread of a hanging program is: enough to see a deadlock in the report.
fn stacks_of(process: u32) -> String {
    let mut text = String::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        text.push_str(&format!(
            "thread {}: in {} ({})\n",
            read("comm").trim(),
            read("wchan").trim(),
            read("syscall").trim()
        ));
    }
    text
}

fn scratch() -> File {
    tempfile::tempfile().expect("scratch file")
}

fn content(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// The signal that ended a program, if one did.
pub fn signal(ended: &Ended) -> Option<i32> {
    ended.status.signal()
}
