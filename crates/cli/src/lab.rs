//! `coldstream lab`: starts the laboratory, and finds for it the library and the programs that are
//! installed beside this command.

use std::io;

use clap::Subcommand;
use coldstream_lab::saved::{self, SavedReportArgs};
use coldstream_lab::{EngineArguments, EngineCommand, LabError, WorkDirArgs};

use crate::exit::{self, Exit, failure};
use crate::library;

const EXAMPLES: &str = "\
Examples:
  coldstream lab rocksdb --quick
  coldstream lab rocksdb --modes buffered,coldstream --html report.html --json-file report.json
  coldstream lab leveldb --modes buffered,coldstream:readahead=scans-and-mapped
  coldstream lab pebble --modes buffered,attach
  coldstream lab cassandra --modes 5.0/stock,5.0/coldstream
  coldstream lab report report.json

Exit codes: 8 a database gave a wrong value, 130 interrupted; `coldstream --help` lists all.";

/// Measure real engines on this machine, with and without Coldstream
#[derive(clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct LabArguments {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    #[command(flatten)]
    Engine(EngineCommand),
    /// Show a saved report again, and write its page or its picture
    Report(SavedReportArgs),
}

/// Runs the laboratory.
pub fn run(arguments: LabArguments) -> anyhow::Result<()> {
    let ended = match arguments.command {
        LabCommand::Engine(mut engine) => {
            find_companions(engine.arguments_mut())?;
            engine.measure()
        }
        LabCommand::Report(arguments) => saved::run(&arguments),
    };
    ended.map_err(|error| failure(exit_of(&error), error.to_string()))
}

/// Fills in the paths that the user did not name.
fn find_companions(options: &mut dyn EngineArguments) -> anyhow::Result<()> {
    for (file_name, path) in options.companions() {
        if path.is_none() {
            *path = library::companion(file_name);
        }
    }
    if options.loads_coldstream() {
        find_library(options.work_dir_mut())?;
    }
    Ok(())
}

/// Fills in the library that is measured. A library that the user named is never replaced.
fn find_library(work_dir: &mut WorkDirArgs) -> anyhow::Result<()> {
    let named = work_dir.coldstream_library.as_deref();
    work_dir.coldstream_library = Some(library::find(named, "--coldstream-library")?);
    Ok(())
}

fn exit_of(error: &LabError) -> Exit {
    match error {
        LabError::WrongValue(_) => Exit::WrongValue,
        LabError::Interrupted(_) => Exit::Interrupted,
        LabError::Failed(error) => error
            .chain()
            .find_map(|cause| cause.downcast_ref::<io::Error>())
            .map_or(Exit::Failure, exit::of_io),
    }
}
