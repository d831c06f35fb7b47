//! The process that lowers priorities for `attach --priority`, and gives them back when `attach` ends, even by
//! `kill -9`.
//!
//! It holds the reading end of a pipe whose writing end only `attach` has: the end of the pipe is the end of `attach`.
//! It has a process group of its own, and does not end at a signal: it may have something to give back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use anyhow::Context;
use coldstream_attach::priorities::{TEND_INTERVAL, Tended};
use coldstream_attach::privileges;
use coldstream_host::process;
use coldstream_io::sys::credentials::CAP_SYS_NICE;

use crate::exit::{Exit, failure};
use crate::{output, processes};

/// The name of the hidden command.
pub const KEEPER: &str = "keep-priorities";
/// What it says once it has its privileges.
const READY: &str = "ready";

/// Lower the priorities of background threads until standard input ends
#[derive(clap::Args)]
pub struct KeeperArguments {
    /// The processes, all of one user
    #[arg(value_parser = processes::parse_id, required = true)]
    pids: Vec<u32>,
}

/// `attach`'s end of it.
pub(super) struct Keeper {
    child: Child,
    pipe: ChildStdin,
}

impl Keeper {
    /// Starts it. To be called while `attach` has its privileges.
    ///
    /// # Errors
    /// It cannot be started, or may not change priorities.
    pub(super) fn start(pids: impl Iterator<Item = u32>) -> anyhow::Result<Self> {
        let what = "cannot start the process that lowers priorities";
        let mut child = Command::new(std::env::current_exe().context(what)?)
            .arg(KEEPER)
            .args(pids.map(|pid| pid.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context(what)?;
        let pipe = child.stdin.take().context(what)?;
        let mut said = String::new();
        let stdout = child.stdout.take().context(what)?;
        BufReader::new(stdout).read_line(&mut said).context(what)?;
        if said.trim_end() == READY {
            return Ok(Self { child, pipe });
        }
        drop(pipe);
        let _ = child.wait();
        let message = format!("{what}: {}", said.trim_end());
        Err(failure(Exit::Permission, message))
    }

    /// It may begin: status pages and privileges are as they are to be.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        let what = "the process that lowers priorities has ended";
        self.pipe.write_all(b"b").context(what)
    }

    /// Whether it was killed. Nobody gives priorities back then.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it. Returns whether every priority is given back.
    pub(super) fn finish(mut self) -> bool {
        drop(self.pipe);
        self.child.wait().is_ok_and(|status| status.success())
    }
}

/// What the keeper does.
///
/// # Errors
/// It may not change priorities.
pub fn keep(arguments: &KeeperArguments) -> anyhow::Result<()> {
    if let Err(error) = give_privileges_away(arguments.pids[0]) {
        output::print(&format!("{error:#}\n"))?;
        return Err(error);
    }
    ctrlc::set_handler(|| ())?;
    output::print(&format!("{READY}\n"))?;
    if !matches!(io::stdin().read(&mut [0]), Ok(1)) {
        return Ok(());
    }
    let pids = arguments.pids.iter().copied();
    // An error: it has ended since.
    let mut tended: Vec<Tended> = pids.filter_map(|pid| Tended::new(pid).ok()).collect();
    let (end, has_ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(end);
    });
    while let Err(RecvTimeoutError::Timeout) = has_ended.recv_timeout(TEND_INTERVAL) {
        tended.retain(|it| !it.has_ended());
        tended.iter_mut().for_each(Tended::tend);
    }
    let mut all_is_given_back = true;
    for process in &mut tended {
        all_is_given_back &= process.give_back();
    }
    if !all_is_given_back {
        let message = "not every priority could be given back";
        return Err(failure(Exit::Failure, message));
    }
    Ok(())
}

/// Becomes the user of the processes, with the only capability that giving a nice value back needs.
fn give_privileges_away(pid: u32) -> anyhow::Result<()> {
    let user = process::user(pid).ok_or_else(|| processes::no_such_process(pid))?;
    privileges::become_user_of(pid, user, CAP_SYS_NICE).map_err(|errno| {
        let message = format!("giving nice values back needs CAP_SYS_NICE: {errno}");
        failure(Exit::Permission, message)
    })
}
