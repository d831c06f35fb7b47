//! A program that makes load, as a child process: started in its cgroups, and killed when dropped.

use crate::error::Interrupted;
use crate::interrupt;
use anyhow::Result;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines of the program's standard error that an error message shows.
const LAST_LINES: usize = 20;

/// Beginnings of lines that tell progress: of the driver, and of db_bench.
const PROGRESS: [&[u8]; 2] = [b"loading:", b"... finished"];

/// A program that runs. Killed when dropped.
#[derive(Debug)]
pub struct LoadProcess {
    child: Child,
    /// Reads its standard error all the time: the program would wait at a full pipe. Returns the last
    /// lines, without progress.
    last_lines: Option<JoinHandle<String>>,
}

/// How a program ended.
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// The last lines of its standard error.
    pub message: String,
}

impl LoadProcess {
    /// Starts a program, in a process group of its own: a Ctrl-C at the terminal does not reach it.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Self::start_with(command, Stdio::null())
    }

    /// Starts a program, and returns what it prints.
    pub fn start_and_read(command: &mut Command) -> io::Result<(Self, ChildStdout)> {
        let mut process = Self::start_with(command, Stdio::piped())?;
        let output = process.child.stdout.take();
        Ok((process, output.ok_or(io::ErrorKind::BrokenPipe)?))
    }

    fn start_with(command: &mut Command, output: Stdio) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let errors = child.stderr.take();
        let last_lines = errors.map(|errors| std::thread::spawn(move || last_lines(errors)));
        Ok(Self { child, last_lines })
    }

    /// Its process id: the shell becomes the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`Interrupted`], at once.
    pub fn wait(mut self) -> Result<Ended> {
        let status = loop {
            if interrupt::is_requested() {
                return Err(Interrupted.into());
            }
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let message = self.last_lines.take().map(JoinHandle::join);
        let message = message.and_then(Result::ok).unwrap_or_default();
        Ok(Ended { status, message })
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines of a program's standard error, without progress. Progress overwrites itself: it
/// ends with a carriage return.
fn last_lines(errors: impl Read) -> String {
    let mut lines: VecDeque<String> = VecDeque::new();
    for line in BufReader::new(errors).split(b'\n').map_while(Result::ok) {
        let parts = line.split(|byte| *byte == b'\r');
        let said = parts.filter(|part| !PROGRESS.iter().any(|begin| part.starts_with(begin)));
        for part in said.filter(|part| !part.trim_ascii().is_empty()) {
            lines.push_back(String::from_utf8_lossy(part).into_owned());
        }
        while lines.len() > LAST_LINES {
            lines.pop_front();
        }
    }
    lines.make_contiguous().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_says_much_does_not_wait() {
        let mut command = Command::new("/bin/sh");
        command.args([
            "-c",
            "yes loading: | head -n 22000 >&2; echo worse >&2; exit 3",
        ]);
        let ended = LoadProcess::start(&mut command).unwrap().wait().unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(ended.message, "worse");
    }

    #[test]
    fn what_follows_progress_on_its_line_is_said() {
        let text = "... finished 100 ops   \r... finished 200 ops   \rput error: no space\nworse\n";
        assert_eq!(last_lines(text.as_bytes()), "put error: no space; worse");
    }
}
