//! The program that makes the load: the laboratory's driver, or db_bench.

use super::arguments::{DRIVER, RocksDbArgs};
use super::db_bench::{DbBench, SKEW};
use super::mode::Mode;
use super::workload::Workload;
use crate::driven::dataset::WantedDataset;
use crate::driven::driver::Driver;
use crate::driven::parameters::{DatabaseParameters, LoadParameters, OptionsParameters, Shape};
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

impl LoadProgram {
    /// The program of the command line.
    ///
    /// # Errors
    /// It is not there, or it cannot make the load of this workload.
    pub fn find(arguments: &RocksDbArgs, workload: &Workload) -> Result<Self> {
        let Some(path) = &arguments.db_bench else {
            return Ok(Self::Driver(Driver::find(
                arguments.driver.as_ref(),
                DRIVER,
            )?));
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
            Self::Driver(driver) => {
                driver.check_options(&OptionsParameters {
                    library: Some(&arguments.engine_library),
                    options: workload.engine_options.clone() + &mode.engine_options(),
                })?;
                Ok(())
            }
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
                let shape = Shape::of(workload.update_mib_per_second, workload.sizes.keys);
                let DatabaseParameters { options, .. } =
                    DatabaseParameters::of(arguments, workload, Path::new(""));
                let library = &arguments.engine_library;
                WantedDataset {
                    name: format!("dataset-{size}"),
                    values_bytes: workload.sizes.keys * workload.value_bytes,
                    extension: "sst",
                    made_with: format!("{shape:?} {library} {options}"),
                    how: shape.how(),
                }
            }
            Self::DbBench(db_bench) => WantedDataset {
                name: format!("dataset-db_bench-{size}"),
                values_bytes: workload.sizes.keys * workload.value_bytes,
                extension: "sst",
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
                shape: Shape::of(workload.update_mib_per_second, workload.sizes.keys),
            }),
            Self::DbBench(db_bench) => db_bench.load(arguments, workload, directory),
        }
    }
}
