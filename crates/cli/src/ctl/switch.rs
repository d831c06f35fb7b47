//! Asks running processes to switch mechanisms, and waits until they have.

use std::fs::File;
use std::time::{Duration, Instant};

use coldstream_control::{Mechanism, Mechanisms, Outcome, Snapshot, Switches};
use coldstream_host::status_page::{StatusPage, page_of};
use coldstream_policy::{Config, ConfigError, Priorities};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::exit::{self, Exit, failure};
use crate::processes::Status;
use crate::{output, processes};

/// A process that is not stopped answers within a fraction of a second, unless its device takes
/// longer over what was staged.
const PATIENCE: Duration = Duration::from_secs(5);
/// Whether the process still lives is asked so often.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// `on` and `off`.
#[derive(clap::Args)]
pub struct SwitchArguments {
    /// A process id [default: every process of this user under Coldstream]
    #[arg(value_parser = super::process_id())]
    pid: Option<u32>,
    /// These mechanisms alone: reads, writes, handover, priority, readahead, pacing, eviction
    #[arg(long, value_name = "MECHANISM", value_delimiter = ',', value_parser = mechanism)]
    only: Vec<Mechanism>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `set`.
#[derive(clap::Args)]
pub struct SetArguments {
    /// A process id
    #[arg(value_parser = super::process_id())]
    pid: u32,
    /// nice=0…19 or none, io-priority=0…7, idle or none; for all roles but flush, or by role as in
    /// nice=compaction:10,streaming:none
    #[arg(required = true, value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn mechanism(name: &str) -> Result<Mechanism, String> {
    Mechanism::from_name(name).ok_or_else(|| {
        let names = Mechanism::ALL.map(Mechanism::name).join(", ");
        format!("the mechanisms are {names}")
    })
}

/// What a process says after it was switched.
#[derive(Serialize)]
struct Report {
    pid: u32,
    on: Vec<&'static str>,
    off: Vec<&'static str>,
    nice: String,
    io_priority: String,
    milliseconds: u128,
}

/// Switches off.
pub fn off(arguments: &SwitchArguments) -> anyhow::Result<()> {
    switch(arguments, Mechanisms::with)
}

/// Switches on.
pub fn on(arguments: &SwitchArguments) -> anyhow::Result<()> {
    switch(arguments, Mechanisms::without)
}

fn switch(
    arguments: &SwitchArguments,
    change: fn(Mechanisms, Mechanisms) -> Mechanisms,
) -> anyhow::Result<()> {
    let pids = match arguments.pid {
        Some(pid) => vec![pid],
        None => living(processes::with_pages()?),
    };
    if pids.is_empty() {
        return Err(failure(
            Exit::NotFound,
            "no process of this user has opened a table under Coldstream",
        ));
    }
    let results = pids.into_iter().map(|pid| {
        ask(pid, |now| {
            let chosen = if arguments.only.is_empty() {
                now.mechanisms
            } else {
                Mechanisms::of(&arguments.only)
            };
            if let Some(missing) = chosen.without(now.mechanisms).iter().next() {
                return Err(failure(
                    Exit::Failure,
                    format!("the library in process {pid} has no {}", missing.name()),
                ));
            }
            Ok((change(now.off, chosen), now.priorities_bits))
        })
    });
    show(results, arguments.json)
}

/// Those of which a page was not merely left behind: such pages are removed.
fn living(mut pids: Vec<u32>) -> Vec<u32> {
    pids.retain(|pid| {
        let was_removed = matches!(processes::status(*pid), Status::Removed { .. });
        !was_removed && processes::started(*pid).is_some()
    });
    pids
}

/// Changes settings.
pub fn set(arguments: &SetArguments) -> anyhow::Result<()> {
    let pid = arguments.pid;
    let result = ask(pid, |now| {
        let mut priorities = Priorities::from_bits(now.priorities_bits)
            .ok_or_else(|| damaged(pid, "its priorities make no sense"))?;
        for setting in &arguments.settings {
            priorities = with(priorities, setting)?;
        }
        Ok((now.off, priorities.to_bits()))
    });
    show([result].into_iter(), arguments.json)
}

fn with(priorities: Priorities, setting: &str) -> anyhow::Result<Priorities> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
    let (changed, variable) = match name {
        "nice" => (priorities.with_nice(value), "COLDSTREAM_NICE"),
        "io-priority" => (priorities.with_io(value), "COLDSTREAM_IO_PRIORITY"),
        _ => {
            return Err(failure(
                Exit::Usage,
                format!(
                    "{name} cannot be changed in a running process: nice and io-priority can; \
                     everything else is set when the process starts (see `coldstream run --help`)"
                ),
            ));
        }
    };
    changed.ok_or_else(|| {
        let message = match allowed(variable) {
            Some(allowed) => format!("{setting}: {allowed}"),
            None => format!("{setting}: see `coldstream ctl set --help` for what may be set"),
        };
        failure(Exit::Usage, message)
    })
}

/// What may be given for a variable, as it is said of one that is wrong when a process starts.
fn allowed(variable: &str) -> Option<&'static str> {
    // No setting takes this.
    let wrong = |name: &str| (name == variable).then(|| "?".to_owned());
    match Config::from_sources(None, wrong) {
        Err(ConfigError::Value { allowed, .. }) => Some(allowed),
        _ => None,
    }
}

