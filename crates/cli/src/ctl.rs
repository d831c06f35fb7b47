//! `coldstream ctl`: what running processes say about themselves.

use std::fmt::Write;

use coldstream_control::{Counter, Snapshot};
use coldstream_policy::display_bytes;

use crate::exit::{Exit, failure};
use crate::output::{self, Colours};
use crate::processes::{self, Status};

const EXAMPLES: &str = "\
Examples:
  coldstream ctl list
  coldstream ctl 4711 status
  coldstream ctl 4711 status --json
  sudo -u cassandra coldstream ctl 4711 status";

/// Look at running programs: `ctl list`, `ctl PID status`
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CtlArguments {
    /// A process id, or `list` for all processes of this user under Coldstream
    #[arg(value_name = "PID|list", value_parser = target)]
    target: Target,
    /// What to do with the process
    #[arg(value_enum, default_value_t = Action::Status)]
    action: Action,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy)]
enum Target {
    All,
    One(u32),
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Action {
    /// Settings, treatment in force and counters
    Status,
}

fn target(text: &str) -> Result<Target, String> {
    if text == "list" {
        return Ok(Target::All);
    }
    text.parse()
        .map(Target::One)
        .map_err(|_| "neither a process id nor `list`".to_owned())
}

/// Shows one process or all of them.
pub fn run(arguments: &CtlArguments) -> anyhow::Result<()> {
    match (arguments.target, arguments.action) {
        (Target::All, Action::Status) => list(arguments.json),
        (Target::One(pid), Action::Status) => status(pid, arguments.json),
    }
}

fn status(pid: u32, json: bool) -> anyhow::Result<()> {
    let snapshot = match processes::status(pid) {
        Status::Running(snapshot) => snapshot,
        Status::Removed { pid: left_by } => {
            return Err(failure(
                Exit::NotFound,
                format!(
                    "the status page was left behind by process {left_by}, which has ended; it \
                     is removed"
                ),
            ));
        }
        Status::Unreadable(reason) => return Err(failure(Exit::Failure, reason)),
        Status::Absent => return Err(absent(pid)),
    };
    if json {
        return output::print_json(&snapshot);
    }
    output::print(&text(&snapshot, Colours::of(&std::io::stdout())))
}

fn absent(pid: u32) -> anyhow::Error {
    let Some(owner) = processes::user(pid) else {
        return processes::no_such_process(pid);
    };
    if owner != rustix::process::geteuid().as_raw() {
        return processes::foreign(pid, owner);
    }
    failure(
        Exit::NotFound,
        format!(
            "process {pid} has no status page: it does not run under Coldstream, or has not \
             opened a table yet; see `coldstream doctor {pid}`"
        ),
    )
}

fn list(json: bool) -> anyhow::Result<()> {
    let mut snapshots = Vec::new();
    for pid in processes::with_pages()? {
        match processes::status(pid) {
            Status::Running(snapshot) => snapshots.push(*snapshot),
            Status::Removed { pid } => {
                output::say(&format!("removed the status page of ended process {pid}"));
            }
            Status::Absent => {}
            Status::Unreadable(reason) => output::say(&reason),
        }
    }
    if json {
        return output::print_json(&snapshots);
    }
    if snapshots.is_empty() {
        output::say("no process of this user has opened a table under Coldstream");
    }
    let mut text = String::new();
    for snapshot in &snapshots {
        let pid = snapshot.header.pid;
        writeln!(text, "{pid}  {}", processes::command_line(pid))?;
        writeln!(text, "    {} · {snapshot}", treatment(snapshot))?;
    }
    output::print(&text)
}

fn treatment(snapshot: &Snapshot) -> String {
    let configured = snapshot.header.configured.name();
    match snapshot.header.in_force {
        Some(in_force) if in_force.name() == configured => configured.to_owned(),
        Some(in_force) => format!("{} (configured: {configured})", in_force.name()),
        None => format!("{configured}, no table probed yet"),
    }
}

fn text(snapshot: &Snapshot, colours: Colours) -> String {
    let header = &snapshot.header;
    let mut lines = vec![
        colours.bold(format!(
            "process {}: {}",
            header.pid,
            processes::command_line(header.pid)
        )),
        row("profile", header.profile.name()),
        row("background reads", &treatment(snapshot)),
        row(
            "windows",
            &format!(
                "{} each, {} in flight, at most {}",
                display_bytes(header.window_bytes),
                header.windows_in_flight,
                display_bytes(header.memory_bytes)
            ),
        ),
        row("so far", &snapshot.to_string()),
    ];
    for (counter, value) in snapshot.counters() {
        let shown = if counts_bytes(counter) {
            display_bytes(value)
        } else {
            value.to_string()
        };
        lines.push(row(counter.name(), &shown));
    }
    lines.join("\n") + "\n"
}

fn row(name: &str, value: &str) -> String {
    format!("  {name:<26} {value}")
}

fn counts_bytes(counter: Counter) -> bool {
    counter.name().split('_').any(|word| word == "bytes")
}
