//! `coldstream lab`: hands over to the laboratory, and finds for it what belongs
//! to this program.

use std::io;

use clap::Subcommand;
use coldstream_lab::cassandra::{self, CassandraArgs};
use coldstream_lab::rocksdb::{self, RocksDbArgs};
use coldstream_lab::saved::{self, SavedReportArgs};
use coldstream_lab::{LabError, WorkDirArgs};

use crate::exit::{self, Exit, failure};
use crate::library;

/// The load driver, built from `crates/lab/rocksdb-driver`.
const ROCKSDB_DRIVER: &str = "coldstream-rocksdb-driver";

/// Measure real engines on this machine: before and after, mode beside mode
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
pub struct LabArguments {
    #[command(subcommand)]
    engine: Engine,
}

#[derive(Subcommand)]
enum Engine {
    /// RocksDB under an open-loop load while it compacts
    #[command(name = "rocksdb")]
    RocksDb(Box<RocksDbArgs>),
    /// Apache Cassandra: real nodes under an open-loop load through a major compaction
    Cassandra(Box<CassandraArgs>),
    /// Show a saved report again, and write its page or its picture
    Report(SavedReportArgs),
}

/// Runs the laboratory.
pub fn run(arguments: LabArguments) -> anyhow::Result<()> {
    let ended = match arguments.engine {
        Engine::RocksDb(mut arguments) => {
            arguments.driver = arguments
                .driver
                .or_else(|| library::companion(ROCKSDB_DRIVER));
            if arguments.loads_coldstream() {
                find_library(&mut arguments.work_dir)?;
            }
            rocksdb::run(&arguments)
        }
        Engine::Cassandra(mut arguments) => {
            if arguments.loads_coldstream() {
                find_library(&mut arguments.work_dir)?;
            }
            cassandra::run(&arguments)
        }
        Engine::Report(arguments) => saved::run(&arguments),
    };
    ended.map_err(|error| failure(exit_of(&error), error.to_string()))
}

/// The library that is measured is the one that was named, or none is.
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
