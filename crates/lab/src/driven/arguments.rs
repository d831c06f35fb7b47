//! Options of the load, alike for engines that have no presets and no recipes of their own.

use super::case::{Case, HotLayout, Sizes, Start};
use super::parameters::{DatabaseParameters, Loop, RunParameters, Shape};
use crate::engine;
use crate::number_option::{self, at_least};
use crate::option_name::option_name;
use crate::phase::FIRST_PASS_SECONDS;
use crate::report::CaseDescription;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Data, memory, load and phases.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Sizes of the hot set, relative to the page cache
    #[arg(long, value_delimiter = ',', value_enum, default_value = "most")]
    pub cases: Vec<Case>,
    /// Number of turns; each runs every mode once
    #[arg(long, default_value_t = 5, value_parser = number_option::turns)]
    pub runs: u32,
    /// Number of keys in the data set
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = at_least::<1>)]
    pub keys: u64,
    /// Size of a value in bytes; values are incompressible
    #[arg(long, default_value_t = 4096, value_name = "BYTES", value_parser = at_least::<1>)]
    pub value_bytes: u64,
    /// Memory limit in MiB, page cache included; needs root
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = at_least::<1>)]
    pub memory_mib: u64,
    /// Number of hot keys, instead of a share of the page cache
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    pub hot_keys: Option<u64>,
    /// Reads a second, in an open loop: slow answers do not lower the rate
    #[arg(long, default_value_t = 3000, value_name = "N", value_parser = at_least::<1>)]
    pub reads_per_second: u64,
    /// Each reader reads again as soon as it has its answer; the response time is the service time
    #[arg(long, conflicts_with = "reads_per_second")]
    pub closed_loop: bool,
    /// Number of threads that read, or of goroutines
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = at_least::<1>)]
    pub readers: u64,
    /// Rate of updates in MiB/s, which keep compaction going; 0 is one manual compaction instead
    ///
    /// The updated keys are chosen uniformly.
    #[arg(long, default_value_t = 4, value_name = "MIB", value_parser = at_least::<0>)]
    pub update_mib_per_second: u64,
    /// Seconds of warm-up, not counted, after the first read of each hot key
    #[arg(long, default_value_t = 6, value_name = "SECONDS", value_parser = at_least::<0>)]
    pub warm_up_seconds: u64,
    /// Seconds of the phase without compaction
    #[arg(long, default_value_t = 8, value_name = "SECONDS", value_parser = at_least::<1>)]
    pub idle_seconds: u64,
    /// Seconds of the compaction phase with updates
    #[arg(long, default_value_t = 20, value_name = "SECONDS", value_parser = at_least::<1>)]
    pub compaction_seconds: u64,
    /// Seconds of the phase after the publication of the output
    #[arg(long, default_value_t = 4, value_name = "SECONDS", value_parser = at_least::<1>)]
    pub after_seconds: u64,
    /// Further options of the engine for every mode: NAME=VALUE;NAME=VALUE
    #[arg(long, default_value = "", value_name = "OPTIONS")]
    pub engine_options: String,
    /// The load driver [default: beside this program, ../lib/coldstream]
    #[arg(long, value_name = "PATH")]
    pub driver: Option<PathBuf>,
    /// After every run, compare the whole database with what was written
    #[arg(long)]
    pub verify: bool,
}

/// What a case makes of a run.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    hot_keys: u64,
    start: Start,
}

impl LoadArgs {
    fn sizes(&self) -> Sizes {
        Sizes {
            keys: self.keys,
            memory_bytes: self.memory_mib << 20,
            warm_up_seconds: self.warm_up_seconds,
            idle_seconds: self.idle_seconds,
            compaction_seconds: self.compaction_seconds,
            after_seconds: self.after_seconds,
        }
    }

    fn reader_loop(&self) -> Loop {
        if self.closed_loop {
            Loop::Closed
        } else {
            Loop::Open
        }
    }

    /// How the data set is written.
    pub fn shape(&self) -> Shape {
        Shape::of(self.update_mib_per_second, self.keys)
    }

    /// The cases, in the order in which they are measured.
    pub fn cases(&self) -> Vec<engine::Case<Condition>> {
        self.cases.iter().map(|case| self.case(*case)).collect()
    }

    fn case(&self, case: Case) -> engine::Case<Condition> {
        let (limit_bytes, hot_keys) =
            case.limit_and_hot_keys(&self.sizes(), self.value_bytes, HotLayout::Scattered);
        let hot_keys = self.hot_keys.unwrap_or(hot_keys).min(self.keys);
        let start = case.start();
        engine::Case {
            description: CaseDescription {
                title: option_name(case),
                text: format!(
                    "{hot_keys} hot keys, limit {} MiB, {} start",
                    limit_bytes >> 20,
                    option_name(start)
                ),
                parameters: json!({
                    "limit_bytes": limit_bytes,
                    "hot_keys": hot_keys,
                    "start": start,
                }),
                published: None,
            },
            limit_bytes,
            condition: Condition { hot_keys, start },
        }
    }

    /// Engine and data set. `library` is the engine's, unless it is linked into the driver.
    pub fn database<'a>(
        &self,
        library: Option<&'a str>,
        directory: &'a Path,
        options: String,
    ) -> DatabaseParameters<'a> {
        DatabaseParameters {
            library,
            directory,
            options,
            keys: self.keys,
            value_bytes: self.value_bytes,
        }
    }

    /// The parameters of one run.
    pub fn run_parameters<'a>(
        &self,
        database: DatabaseParameters<'a>,
        condition: &Condition,
        turn: u32,
    ) -> RunParameters<'a> {
        let sizes = self.sizes();
        RunParameters {
            database,
            start: condition.start,
            hot_keys: condition.hot_keys,
            hot_layout: HotLayout::Scattered,
            readers: self.readers,
            reader_loop: self.reader_loop(),
            reads_per_second: self.reads_per_second,
            load_steps: vec![self.reads_per_second],
            seed: turn,
            first_pass_seconds: FIRST_PASS_SECONDS,
            warm_up_seconds: sizes.warm_up_seconds,
            idle_seconds: sizes.idle_seconds,
            compaction_seconds: sizes.compaction_seconds,
            after_seconds: sizes.after_seconds,
            compaction_bytes_per_second: 0,
            update_bytes_per_second: self.update_mib_per_second << 20,
            verify: self.verify,
        }
    }

    /// The report's words about data and load.
    pub fn describe(&self, engine: String) -> engine::Description {
        let reads = match self.reader_loop() {
            Loop::Open => format!("{} reads/s", self.reads_per_second),
            Loop::Closed => format!("{} readers in a closed loop", self.readers),
        };
        let compaction = match self.update_mib_per_second {
            0 => "one compaction of everything".to_owned(),
            rate => format!("continuous compaction by {rate} MiB/s of updates"),
        };
        engine::Description {
            engine,
            load: format!(
                "{} keys of {} bytes, {reads}, {compaction}",
                self.keys, self.value_bytes
            ),
            parameters: json!({
                "sizes": self.sizes(),
                "value_bytes": self.value_bytes,
                "loop": self.reader_loop(),
                "reads_per_second": self.reads_per_second,
                "readers": self.readers,
                "update_mib_per_second": self.update_mib_per_second,
                "engine_options": self.engine_options,
                "verify": self.verify,
            }),
        }
    }
}
