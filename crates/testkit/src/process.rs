//! Runs programs in a clean environment, with a time limit: a deadlock fails a test instead of hanging it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use coldstream_host::process;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::library::Preload;

/// Time for which [`Running::wait_until`] waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program to run.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<OsString>,
    variables: Vec<(String, String)>,
    directory: Option<PathBuf>,
    input: Option<Vec<u8>>,
    standard_error: Option<Arc<OwnedFd>>,
    limit: Duration,
}

/// A program that has ended, and its output.
#[derive(PartialEq, Eq)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
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
    /// The same, after a success.
    ///
    /// # Panics
    /// With all output of the program, after a failure.
    #[track_caller]
    pub fn well(self) -> Self {
        assert!(self.status.success(), "{self:?}");
        self
    }

    /// Its standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Program {
    /// A program without arguments.
    #[must_use]
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
    #[must_use]
    pub fn shell(line: &str) -> Self {
        Self::new("/bin/sh").arguments(["-c", line])
    }

    /// With another argument.
    #[must_use]
    pub fn argument(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().into());
        self
    }

    /// With more arguments.
    #[must_use]
    pub fn arguments<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        for word in words {
            self.words.push(word.as_ref().into());
        }
        self
    }

    /// Adds a variable of its environment.
    pub fn variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.into(), value.into()));
    }

    /// With another variable of its environment.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl ToString) -> Self {
        self.variable(name, &value.to_string());
        self
    }

    /// With this working directory.
    #[must_use]
    pub fn within(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// With this standard input.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// With its standard error redirected. [`Ended`] does not contain it then.
    #[must_use]
    pub fn standard_error(mut self, to: impl Into<OwnedFd>) -> Self {
        self.standard_error = Some(Arc::new(to.into()));
        self
    }

    /// With this time limit.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// As an argument of another program, which executes it.
    #[must_use]
    pub fn behind(mut self, launcher: &Path, options: &[&str]) -> Self {
        let options = options.iter().map(OsString::from);
        let words: Vec<OsString> = [launcher.into()].into_iter().chain(options).collect();
        self.words.splice(0..0, words);
        self
    }

    /// Runs it without the library.
    pub fn run(&self) -> Ended {
        self.start().end()
    }

    fn preload(&mut self, preload: &Preload) {
        for (name, value) in preload.variables() {
            self.variable(name, &value);
        }
    }

    /// Runs it with the library.
    pub fn run_with(&self, preload: &Preload) -> Ended {
        let mut program = self.clone();
        program.preload(preload);
        program.run()
    }

    /// Runs it with the library if there is a `preload`, else without.
    pub fn run_either(&self, preload: Option<&Preload>) -> Ended {
        match preload {
            Some(preload) => self.run_with(preload),
            None => self.run(),
        }
    }

    /// Tries whether a launcher can start another program here.
    ///
    /// # Errors
    /// It cannot: how it ended.
    ///
    /// # Panics
    /// The launcher has no words.
    pub fn try_launcher(launcher: &[String]) -> Result<(), Ended> {
        let (program, arguments) = launcher.split_first().expect("a launcher");
        let tried = Program::new(program)
            .arguments(arguments)
            .argument("/bin/true")
            .run();
        if tried.status.success() {
            Ok(())
        } else {
            Err(tried)
        }
    }

    /// Runs it under a tracer or the like, with the library if there is a `preload`. `launcher` comes before the
    /// program and runs without the library.
    pub fn run_under<'a>(
        &self,
        launcher: &[String],
        preload: impl Into<Option<&'a Preload>>,
    ) -> Ended {
        self.start_under(launcher, preload).end()
    }

    /// As [`Program::run_under`], but does not wait for its end.
    #[must_use]
    pub fn start_under<'a>(
        &self,
        launcher: &[String],
        preload: impl Into<Option<&'a Preload>>,
    ) -> Running {
        let mut inner = self.clone();
        if let Some(preload) = preload.into() {
            inner.preload(preload);
        }
        let mut words: Vec<OsString> = launcher.iter().map(OsString::from).collect();
        words.push("/usr/bin/env".into());
        for (name, value) in &inner.variables {
            words.push(format!("{name}={value}").into());
        }
        words.extend(inner.words);
        self.start_words(&words, &[])
    }

    /// Starts it with the library, and does not wait for its end.
    #[must_use]
    pub fn start_with(&self, preload: &Preload) -> Running {
        let mut program = self.clone();
        program.preload(preload);
        program.start()
    }

    /// Starts it without the library, and does not wait for its end.
    #[must_use]
    pub fn start(&self) -> Running {
        self.start_words(&self.words, &self.variables)
    }

    fn start_words(&self, words: &[OsString], variables: &[(String, String)]) -> Running {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        for name in std::env::vars_os().map(|(name, _)| name) {
            // No variable of this process may steer the loader or the library.
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
        let stdin = match &self.input {
            Some(bytes) => {
                let mut file = scratch();
                std::io::Write::write_all(&mut file, bytes).expect("write input");
                file.rewind().expect("rewind input");
                Stdio::from(file)
            }
            None => Stdio::null(),
        };
        command.stdin(stdin);
        let standard_error = self.standard_error.as_deref();
        let standard_error = standard_error.map(|other| other.try_clone().expect("dup"));
        Running::start(&mut command, standard_error, self.limit)
    }
}

