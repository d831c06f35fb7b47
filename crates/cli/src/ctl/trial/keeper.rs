//! A process that restores the switches if `coldstream ctl trial` dies without doing so, for instance by `kill -9`.
//!
//! It sleeps on a pipe that only the trial writes to. One byte is a farewell. The end of the pipe without it is the
//! trial's death. It has a process group of its own: Ctrl-C of a terminal does not reach it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use coldstream_control::Mechanisms;

use super::states::States;
use crate::exit::{self, Exit};
use crate::{output, processes};

/// The name of the hidden command.
pub const KEEPER: &str = "restore-switches";

/// A process that does not answer is asked again for this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Restore the switches of a process when standard input ends
#[derive(clap::Args)]
pub struct KeeperArguments {
    /// The process
    #[arg(value_parser = processes::parse_id)]
    pid: u32,
    /// What was off before, as bits
    before: u64,
    /// What the trial switches, as bits
    chosen: u64,
}

/// The trial's end of it.
pub struct Keeper {
    child: Child,
    pipe: ChildStdin,
}

impl Keeper {
    /// Starts it. It holds the lock, too: no other trial begins before the switches are restored.
    ///
    /// # Errors
    /// It cannot be started: then there should be no trial.
    pub fn start(pid: u32, states: States, lock: File) -> anyhow::Result<Self> {
        let what = "cannot start the process that restores the switches if this one dies";
        let mut child = Command::new(std::env::current_exe().context(what)?)
            .args([KEEPER, &pid.to_string()])
            .args([states.before, states.chosen].map(|off| off.bits().to_string()))
            .stdin(Stdio::piped())
            // It prints nothing there, and the descriptor stays open until it ends.
            .stdout(Stdio::from(lock))
            .process_group(0)
            .spawn()
            .context(what)?;
        let pipe = child.stdin.take().context(what)?;
        Ok(Self { child, pipe })
    }

    /// The switches are as before: it may go.
    pub fn dismiss(mut self) {
        // If it has died already, there is nothing to tell it.
        let _ = self.pipe.write_all(b"d");
        drop(self.pipe);
        let _ = self.child.wait();
    }
}

/// What the keeper does.
///
/// # Errors
/// The switches cannot be restored.
pub fn keep(arguments: &KeeperArguments) -> anyhow::Result<()> {
    let mut farewell = [0];
    if matches!(std::io::stdin().read(&mut farewell), Ok(1)) {
        return Ok(());
    }
    let states = States {
        before: Mechanisms::from_bits(arguments.before),
        chosen: Mechanisms::from_bits(arguments.chosen),
    };
    let started = Instant::now();
    loop {
        match states.restore(arguments.pid) {
            Err(error) if exit::of(&error) == Exit::NoAnswer && started.elapsed() < PATIENCE => {}
            Err(error) if exit::of(&error) == Exit::NotFound => return Ok(()),
            other => {
                if other.is_ok() {
                    let pid = arguments.pid;
                    output::say(&format!(
                        "the trial died; the switches of process {pid} are as before"
                    ));
                }
                return other;
            }
        }
    }
}
