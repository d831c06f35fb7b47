//! A nodetool whose virtual machine stays between commands: see `NodeCommands.java`.

use crate::distribution::Distribution;
use crate::error::{NodeError, file};
use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

const SOURCE: &str = include_str!("NodeCommands.java");

/// Separates the words of a command.
const SEPARATOR: &str = "\u{1f}";
/// Where the stack of a command that failed begins in its output (`tools/NodeTool.java`).
const STACK_TRACE: &str = "-- StackTrace --";

/// nodetool for one node. Each command connects to the node's JMX port. Dropping it ends it.
#[derive(Debug)]
pub struct Nodetool {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    jmx_port: u16,
}

impl Nodetool {
    /// Starts it. Its source and its files go into `directory`.
    pub(crate) fn start(
        distribution: &Distribution,
        directory: &Path,
        jmx_port: u16,
    ) -> Result<Self, NodeError> {
        let source = directory.join("NodeCommands.java");
        fs::write(&source, SOURCE).map_err(file(&source))?;
        let log = directory.join("nodetool.log");
        let errors = fs::File::create(&log).map_err(file(&log))?;
        let mut child = distribution
            .java()
            // Small and quick to start: it does little.
            .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg(format!("-Duser.home={}", directory.display()))
            .arg(&source)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(file(&source))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (commands, answers) = pipes.ok_or_else(|| NodeError::File {
            path: source,
            source: io::ErrorKind::BrokenPipe.into(),
        })?;
        Ok(Self {
            child,
            commands,
            answers: BufReader::new(answers),
            jmx_port,
        })
    }

    /// Runs a command to its end and returns its output.
    ///
    /// # Errors
    /// [`NodeError::Nodetool`] for an exit code other than 0.
    pub fn run(&mut self, words: &[&str]) -> Result<String, NodeError> {
        let command = words.join(" ");
        let failed = |code, output| NodeError::Nodetool {
            command: command.clone(),
            code,
            output,
        };
        let (code, output, errors) = self
            .exchange(words)
            .map_err(|error| failed(-1, error.to_string()))?;
        if code == 0 {
            Ok(output)
        } else {
            let text = format!("{} {}", output.trim(), errors.trim());
            let message = text.split(STACK_TRACE).next().unwrap_or_default();
            Err(failed(code, message.trim().to_owned()))
        }
    }

    fn exchange(&mut self, words: &[&str]) -> io::Result<(i32, String, String)> {
        let port = self.jmx_port.to_string();
        let line = ["-h", "127.0.0.1", "-p", &port]
            .iter()
            .chain(words)
            .copied()
            .collect::<Vec<_>>()
            .join(SEPARATOR);
        writeln!(self.commands, "{line}")?;
        self.commands.flush()?;
        let mut number = || {
            let mut bytes = [0; 4];
            self.answers.read_exact(&mut bytes)?;
            io::Result::Ok(i32::from_be_bytes(bytes))
        };
        let (code, output, errors) = (number()?, number()?, number()?);
        let mut text = |length: i32| {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            self.answers.read_exact(&mut bytes)?;
            io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok((code, text(output)?, text(errors)?))
    }
}

impl Drop for Nodetool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
