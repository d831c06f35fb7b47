//! Parameters of the load driver: one JSON document, the last word of its command line.
//!
//! `driver/parameters.h` and `pebble-driver/parameters.go` have the same structs with the same
//! fields. A driver refuses a document with a missing or an unknown field, so the sides cannot drift
//! apart unseen.
//!
//! The document is a word of the command line, not a file. So there is nothing to remove, `ps` shows
//! it, and a run can be repeated by hand.

use super::case::{HotLayout, Start};
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
    /// The engine's shared library: a path, or a name that the dynamic loader finds. `None` for a driver
    /// that the engine is linked into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<&'a str>,
    /// Options in the engine's own form.
    pub options: String,
}

/// Engine and data set; part of both documents.
#[derive(Clone, Debug, Serialize)]
pub struct DatabaseParameters<'a> {
    /// The engine's shared library, as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<&'a str>,
    /// Directory of the database.
    pub directory: &'a Path,
    /// Options in the engine's own form.
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

impl Shape {
    /// The shape that suits the load.
    ///
    /// - A compaction of everything: two sorted runs, so that it reads two bytes for each that it
    ///   writes.
    /// - Continuous updates: the shape that levels have in the long run, so that nothing is left to
    ///   compact before the updates begin.
    pub fn of(update_mib_per_second: u64, keys: u64) -> Self {
        match update_mib_per_second {
            0 => Self {
                sorted_runs: 2,
                updates: 0,
            },
            _ => Self {
                sorted_runs: 1,
                updates: keys / 4,
            },
        }
    }

    /// How it is loaded, for people.
    pub fn how(&self) -> String {
        format!("{} times, and {} updates", self.sorted_runs, self.updates)
    }
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
    /// The longest first pass over the hot keys, in seconds.
    pub first_pass_seconds: u64,
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

/// How a reader comes to its next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// Reads are due at a rate, however slow the answers are.
    Open,
    /// Each reader reads again as soon as it has its answer.
    Closed,
}
