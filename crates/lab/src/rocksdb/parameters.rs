//! Parameters of the load driver, from the options of `coldstream lab rocksdb`.

use super::arguments::RocksDbArgs;
use super::mode::Mode;
use super::workload::Workload;
use crate::driven::case::Start;
use crate::driven::parameters::{DatabaseParameters, RunParameters};
use crate::phase::FIRST_PASS_SECONDS;
use std::path::Path;

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
            library: Some(&arguments.engine_library),
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
        if let Some((name, value)) = setup.mode.environment() {
            database.options.push_str(&format!(";{name}={value}"));
        }
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
            first_pass_seconds: FIRST_PASS_SECONDS,
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
