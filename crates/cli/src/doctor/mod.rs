//! `coldstream doctor`: what this machine, a path or a process allows, what
//! Coldstream would do there and why, and what to change.
//!
//! Reads only, except for one temporary file in a directory without a table, and the status page that an
//! ended process left behind.

mod cassandra;
mod cgroup;
mod environment;
mod machine;
mod mounts;
mod paths;
mod place;
mod process;
mod text;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::output::{self, Colours};

const EXAMPLES: &str = "\
Examples:
  coldstream doctor
  coldstream doctor /var/lib/cassandra/data
  coldstream doctor --json /var/lib/db /mnt/backup
  coldstream doctor 4711
  coldstream doctor /etc/cassandra/cassandra.yaml

A directory is examined by a table in it if there is one, else by a temporary file. A number is a
process id; write ./4711 for a path of that name. Of a Cassandra node, or its cassandra.yaml, the
configuration and the directories of its data are examined too.";

/// Say what bypassing the page cache can do here, for a path or a process
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArguments {
    /// Directories, files, a cassandra.yaml or process ids [default: the current directory]
    #[arg(value_name = "PATH|PID")]
    subjects: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    machine: machine::Machine,
    paths: Vec<place::Place>,
    cassandra: Vec<cassandra::Node>,
    processes: Vec<process::Process>,
}

/// Examines all subjects; the first error decides the exit code, after the
/// report about the others.
pub fn run(arguments: &DoctorArguments) -> anyhow::Result<()> {
    let here = [PathBuf::from(".")];
    let subjects = if arguments.subjects.is_empty() {
        here.as_slice()
    } else {
        arguments.subjects.as_slice()
    };
    let mut report = Report {
        machine: machine::examine(),
        paths: Vec::new(),
        cassandra: Vec::new(),
        processes: Vec::new(),
    };
    let mut errors = Vec::new();
    for subject in subjects {
        let examined = match process_id(subject) {
            Some(pid) => process::examine(pid).map(|process| report.processes.push(process)),
            None if cassandra::is_configuration(subject) => {
                cassandra::of_configuration(subject).map(|node| report.cassandra.push(node))
            }
            None => place::examine(subject, &report.machine).map(|place| report.paths.push(place)),
        };
        errors.extend(examined.err());
    }
    for directory in data_directories(&report) {
        let examined = place::examine(&directory, &report.machine);
        errors.extend(examined.map(|place| report.paths.push(place)).err());
    }
    if !report.paths.is_empty() || !report.processes.is_empty() || !report.cassandra.is_empty() {
        if arguments.json {
            output::print_json(&report)?;
        } else {
            output::print(&text::render(&report, Colours::of(&std::io::stdout())))?;
        }
    }
    let mut errors = errors.into_iter();
    let first = errors.next();
    for error in errors {
        output::error(&error);
    }
    first.map_or(Ok(()), Err)
}

/// The directories of all nodes' tables that exist: a configuration may be another machine's.
fn data_directories(report: &Report) -> Vec<PathBuf> {
    let of_processes = report
        .processes
        .iter()
        .filter_map(|process| process.cassandra.as_ref());
    let nodes = report.cassandra.iter().chain(of_processes);
    nodes
        .flat_map(|node| &node.data_directories)
        .filter(|directory| directory.exists())
        .cloned()
        .collect()
}

fn process_id(subject: &Path) -> Option<u32> {
    let text = subject.to_str()?;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
