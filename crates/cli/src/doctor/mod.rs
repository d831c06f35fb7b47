//! `coldstream doctor`: what this machine, a path or a process allows, what Coldstream would do there and why, and
//! what to change.
//!
//! Changes nothing, with two exceptions. It makes a temporary file in a directory where no SSTable gives a certain
//! result. It removes the status page of a process that has ended. Under a filter of system calls it starts processes
//! that try the filter out.

mod cassandra;
mod environment;
mod loaded;
mod loading;
mod log;
mod machine;
mod mapped;
mod path_facts;
mod paths;
mod process;
mod report;
mod service;
mod text;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::exit::{self, Exit, failure};
use crate::output::{self, Format, FormatArguments};
use crate::processes::{self, NotIds};
use crate::unit::Root;
use process::Asked;
use report::Report;

const EXAMPLES: &str = "\
Examples:
  coldstream doctor
  coldstream doctor /var/lib/cassandra/data
  coldstream doctor --json /var/lib/db /mnt/backup
  coldstream doctor 4711
  coldstream doctor /etc/cassandra/cassandra.yaml
  coldstream doctor --unit cassandra          # before its restart, and after

doctor reads a few pages of one SSTable in the directory. Where there is none, or where it is in the \
page cache, doctor writes a file of 1 MiB without a name for a moment. A number is a process id: \
write ./4711 for a path with that name. For a Cassandra node, or its cassandra.yaml, doctor examines \
the configuration and the data directories too.
Exit codes: 0 nothing to change, 13 something to change, 5 no permission, 7 no such path or process; \
`coldstream --help` lists all. A note alone is 0. Where something could not be examined, the code of that error wins.";

/// Show what Coldstream can do for a path or a process, and what to change
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArguments {
    /// Directories, files, a cassandra.yaml or process ids [default: the current directory]
    #[arg(value_name = "PATH|PID", value_hint = clap::ValueHint::AnyPath)]
    subjects: Vec<OsString>,
    /// A unit of systemd: what its files would do at its next start, and its processes
    #[arg(long = "unit", value_name = "UNIT")]
    units: Vec<String>,
    /// Read the files of units in this directory
    #[arg(long, value_name = "DIR", default_value = "/", requires = "units")]
    root: PathBuf,
    #[command(flatten)]
    format: FormatArguments,
}

/// Examines all subjects. The report comes first, then the errors. The first error decides the exit code, or else
/// whether anything is to change.
pub fn run(arguments: &DoctorArguments) -> anyhow::Result<Exit> {
    let mut subjects = Vec::new();
    for argument in &arguments.subjects {
        subjects.extend(subjects_in(argument)?);
    }
    if subjects.is_empty() && arguments.units.is_empty() {
        subjects.push(Subject::Path(Path::new(".")));
    }
    let mut report = Report::of_machine();
    let mut errors = Vec::new();
    for subject in subjects {
        let examined = match subject {
            Subject::Process(pid) => {
                process::examine(pid, Asked::ForIt).map(|it| report.processes.push(it))
            }
            Subject::Path(path) if cassandra::is_configuration(path) => {
                cassandra::of_configuration(path).map(|node| report.cassandra.push(node))
            }
            Subject::Path(path) => {
                path_facts::examine(path, &report.machine).map(|facts| report.paths.push(facts))
            }
        };
        errors.extend(examined.err());
    }
    let root = Root::new(&arguments.root);
    for unit in &arguments.units {
        match service::examine(&root, unit) {
            Ok(service) => errors.extend(with_processes(&mut report, service)),
            Err(error) => errors.push(error),
        }
    }
    for directory in report.data_directories() {
        let examined = path_facts::examine(&directory, &report.machine);
        errors.extend(examined.map(|facts| report.paths.push(facts)).err());
    }
    report.advise_on_machine();
    if report.has_subjects() {
        if arguments.format.format() == Format::Json {
            output::print_json(&report)?;
        } else {
            output::print(&text::render(&report))?;
        }
    }
    let mut errors = errors.into_iter();
    let first = errors.next();
    for error in errors {
        output::error(&error);
    }
    match first {
        Some(error) => Err(error),
        None if report.has_advice() => Ok(Exit::SomethingToChange),
        None => Ok(Exit::Ok),
    }
}

/// Adds a service and its processes to the report. Returns why processes could not be examined.
fn with_processes(report: &mut Report, mut service: service::Service) -> Vec<anyhow::Error> {
    let mut errors = Vec::new();
    let mut processes = Vec::new();
    for pid in &service.processes {
        match process::examine(*pid, Asked::ForItsService) {
            Ok(process) => processes.push(process),
            // One that has ended meanwhile is none.
            Err(error) if exit::of(&error) == Exit::NotFound => {}
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        let with_library = processes.iter().filter(|it| it.library.is_some()).count();
        service
            .advice
            .extend(service::restart_advice(&service, with_library));
    }
    report.services.push(service);
    report.processes.extend(processes);
    errors
}

/// What is to be examined.
enum Subject<'a> {
    Process(u32),
    Path(&'a Path),
}

/// The subjects of one argument: `"$(pgrep NAME)"` may hold several process ids, or nothing.
fn subjects_in(argument: &OsStr) -> anyhow::Result<Vec<Subject<'_>>> {
    match argument.to_str().map(processes::parse_ids) {
        None | Some(Err(NotIds::OtherWord)) => Ok(vec![Subject::Path(Path::new(argument))]),
        Some(Err(error)) => Err(failure(Exit::Usage, error.to_string())),
        Some(Ok(ids)) => Ok(ids.into_iter().map(Subject::Process).collect()),
    }
}
