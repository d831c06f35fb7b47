//! `ctl on`, `ctl off` and `ctl set`: switches and settings of running processes.

use std::io::IsTerminal;

use coldstream_control::{Mechanism, Mechanisms};
use coldstream_host::process::short_name;
use coldstream_host::status_page;
use coldstream_policy::{Priorities, SETTINGS};
use serde::Serialize;

use super::refusal;
use super::request::{self, Answered, Desired, ask};
use super::values::count;
use crate::exit::{Exit, failure};
use crate::output::{Format, FormatArguments};
use crate::processes::Status;
use crate::{output, processes};

/// Arguments of `on` and `off`.
#[derive(clap::Args)]
pub struct SwitchArguments {
    /// Process ids
    #[arg(value_name = "PID", value_parser = processes::parse_ids)]
    pids: Vec<processes::Ids>,
    /// Every process of this user under Coldstream; without a process id a terminal asks
    #[arg(long, conflicts_with = "pids")]
    all: bool,
    /// Only these mechanisms: reads, writes, handover, priority, readahead, pacing, eviction
    #[arg(long, value_name = "MECHANISM", value_delimiter = ',', value_parser = mechanism)]
    only: Vec<Mechanism>,
    #[command(flatten)]
    format: FormatArguments,
}

/// Arguments of `set`.
#[derive(clap::Args)]
pub struct SetArguments {
    /// A process id
    #[arg(value_parser = processes::parse_id)]
    pid: u32,
    /// nice=0…19 or none, io-priority=0…7, idle or none: for all roles but flush, or by role as in
    /// nice=compaction:10,streaming:none
    #[arg(required = true, value_name = "NAME=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    format: FormatArguments,
}

/// The parser of a mechanism's name.
pub fn mechanism(name: &str) -> Result<Mechanism, String> {
    Mechanism::from_name(name).ok_or_else(|| {
        let names = Mechanism::ALL.map(Mechanism::name).join(", ");
        format!("use one or more of {names}")
    })
}

/// The state of a process after a request.
#[derive(Serialize)]
struct Report {
    pid: u32,
    on: Vec<&'static str>,
    off: Vec<&'static str>,
    nice: String,
    io_priority: String,
    nice_refused_threads: u64,
    milliseconds: u128,
}

/// Switches off.
pub fn off(arguments: &SwitchArguments) -> anyhow::Result<()> {
    switch(arguments, "off", Mechanisms::with)
}

/// Switches on.
pub fn on(arguments: &SwitchArguments) -> anyhow::Result<()> {
    switch(arguments, "on", Mechanisms::without)
}

fn switch(
    arguments: &SwitchArguments,
    state: &str,
    change: fn(Mechanisms, Mechanisms) -> Mechanisms,
) -> anyhow::Result<()> {
    let are_named = !arguments.pids.is_empty();
    let pids = match are_named {
        true => processes::Ids::of_all(&arguments.pids),
        false => retain_alive(processes::with_pages()?),
    };
    if pids.is_empty() {
        return Err(failure(
            Exit::NotFound,
            "no process of this user has opened an SSTable under Coldstream",
        ));
    }
    if !are_named && !arguments.all {
        let named = pids.iter().map(|pid| (short_name(*pid), *pid));
        confirm(&question(
            state,
            &arguments.only,
            &named.collect::<Vec<_>>(),
        ))?;
    }
    let results = pids.into_iter().map(|pid| {
        ask(pid, |now| {
            let chosen = chosen_of(pid, &arguments.only, now.mechanisms)?;
            Ok(Desired {
                off: change(now.off, chosen),
                priorities_bits: now.priorities_bits,
            })
        })
        .map(|answered| Report::of(pid, &answered))
    });
    print(results, arguments.format.format())
}

/// What a terminal is asked: the action, and the processes with their programs.
fn question(state: &str, only: &[Mechanism], processes: &[(String, u32)]) -> String {
    let what = match only {
        [] => "all mechanisms".to_owned(),
        only => {
            let names: Vec<_> = only.iter().map(|it| it.name()).collect();
            names.join(", ")
        }
    };
    let names = processes.iter().map(|(name, pid)| format!("{name} {pid}"));
    let names = names.collect::<Vec<_>>().join(", ");
    let processes = count(processes.len() as u64, "process", "processes");
    format!("Switch {what} {state} in {processes} ({names})? y/n")
}

/// Asks whether it is meant. Without a terminal nobody can answer.
fn confirm(question: &str) -> anyhow::Result<()> {
    let refused = |text: &str| Err(failure(Exit::Usage, text));
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return refused("name a process id, or use --all for every process of this user");
    }
    eprint!("{question} ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "yes" => Ok(()),
        _ => refused("nothing was switched"),
    }
}

/// The mechanisms of a process that `only` names; all if it names none.
///
/// # Errors
/// The process has not all of them.
pub fn chosen_of(
    pid: u32,
    only: &[Mechanism],
    mechanisms: Mechanisms,
) -> anyhow::Result<Mechanisms> {
    if only.is_empty() {
        return Ok(mechanisms);
    }
    let chosen = Mechanisms::of(only);
    match chosen.without(mechanisms).iter().next() {
        None => Ok(chosen),
        Some(missing) => {
            let name = missing.name();
            let why = match status_page::is_attached(pid) {
                true => "it is followed from outside (see `coldstream attach --help`)",
                false => {
                    "it was not configured when the process started (see `coldstream run --help`)"
                }
            };
            Err(failure(
                Exit::Failure,
                format!("process {pid} has no {name}: {why}"),
            ))
        }
    }
}