/// As [`Command::output`], with a time limit. The environment is the command's own.
///
/// # Panics
/// It cannot be started, or does not end within the limit.
#[track_caller]
pub fn output_within(limit: Duration, command: &mut Command) -> Ended {
    Running::start(command, None, limit).end()
}

/// A running program. Dropping it kills it, with everything that it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
    command: String,
    limit: Duration,
}

impl Running {
    fn start(command: &mut Command, stderr_to: Option<OwnedFd>, limit: Duration) -> Self {
        // Files, not pipes: nobody must read them while the program runs. A child that outlives the program does not
        // keep the test waiting.
        let (stdout, stderr) = (scratch(), scratch());
        let stderr_to = stderr_to.unwrap_or_else(|| stderr.try_clone().expect("dup").into());
        let child = command
            .stdout(stdout.try_clone().expect("dup"))
            .stderr(stderr_to)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self {
            child,
            stdout,
            stderr,
            command: format!("{command:?}"),
            limit,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not end within its time limit.
    pub fn end(mut self) -> Ended {
        let child = &mut self.child;
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        let status = loop {
            match child.try_wait().expect("wait") {
                Some(status) => break status,
                None if started.elapsed() > self.limit => {
                    let stacks = stacks_of(child.id());
                    kill_group(child);
                    let _ = child.wait();
                    panic!(
                        "{} had not ended after {:?}\n{stacks}{}",
                        self.command,
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

    /// Waits until something has happened.
    ///
    /// # Panics
    /// The program ends before, or it does not happen.
    #[track_caller]
    pub fn wait_until(&mut self, happened: impl Fn() -> bool) {
        let started = Instant::now();
        while !happened() {
            let ended = self.child.try_wait().expect("wait");
            assert!(
                ended.is_none() && started.elapsed() < PATIENCE,
                "{ended:?} {}",
                String::from_utf8_lossy(&content(&mut self.stderr))
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until it has printed this text.
    ///
    /// # Panics
    /// As [`Running::wait_until`].
    #[track_caller]
    pub fn wait_until_printed(&mut self, text: &str) {
        let stdout = self.stdout.try_clone().expect("dup");
        self.wait_until(|| {
            // By position: the program writes at the position that both share.
            let mut printed = vec![0; 64 << 10];
            let count = stdout.read_at(&mut printed, 0).expect("read");
            String::from_utf8_lossy(&printed[..count]).contains(text)
        });
    }

    /// Kills it with `SIGKILL`.
    ///
    /// # Panics
    /// It has ended already.
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
        kill_group(&self.child);
        let _ = self.child.wait();
    }
}

/// Kills a child and everything that it started. Its group was made for it.
fn kill_group(child: &Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // A group that has ended is no error.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

/// The system call of each thread of a hanging program: enough to see a deadlock.
fn stacks_of(pid: u32) -> String {
    let mut text = String::new();
    for thread in process::threads(pid) {
        let path = |name| process::proc_path(pid, &format!("task/{}/{name}", thread.id));
        let read = |name| std::fs::read_to_string(path(name)).unwrap_or_default();
        text.push_str(&format!(
            "thread {}: in {} ({})\n",
            String::from_utf8_lossy(&thread.name),
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
    file.rewind().expect("rewind output");
    file.read_to_end(&mut bytes).expect("read output");
    bytes
}

/// The signal that ended a program, if one did.
#[must_use]
pub fn signal(ended: &Ended) -> Option<i32> {
    ended.status.signal()
}
