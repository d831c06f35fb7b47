//! One request to one running process: send it, and wait for the answer.
//!
//! Only one `coldstream ctl` at a time asks a process: it holds a lock on the file of the status
//! page. The kernel releases the lock with the file, however this program ends.

use std::fs::File;
use std::time::{Duration, Instant};

use coldstream_control::{Mechanisms, Outcome, Snapshot, Switches};
use coldstream_host::process;
use coldstream_host::status_page::{StatusPage, page_of};
use rustix::fs::{FlockOperation, flock};

use crate::exit::{self, Exit, failure};
use crate::processes;

/// A process that is not stopped answers within a fraction of a second. It takes longer if its
/// device is slow to write the staged bytes.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// The interval between two checks whether the process is alive.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The interval between two tries to lock the page.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// The state that a process is asked for: all of it, not the change alone.
#[derive(Clone, Copy, Debug)]
pub struct Desired {
    /// The mechanisms that are to be off.
    pub off: Mechanisms,
    /// The priorities, as `coldstream_policy::Priorities` writes them.
    pub priorities_bits: u64,
}

/// The state after a request.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// The switches now.
    pub switches: Switches,
    /// Threads whose nice values were left alone; 0 while none is wanted.
    pub nice_refused_threads: u64,
    /// The time from the start of the command to the answer.
    pub time: Duration,
}

/// Asks one process and waits for its answer. `change` makes the desired state from the present one.
///
/// # Errors
/// There is no such process, it belongs to another user, cannot be switched, does not answer in
/// time, or could not do all of it. Errors of `change` are returned as they are.
pub fn ask(
    pid: u32,
    change: impl FnOnce(&Switches) -> anyhow::Result<Desired>,
) -> anyhow::Result<Answered> {
    let start = Instant::now();
    processes::running(pid)?;
    let _lock = lock(pid, start)?;
    let page = StatusPage::open_for_requests(pid).map_err(|error| processes::unusable(&error))?;
    let desired = change(&switches_to_come(&page, pid)?)?;
    let number = page.send_request(u64::from(desired.off.bits()), desired.priorities_bits);
    let outcome = wait(&page, pid, number, start)?;
    check(pid, outcome)?;
    let snapshot = page.snapshot();
    let snapshot = snapshot.map_err(|error| damaged(pid, &error.to_string()))?;
    if snapshot.switches.off != desired.off {
        return Err(damaged(
            pid,
            "its switches are not those that it was asked for",
        ));
    }
    Ok(Answered {
        switches: snapshot.switches,
        nice_refused_threads: snapshot.nice_refused_threads(),
        time: start.elapsed(),
    })
}

/// Locks the file of the page, after at most [`ANSWER_TIME_MAX`] since `start`.
fn lock(pid: u32, start: Instant) -> anyhow::Result<File> {
    let path = page_of(pid);
    let file = File::options()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| {
            let message = format!("{}: {error}", path.display());
            failure(exit::of_io(&error), message)
        })?;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if start.elapsed() > ANSWER_TIME_MAX {
            return Err(failure(
                Exit::NoAnswer,
                format!("another coldstream ctl is waiting for process {pid}: try again later"),
            ));
        }
        std::thread::sleep(LOCK_INTERVAL);
    }
    Ok(file)
}

/// The switches after all requests that were sent. A request that is still unanswered counts, so
/// that a further request does not undo it.
fn switches_to_come(page: &StatusPage, pid: u32) -> anyhow::Result<Switches> {
    let mut switches = snapshot_of(page, pid)?.switches;
    if switches.mechanisms.is_empty() {
        return Err(failure(
            Exit::Failure,
            format!(
                "process {pid} cannot be switched: its library is older than this command, or was \
                 not allowed to make a thread; restart it with COLDSTREAM=off instead"
            ),
        ));
    }
    let last = page.view().request();
    if last.number != page.view().answer().number {
        switches.off = Mechanisms::from_bits(last.off_bits);
        switches.priorities_bits = last.priorities_bits;
    }
    Ok(switches)
}

fn wait(page: &StatusPage, pid: u32, number: u32, start: Instant) -> anyhow::Result<Outcome> {
    loop {
        if let Some(outcome) = page.wait_for_answer(number, CHECK_INTERVAL) {
            return Ok(outcome);
        }
        snapshot_of(page, pid)?;
        if start.elapsed() > ANSWER_TIME_MAX {
            return Err(failure(
                Exit::NoAnswer,
                format!(
                    "process {pid} has not answered for {} seconds: {}; it will still do it (see `coldstream ctl status \
                     {pid}`)",
                    ANSWER_TIME_MAX.as_secs(),
                    why_silent(page, pid)
                ),
            ));
        }
    }
}

/// What keeps the process, or the one of `coldstream attach` in its place, from an answer.
fn why_silent(page: &StatusPage, pid: u32) -> String {
    let keeper = page.view().keeper().map(|(keeper, _)| keeper);
    match (keeper, process::is_stopped(keeper.unwrap_or(pid))) {
        (None, true) => format!("it is stopped, and `kill -CONT {pid}` lets it go on"),
        (Some(keeper), true) => format!(
            "`coldstream attach`, process {keeper}, is stopped, and `kill -CONT {keeper}` lets it go on"
        ),
        (None, false) => {
            "its device is slow to write the staged bytes, or its processors are busy".to_owned()
        }
        (Some(_), false) => "busy processors leave `coldstream attach` no time".to_owned(),
    }
}

fn snapshot_of(page: &StatusPage, pid: u32) -> anyhow::Result<Snapshot> {
    if processes::started(pid).is_none() {
        return Err(processes::no_such_process(pid));
    }
    let snapshot = page.snapshot();
    snapshot.map_err(|error| damaged(pid, &error.to_string()))
}

/// The error for a page with wrong content.
pub fn damaged(pid: u32, why: &str) -> anyhow::Error {
    failure(
        Exit::Failure,
        format!("the status page of process {pid} is damaged: {why}"),
    )
}

/// Turns any outcome but success into an error.
fn check(pid: u32, outcome: Outcome) -> anyhow::Result<()> {
    let message = match outcome {
        Outcome::Done => return Ok(()),
        Outcome::Refused => format!(
            "process {pid} refused the request: its library has another version than this command; \
             nothing was changed"
        ),
        Outcome::WriteFailed => format!(
            "process {pid} was switched, but could not write the staged bytes of an SSTable: the \
             database gets the error from its next call on that file"
        ),
        Outcome::PriorityKept => format!(
            "process {pid} was switched, but a thread keeps its nice value: the process may not \
             restore the former one (it needs CAP_SYS_NICE or RLIMIT_NICE)"
        ),
    };
    Err(failure(Exit::Failure, message))
}
