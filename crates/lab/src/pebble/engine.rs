//! Pebble as an engine of the laboratory.

use super::arguments::{DRIVER, PebbleArgs};
use super::mode::Mode;
use super::options;
use crate::driven::case::{HotLayout, Sizes, Start};
use crate::driven::dataset::{Dataset, WantedDataset};
use crate::driven::driver::Driver;
use crate::driven::parameters::{
    DatabaseParameters, LoadParameters, Loop, OptionsParameters, RunParameters, Shape,
};
use crate::engine::{Case, Description, Engine, Plan, Run};
use crate::linked::LinkedCopy;
use crate::measurement::Measurement;
use crate::option_name::option_name;
use crate::report::CaseDescription;
use crate::run_report::HIT_NS_MAX;
use crate::testbed::Testbed;
use anyhow::{Context, Result};
use coldstream_policy::Profile;
use serde_json::json;
use std::path::Path;

/// Pebble, driven by the load driver.
#[derive(Debug)]
pub struct Pebble {
    arguments: PebbleArgs,
    sizes: Sizes,
    /// Options of every mode.
    options: String,
    driver: Driver,
}

/// What a case makes of a run.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    hot_keys: u64,
    start: Start,
}

/// Goroutines change threads, so the kernel's counters of a thread tell nothing.
const NO_THREADS: &str = "device reads and processor time of the foreground are missing, not 0: \
                          goroutines have no threads of their own";

impl Engine for Pebble {
    type Arguments = PebbleArgs;
    type Mode = Mode;
    type Condition = Condition;
    type Dataset = Dataset;

    /// No mode has a preload library.
    const PROFILE: Profile = Profile::Auto;
    const READER_THREADS: &'static [&'static str] = &[];

    fn find(arguments: PebbleArgs) -> Result<Self> {
        let driver = Driver::find(arguments.driver.as_ref(), DRIVER)?;
        let options = options::of_every_mode(&arguments.engine_options);
        for mode in &arguments.modes {
            driver
                .check_options(&OptionsParameters {
                    library: None,
                    options: options.clone() + &mode.options(),
                })
                .with_context(|| format!("mode {mode}"))?;
        }
        Ok(Self {
            sizes: arguments.sizes(),
            options,
            driver,
            arguments,
        })
    }

    fn plan(&self) -> Plan<'_, Self> {
        let case = |case: crate::driven::case::Case| {
            let (limit_bytes, hot_keys) = case.limit_and_hot_keys(
                &self.sizes,
                self.arguments.value_bytes,
                HotLayout::Scattered,
            );
            let hot_keys = self.arguments.hot_keys.unwrap_or(hot_keys);
            let condition = Condition {
                hot_keys: hot_keys.min(self.sizes.keys),
                start: case.start(),
            };
            let Condition { hot_keys, start } = condition;
            Case {
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
                condition,
            }
        };
        Plan {
            modes: &self.arguments.modes,
            turns: self.arguments.runs,
            cases: self.arguments.cases.iter().copied().map(case).collect(),
            work_dir: &self.arguments.work_dir,
        }
    }

    fn prepare(&self, testbed: &mut Testbed) -> Result<Dataset> {
        testbed.add_limitation(NO_THREADS.to_owned());
        let arguments = &self.arguments;
        let shape = Shape::of(arguments.update_mib_per_second, arguments.keys);
        let wanted = WantedDataset {
            name: format!(
                "dataset-pebble-{}x{}",
                arguments.keys, arguments.value_bytes
            ),
            values_bytes: arguments.keys * arguments.value_bytes,
            made_with: format!("{shape:?} {}", self.options),
            how: shape.how(),
        };
        Dataset::prepare(wanted, arguments.work_dir.keep, testbed, |directory| {
            self.driver.load(&LoadParameters {
                database: self.database(directory),
                shape,
            })
        })
    }

    fn copy_dataset(&self, dataset: &Dataset, _: &Mode, directory: &Path) -> Result<LinkedCopy> {
        dataset.copy(directory)
    }

    fn run(
        &self,
        testbed: &mut Testbed,
        _: &Dataset,
        run: &mut Run<'_, Self>,
    ) -> Result<Measurement> {
        let database = run.copy.path().to_path_buf();
        let mut measurement = Measurement::new(HIT_NS_MAX);
        let parameters = self.run_parameters(run, &database);
        (self.driver).measure(testbed, run, &parameters, &mut measurement)?;
        Ok(measurement)
    }

    fn describe(&self) -> Description {
        let arguments = &self.arguments;
        let compaction = match arguments.update_mib_per_second {
            0 => "one compaction of everything".to_owned(),
            rate => format!("continuous compaction by {rate} MiB/s of updates"),
        };
        Description {
            engine: format!("Pebble {PEBBLE_VERSION}"),
            load: format!(
                "{} keys of {} bytes, {} reads/s, {compaction}",
                self.sizes.keys, arguments.value_bytes, arguments.reads_per_second
            ),
            parameters: json!({
                "sizes": self.sizes,
                "value_bytes": arguments.value_bytes,
                "reads_per_second": arguments.reads_per_second,
                "readers": arguments.readers,
                "update_mib_per_second": arguments.update_mib_per_second,
                "engine_options": arguments.engine_options,
                "verify": arguments.verify,
            }),
        }
    }
}

/// The version that the driver is built with (`pebble-driver/go.mod`).
const PEBBLE_VERSION: &str = "2.1.7";

impl Pebble {
    /// Engine and data set.
    fn database<'a>(&'a self, directory: &'a Path) -> DatabaseParameters<'a> {
        DatabaseParameters {
            library: None,
            directory,
            options: self.options.clone(),
            keys: self.sizes.keys,
            value_bytes: self.arguments.value_bytes,
        }
    }

    /// The parameters of one run.
    fn run_parameters<'a>(&'a self, run: &Run<'_, Self>, directory: &'a Path) -> RunParameters<'a> {
        let (arguments, sizes) = (&self.arguments, self.sizes);
        let mut database = self.database(directory);
        database.options.push_str(&run.mode.options());
        RunParameters {
            database,
            start: run.condition.start,
            hot_keys: run.condition.hot_keys,
            hot_layout: HotLayout::Scattered,
            readers: arguments.readers,
            reader_loop: Loop::Open,
            reads_per_second: arguments.reads_per_second,
            load_steps: vec![arguments.reads_per_second],
            seed: run.turn,
            warm_up_seconds: sizes.warm_up_seconds,
            idle_seconds: sizes.idle_seconds,
            compaction_seconds: sizes.compaction_seconds,
            after_seconds: sizes.after_seconds,
            compaction_bytes_per_second: 0,
            update_bytes_per_second: arguments.update_mib_per_second << 20,
            verify: arguments.verify,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_the_version_that_is_built() {
        let modules = include_str!("../../pebble-driver/go.mod");
        let line = format!("github.com/cockroachdb/pebble/v2 v{PEBBLE_VERSION}");
        assert!(modules.contains(&line), "{line}");
    }
}
