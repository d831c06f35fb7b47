//! `coldstream lab`: hands over to the laboratory, and finds for it what belongs
//! to this program.

use std::io;

use clap::Subcommand;
use coldstream_lab::{LabError, RocksDbArgs};

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
}

/// Runs the laboratory.
pub fn run(arguments: LabArguments) -> anyhow::Result<()> {
    let Engine::RocksDb(mut arguments) = arguments.engine;
    // Not found is no error here: the laboratory knows which modes need what.
    arguments.driver = arguments
        .driver
        .or_else(|| library::companion(ROCKSDB_DRIVER));
    arguments.coldstream_library = arguments
        .coldstream_library
        .or_else(|| library::find(None).ok());
    coldstream_lab::run(&arguments).map_err(|error| failure(exit_of(&error), error.to_string()))
}

fn exit_of(error: &LabError) -> Exit {
    match error {
        LabError::WrongValue(_) => Exit::WrongValue,
        LabError::Interrupted => Exit::Interrupted,
        LabError::Failed(error) => error
            .chain()
            .find_map(|cause| cause.downcast_ref::<io::Error>())
            .map_or(Exit::Failure, exit::of_io),
    }
}