/// Switches one mechanism of a process to the other state.
///
/// # Errors
/// As [`ask`].
pub fn toggle(pid: u32, mechanism: Mechanism) -> anyhow::Result<()> {
    let chosen = Mechanisms::of(&[mechanism]);
    let answered = ask(pid, |now| {
        let off = if now.off.contains(mechanism) {
            now.off.without(chosen)
        } else {
            now.off.with(chosen)
        };
        Ok(Desired {
            off,
            priorities_bits: now.priorities_bits,
        })
    });
    answered.map(|_| ())
}

/// The processes that are alive. The pages of the others are removed.
fn retain_alive(mut pids: Vec<u32>) -> Vec<u32> {
    pids.retain(|pid| {
        let was_removed = matches!(processes::status(*pid), Status::Removed { .. });
        !was_removed && processes::started(*pid).is_some()
    });
    pids
}

/// Changes settings.
pub fn set(arguments: &SetArguments) -> anyhow::Result<()> {
    let pid = arguments.pid;
    if status_page::is_attached(pid) {
        let message = format!(
            "process {pid} is followed from outside by `coldstream attach`, whose priorities cannot be \
             set: with --priority, `coldstream ctl off {pid} --only priority` gives them back"
        );
        return Err(failure(Exit::Failure, message));
    }
    let result = ask(pid, |now| {
        let mut priorities = Priorities::from_bits(now.priorities_bits)
            .ok_or_else(|| request::damaged(pid, "it has impossible priorities"))?;
        for setting in &arguments.settings {
            priorities = with_priority(priorities, setting)?;
        }
        Ok(Desired {
            off: now.off,
            priorities_bits: priorities.to_bits(),
        })
    });
    let result = result.map(|answered| Report::of(pid, &answered));
    print([result].into_iter(), arguments.format.format())
}

/// The priorities, changed by one `NAME=VALUE`.
fn with_priority(priorities: Priorities, setting: &str) -> anyhow::Result<Priorities> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
    let changed = match name {
        "nice" => priorities.with_nice(value),
        "io-priority" => priorities.with_io(value),
        _ => {
            return Err(failure(
                Exit::Usage,
                format!(
                    "{name} cannot be changed in a running process: only nice and io-priority can; \
                     set it when the process starts (see `coldstream run --help`)"
                ),
            ));
        }
    };
    changed.ok_or_else(|| {
        let mut settings = SETTINGS.iter();
        let its = settings.find(|setting| setting.option() == Some(name));
        let message = match its {
            Some(its) => format!("{setting}: use {}", its.allowed()),
            None => format!("{setting}: see `coldstream ctl set --help` for the values"),
        };
        failure(Exit::Usage, message)
    })
}

/// Prints the results and the errors. The first error decides the exit code.
fn print(
    results: impl Iterator<Item = anyhow::Result<Report>>,
    format: Format,
) -> anyhow::Result<()> {
    let mut reports = Vec::new();
    let mut first_error = None;
    for result in results {
        match result {
            Ok(report) => reports.push(report),
            Err(error) if first_error.is_none() => first_error = Some(error),
            Err(error) => output::error(&error),
        }
    }
    if format == Format::Json {
        output::print_json(&reports)?;
    } else {
        let lines = reports.iter().map(Report::line);
        output::print(&lines.collect::<String>())?;
    }
    first_error.map_or(Ok(()), Err)
}

impl Report {
    fn of(pid: u32, answered: &Answered) -> Self {
        let switches = answered.switches;
        let priorities =
            Priorities::from_bits(switches.priorities_bits).unwrap_or_else(Priorities::none);
        let names = |is_on| {
            let of_state = switches.iter().filter(move |(_, on)| *on == is_on);
            of_state.map(|(mechanism, _)| mechanism.name()).collect()
        };
        Self {
            pid,
            on: names(true),
            off: names(false),
            nice: priorities.nice_text(),
            io_priority: priorities.io_text(),
            nice_refused_threads: answered.nice_refused_threads,
            milliseconds: answered.time.as_millis(),
        }
    }

    fn line(&self) -> String {
        let list = |names: &[&str]| match names {
            [] => "nothing".to_owned(),
            names => names.join(", "),
        };
        // While priority is off, all values are those of before.
        let priorities = match self.on.contains(&Mechanism::Priority.name()) {
            true => format!(
                "; nice {}{}; io-priority {}",
                self.nice,
                refusal::words(self.nice_refused_threads),
                self.io_priority
            ),
            false => String::new(),
        };
        format!(
            "process {}: on: {}; off: {}{priorities}; took {} ms\n",
            self.pid,
            list(&self.on),
            list(&self.off),
            self.milliseconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_says_what_is_switched_and_where() {
        let two = [("mariadbd".to_owned(), 690), ("db_bench".to_owned(), 16690)];
        assert_eq!(
            question("off", &[], &two),
            "Switch all mechanisms off in 2 processes (mariadbd 690, db_bench 16690)? y/n"
        );
        assert_eq!(
            question("on", &[Mechanism::Reads, Mechanism::Writes], &two[..1]),
            "Switch reads, writes on in 1 process (mariadbd 690)? y/n"
        );
    }
}
