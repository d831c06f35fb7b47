//! Parameters of the load driver: one JSON document, the last word of its command line.
//!
//! `rocksdb-driver/parameters.h` has the same structs with the same fields. The driver refuses a
//! document with a missing or an unknown field, so the two sides cannot drift apart unseen.
//!
//! The document is a word of the command line, not a file. So there is nothing to remove, `ps` shows
//! it, and a run can be repeated by hand.

use super::arguments::RocksDbArgs;
use super::case::{HotLayout, Start};
use super::mode::Mode;
use super::preset::Loop;
use super::workload::Workload;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

/// A command of the driver with its parameters.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Parses options.
    Options(&'a OptionsParameters<'a>),
    /// Builds a data set.
    Load(&'a LoadParameters<'a>),
    /// Reads it before, during and after a compaction.
    Run(&'a RunParameters<'a>),
}

impl Command<'_> {
    /// The words behind the driver's path.
    pub fn words(self) -> Result<[String; 2]> {
        let (name, document) = match self {
            Self::Options(parameters) => ("options", serde_json::to_string(parameters)),
            Self::Load(parameters) => ("load", serde_json::to_string(parameters)),
            Self::Run(parameters) => ("run", serde_json::to_string(parameters)),
        };
        let document = document.context("encode the load driver's parameters")?;
        Ok([name.to_owned(), document])
    }
}

/// Parameters of `options`.
#[derive(Clone, Debug, Serialize)]
pub struct OptionsParameters<'a> {
    /// RocksDB's shared library: a path, or a name that the dynamic loader finds.
    pub library: &'a str,
    /// RocksDB's own option string.
    pub options: String,
}

/// Engine and data set; part of both documents.
#[derive(Clone, Debug, Serialize)]
pub struct DatabaseParameters<'a> {
    /// RocksDB's shared library: a path, or a name that the dynamic loader finds.
    pub library: &'a str,
    /// Directory of the database.
    pub directory: &'a Path,
    /// RocksDB's own option string.
    pub options: String,
    /// Keys of the data set.
    pub keys: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
}

/// Parameters of `load`.
#[derive(Clone, Debug, Serialize)]
pub struct LoadParameters<'a> {
    /// Engine and data set.
    #[serde(flatten)]
    pub database: DatabaseParameters<'a>,
    /// How the data set is written.
    #[serde(flatten)]
    pub shape: Shape,
}

/// How a data set is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Overlapping sorted runs: the first in the last level, the others above it.
    pub sorted_runs: u64,
    /// Uniformly chosen keys that are rewritten afterwards, while the engine compacts as usual.
    pub updates: u64,
}

/// Parameters of `run`.
#[derive(Clone, Debug, Serialize)]
pub struct RunParameters<'a> {
    /// Engine and data set.
    #[serde(flatten)]
    pub database: DatabaseParameters<'a>,
    /// What of the database is in the page cache when the run begins.
    pub start: Start,
    /// Keys that are read.
    pub hot_keys: u64,
    /// Where these keys lie.
    pub hot_layout: HotLayout,
    /// Threads that read.
    pub readers: u64,
    /// How a reader comes to its next read.
    #[serde(rename = "loop")]
    pub reader_loop: Loop,
    /// Reads a second of all readers together, in an open loop.
    pub reads_per_second: u64,
    /// The same in equal parts of the compaction phase, if updates keep compaction going.
    pub load_steps: Vec<u64>,
    /// Seeds the order of reads.
    pub seed: u32,
    /// Seconds that are not counted, after the first pass over the hot keys.
    pub warm_up_seconds: u64,
    /// Seconds without compaction.
    pub idle_seconds: u64,
    /// Seconds of the compaction phase, if updates keep compaction going.
    pub compaction_seconds: u64,
    /// Seconds after the compaction.
    pub after_seconds: u64,
    /// Rate limit of the compaction's writes; 0 is none.
    pub compaction_bytes_per_second: u64,
    /// Rate of the updates. 0: no updates, and one manual compaction of everything.
    pub update_bytes_per_second: u64,
    /// Compare the whole database with what was written, at the end.
    pub verify: bool,
}

/// What distinguishes a run from others with the same options.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The mode.
    pub mode: &'a Mode,
    /// Directory of the run's own database.
    pub database: &'a Path,
    /// What of the database is in the page cache when the run begins.
    pub start: Start,
    /// Keys that are read.
    pub hot_keys: u64,
    /// Seeds the order of reads.
    pub seed: u32,
}

impl<'a> DatabaseParameters<'a> {
    /// Those of the command line, for a database in `directory`.
    pub fn of(arguments: &'a RocksDbArgs, workload: &Workload, directory: &'a Path) -> Self {
        Self {
            library: &arguments.engine_library,
            directory,
            options: workload.engine_options.clone(),
            keys: workload.sizes.keys,
            value_bytes: workload.value_bytes,
        }
    }
}

impl<'a> RunParameters<'a> {
    /// Those of one run.
    pub fn of(arguments: &'a RocksDbArgs, workload: &Workload, setup: &Setup<'a>) -> Self {
        let sizes = workload.sizes;
        let mut database = DatabaseParameters::of(arguments, workload, setup.database);
        database.options.push_str(&setup.mode.engine_options());
        Self {
            database,
            start: setup.start,
            hot_keys: setup.hot_keys,
            hot_layout: workload.hot_layout,
            readers: arguments.readers,
            reader_loop: workload.reader_loop,
            reads_per_second: workload.reads_per_second,
            load_steps: match arguments.load_steps.as_slice() {
                [] => vec![workload.reads_per_second],
                steps => steps.to_vec(),
            },
            seed: setup.seed,
            warm_up_seconds: sizes.warm_up_seconds,
            idle_seconds: sizes.idle_seconds,
            compaction_seconds: sizes.compaction_seconds,
            after_seconds: sizes.after_seconds,
            compaction_bytes_per_second: workload.compaction_mib_per_second << 20,
            update_bytes_per_second: workload.update_mib_per_second << 20,
            verify: arguments.verify,
        }
    }
}
