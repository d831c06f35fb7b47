//! A filter of system calls (seccomp) may kill for a call that Coldstream makes and the program does not. Whether it
//! would is not written anywhere. So a process that may end by it makes each call, in vain.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use anyhow::Context;
use coldstream_host::process;
use coldstream_io::sys::{credentials, trial};
use coldstream_policy::{AVOIDABLE_CALLS, AvoidedCalls};

use crate::{library, output};

/// The hidden action that [`make_calls`] belongs to.
pub const ACTION: &str = "make-calls-in-vain";

/// Make system calls in vain, as a trial
#[derive(clap::Args)]
pub struct MakeCallsArguments {
    /// The place of the first
    first: usize,
}

/// The calls for which the filter of this process kills; none without a filter. What the program installs later is
/// not known.
pub fn killing_calls() -> AvoidedCalls {
    let (killing, tried) = try_out();
    if let Err(error) = tried {
        output::say(&format!(
            "cannot try out the filter of system calls: {error:#}. If it kills, name the calls with --avoid"
        ));
    }
    killing
}

/// The calls for which the filters of another process kill, if it has those of this one and no other: those of the
/// container of both.
pub fn killing_calls_of(pid: u32) -> Option<AvoidedCalls> {
    let own = process::filters(std::process::id())?;
    let has_these = process::filters(pid) == Some(own) && process::has_own_root(pid);
    let (killing, tried) = has_these.then(try_out)?;
    tried.is_ok().then_some(killing)
}

/// The calls that killed a process, and whether all were tried.
fn try_out() -> (AvoidedCalls, anyhow::Result<()>) {
    let mut killing = AvoidedCalls::default();
    if !process::is_filtered(std::process::id()) {
        return (killing, Ok(()));
    }
    let mut first = 0;
    while first < AVOIDABLE_CALLS.len() {
        match last_before_death(first) {
            Ok(Some(place)) => {
                killing = killing.with(place);
                first = place + 1;
            }
            Ok(None) => break,
            Err(error) => return (killing, Err(error)),
        }
    }
    (killing, Ok(()))
}

/// Makes the calls from `first` on in a process of its own. The call that killed it; `None` if it lived.
fn last_before_death(first: usize) -> anyhow::Result<Option<usize>> {
    let tried = Command::new("/proc/self/exe")
        .args([ACTION, &first.to_string()])
        .env_remove(library::PRELOAD)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .context("cannot start a process")?;
    if tried.status.signal().is_none() {
        anyhow::ensure!(tried.status.success(), "{}", tried.status);
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&tried.stdout);
    let last = said.lines().next_back().unwrap_or_default();
    let place: usize = last.parse().context("it made no call")?;
    anyhow::ensure!(place >= first, "it made call {place}");
    Ok(Some(place))
}

/// Makes the calls, and says each one before.
pub fn make_calls(arguments: &MakeCallsArguments) -> anyhow::Result<()> {
    // No core file of it is wanted.
    credentials::set_dumpable(false);
    let mut stdout = std::io::stdout();
    for place in arguments.first..AVOIDABLE_CALLS.len() {
        writeln!(stdout, "{place}")?;
        stdout.flush()?;
        trial::make_in_vain(place);
    }
    Ok(())
}
