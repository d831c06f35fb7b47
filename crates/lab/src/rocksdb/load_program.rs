//! The program that makes the load: the laboratory's driver, or db_bench.

use super::arguments::RocksDbArgs;
use super::db_bench::{DbBench, SKEW};
use super::driver::Driver;
use super::mode::Mode;
use super::parameters::{DatabaseParameters, LoadParameters, OptionsParameters, Shape};
use super::workload::Workload;
use anyhow::Result;
use std::path::Path;

/// The program that makes the load.
#[derive(Debug)]
pub enum LoadProgram {
    /// The laboratory's own.
    Driver(Driver),
    /// RocksDB's own benchmark.
    DbBench(DbBench),
}

/// The data set that a load program wants.
pub struct WantedDataset {
    /// Name of its directory.
    pub name: String,
    /// All on which its content depends. A data set that was made with something else is outdated.
    pub made_with: String,
    /// How it is loaded, for people.
    pub how: String,
}

impl LoadProgram {
    /// The program of the command line.
    ///
    /// # Errors
    /// It is not there, or it cannot make the load of this workload.
    pub fn find(arguments: &RocksDbArgs, workload: &Workload) -> Result<Self> {
        let Some(path) = &arguments.db_bench else {
            return Ok(Self::Driver(Driver::find(arguments)?));
        };
        let db_bench = DbBench::find(path)?;
        db_bench.check_workload(workload)?;
        Ok(Self::DbBench(db_bench))
    }

    /// db_bench, if it is the one.
    pub fn db_bench(&self) -> Option<&DbBench> {
        match self {
            Self::Driver(_) => None,
            Self::DbBench(db_bench) => Some(db_bench),
        }
    }

    /// Checks that the engine knows all options of a mode.
    pub fn check_mode(
        &self,
        arguments: &RocksDbArgs,
        workload: &Workload,
        mode: &Mode,
    ) -> Result<()> {
        match self {
            Self::Driver(driver) => driver.check_options(&OptionsParameters {
                library: &arguments.engine_library,
                options: workload.engine_options.clone() + &mode.engine_options(),
            }),
            Self::DbBench(db_bench) => db_bench.check_mode(arguments, workload, mode),
        }
    }

    /// The engine, and the option that names another one.
    pub fn engine(&self, arguments: &RocksDbArgs) -> (String, &'static str) {
        match self {
            Self::Driver(_) => (arguments.engine_library.clone(), "--engine-library"),
            Self::DbBench(db_bench) => (db_bench.program().display().to_string(), "--db-bench"),
        }
    }

    /// What to know of its figures.
    pub fn note(&self) -> Option<&'static str> {
        self.db_bench().map(|_| SKEW)
    }

    /// The data set that it wants.
    pub fn wanted_dataset(
        &self,
        arguments: &RocksDbArgs,
        workload: &Workload,
    ) -> Result<WantedDataset> {
        let size = format!("{}x{}", workload.sizes.keys, workload.value_bytes);
        Ok(match self {
            Self::Driver(_) => {
                let shape = shape(workload);
                let DatabaseParameters {
                    library, options, ..
                } = DatabaseParameters::of(arguments, workload, Path::new(""));
                WantedDataset {
                    name: format!("dataset-{size}"),
                    made_with: format!("{shape:?} {library} {options}"),
                    how: format!("{} times, and {} updates", shape.sorted_runs, shape.updates),
                }
            }
            Self::DbBench(db_bench) => WantedDataset {
                name: format!("dataset-db_bench-{size}"),
                made_with: db_bench.loads_with(arguments, workload)?,
                how: "once, with db_bench".to_owned(),
            },
        })
    }

    /// Loads this data set into a directory.
    pub fn load(
        &self,
        arguments: &RocksDbArgs,
        workload: &Workload,
        directory: &Path,
    ) -> Result<()> {
        match self {
            Self::Driver(driver) => driver.load(&LoadParameters {
                database: DatabaseParameters::of(arguments, workload, directory),
                shape: shape(workload),
            }),
            Self::DbBench(db_bench) => db_bench.load(arguments, workload, directory),
        }
    }
}

/// The shape of the driver's data set that suits the load.
///
/// - A compaction of everything: two sorted runs, so that it reads two bytes for each that it
///   writes.
/// - Continuous updates: the shape that levels have in the long run, so that nothing is left to
///   compact before the updates begin.
fn shape(workload: &Workload) -> Shape {
    match workload.update_mib_per_second {
        0 => Shape {
            sorted_runs: 2,
            updates: 0,
        },
        _ => Shape {
            sorted_runs: 1,
            updates: workload.sizes.keys / 4,
        },
    }
}