/// Asks one process and waits for its answer. `change` says what it shall be asked for: what is to
/// be off, and the bits of its priorities.
fn ask(
    pid: u32,
    change: impl FnOnce(&Switches) -> anyhow::Result<(Mechanisms, u64)>,
) -> anyhow::Result<Report> {
    let begun = Instant::now();
    processes::running(pid)?;
    let path = page_of(pid);
    let file = File::options()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|failed| {
            let message = format!("{}: {failed}", path.display());
            failure(exit::of_io(&failed), message)
        })?;
    // Given back with the file, however this program ends.
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if begun.elapsed() > PATIENCE {
            return Err(failure(
                Exit::NoAnswer,
                format!("another coldstream ctl is waiting for process {pid}"),
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let page = StatusPage::open_for_requests(pid).map_err(|error| processes::unusable(&error))?;
    let snapshot = snapshot_of(&page, pid)?;
    if snapshot.switches.mechanisms.is_empty() {
        return Err(failure(
            Exit::Failure,
            format!(
                "process {pid} cannot be switched: its library is older than this command, or was \
                 not allowed to make a thread; restart it with COLDSTREAM=off instead"
            ),
        ));
    }
    let last = page.view().request();
    let mut now = snapshot.switches;
    if last.number != page.view().answer().number {
        // What was asked for last and is still to come is not taken back by asking for more.
        now.off = Mechanisms::from_bits(last.off_bits);
        now.priorities_bits = last.priorities_bits;
    }
    let (off, priorities_bits) = change(&now)?;
    let number = page.send_request(u64::from(off.bits()), priorities_bits);
    let outcome = wait(&page, pid, number, begun)?;
    let after = page.view().switches();
    told(pid, outcome)?;
    if after.off != off {
        return Err(damaged(pid, "it says something else than it was asked for"));
    }
    let priorities = Priorities::from_bits(after.priorities_bits).unwrap_or_else(Priorities::none);
    let names = |is_on| {
        let of_state = after.iter().filter(move |(_, on)| *on == is_on);
        of_state.map(|(mechanism, _)| mechanism.name()).collect()
    };
    Ok(Report {
        pid,
        on: names(true),
        off: names(false),
        nice: priorities.nice_text(),
        io_priority: priorities.io_text(),
        milliseconds: begun.elapsed().as_millis(),
    })
}

fn snapshot_of(page: &StatusPage, pid: u32) -> anyhow::Result<Snapshot> {
    if processes::started(pid).is_none() {
        return Err(processes::no_such_process(pid));
    }
    let snapshot = page.snapshot();
    snapshot.map_err(|error| damaged(pid, &error.to_string()))
}

fn damaged(pid: u32, why: &str) -> anyhow::Error {
    failure(
        Exit::Failure,
        format!("the status page of process {pid} is not what it should be: {why}"),
    )
}

fn wait(page: &StatusPage, pid: u32, number: u32, begun: Instant) -> anyhow::Result<Outcome> {
    loop {
        if let Some(outcome) = page.wait_for_answer(number, LOOK_INTERVAL) {
            return Ok(outcome);
        }
        snapshot_of(page, pid)?;
        if begun.elapsed() > PATIENCE {
            return Err(failure(
                Exit::NoAnswer,
                format!(
                    "process {pid} has not answered for {} seconds: it is stopped, or its device \
                     takes that long over what was staged; it will do as it was asked when it can \
                     (see `coldstream ctl status {pid}`)",
                    PATIENCE.as_secs()
                ),
            ));
        }
    }
}

fn told(pid: u32, outcome: Outcome) -> anyhow::Result<()> {
    let message = match outcome {
        Outcome::Done => return Ok(()),
        Outcome::Refused => format!(
            "process {pid} did not understand: its library is of another version than this command; \
             nothing was changed"
        ),
        Outcome::WriteFailed => format!(
            "process {pid} was switched, but could not write what was staged of a table: the \
             database is told so by its next call on that table"
        ),
        Outcome::PriorityKept => format!(
            "process {pid} was switched, but may not give a thread its former nice value back \
             (needs CAP_SYS_NICE or RLIMIT_NICE): it keeps the one it has"
        ),
    };
    Err(failure(Exit::Failure, message))
}

/// Shows what came of it; every error is said, and the first is the command's.
fn show(results: impl Iterator<Item = anyhow::Result<Report>>, json: bool) -> anyhow::Result<()> {
    let mut reports = Vec::new();
    let mut first_error = None;
    for result in results {
        match result {
            Ok(report) => reports.push(report),
            Err(error) if first_error.is_none() => first_error = Some(error),
            Err(error) => output::error(&error),
        }
    }
    if json {
        output::print_json(&reports)?;
    } else {
        let lines = reports.iter().map(Report::line);
        output::print(&lines.collect::<String>())?;
    }
    first_error.map_or(Ok(()), Err)
}

impl Report {
    fn line(&self) -> String {
        let list = |names: &[&str]| match names {
            [] => "nothing".to_owned(),
            names => names.join(", "),
        };
        format!(
            "process {}: on: {}; off: {}; nice {}; io-priority {}; took {} ms\n",
            self.pid,
            list(&self.on),
            list(&self.off),
            self.nice,
            self.io_priority,
            self.milliseconds
        )
    }
}
