//! RocksDB as an engine of the laboratory.

use super::arguments::{RocksDbArgs, Start};
use super::dataset::Dataset;
use super::driver::Driver;
use super::mode::Mode;
use super::parameters::{RunParameters, Setup};
use crate::engine::{Case, Description, Engine, Plan, Run};
use crate::linked::LinkedCopy;
use crate::measurement::Measurement;
use crate::option_name::option_name;
use crate::report::CaseDescription;
use crate::run_report::HIT_NS_MAX;
use crate::testbed::Testbed;
use anyhow::Result;
use coldstream_policy::Profile;
use serde_json::json;
use std::cell::OnceCell;
use std::fs;
use std::path::Path;

/// RocksDB, driven by the load driver.
#[derive(Debug)]
pub struct RocksDb {
    arguments: RocksDbArgs,
    driver: Driver,
    /// Known after the first run.
    version: OnceCell<String>,
}

/// What a case makes of a run.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    hot_keys: u64,
    start: Start,
}

impl Engine for RocksDb {
    type Arguments = RocksDbArgs;
    type Mode = Mode;
    type Condition = Condition;
    type Dataset = Dataset;

    const PROFILE: Profile = Profile::RocksDb;
    /// The driver gives its readers this name (`run.cc`).
    const READER_THREADS: &'static [&'static str] = &["reader"];

    fn find(arguments: RocksDbArgs) -> Result<Self> {
        Ok(Self {
            driver: Driver::find(&arguments)?,
            version: OnceCell::new(),
            arguments,
        })
    }

    fn plan(&self) -> Plan<'_, Self> {
        let arguments = &self.arguments;
        let case = |case| {
            let (limit_bytes, hot_keys) = arguments.limit_and_hot_keys(case);
            let start = arguments.start_of(case);
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
                },
                limit_bytes,
                condition: Condition { hot_keys, start },
            }
        };
        Plan {
            modes: &arguments.modes,
            turns: arguments.runs,
            cases: arguments.cases.iter().copied().map(case).collect(),
            work_dir: &arguments.work_dir,
        }
    }

    fn prepare(&self, testbed: &mut Testbed) -> Result<Dataset> {
        Dataset::prepare(&self.arguments, &self.driver, testbed)
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
        let setup = Setup {
            mode: run.mode,
            database: &database,
            start: run.condition.start,
            hot_keys: run.condition.hot_keys,
            seed: run.turn,
        };
        let parameters = RunParameters::of(&self.arguments, &setup);
        let processes_files = run.limits.processes_files();
        let (running, events) =
            (self.driver).start(&parameters, &processes_files, &run.command_prefix)?;
        let mut measurement = Measurement::new(HIT_NS_MAX);
        run.record(testbed, &mut measurement, &events, || (0, 0))?;
        running.finish()?;
        self.version.get_or_init(|| engine_version(&database));
        Ok(measurement)
    }

    fn describe(&self) -> Description {
        let arguments = &self.arguments;
        let sizes = arguments.sizes();
        let compaction = match arguments.update_mib_per_second {
            0 => format!(
                "one compaction of everything at {} MiB/s",
                arguments.compaction_mib_per_second
            ),
            rate => format!("continuous compaction by {rate} MiB/s of updates"),
        };
        let options = match arguments.engine_options.as_str() {
            "" => String::new(),
            options => format!("; {options}"),
        };
        Description {
            engine: self.version.get().cloned().unwrap_or_default(),
            load: format!(
                "{} keys of {} bytes, {} reads/s, {compaction}{options}",
                sizes.keys, arguments.value_bytes, arguments.reads_per_second
            ),
            parameters: json!({
                "sizes": sizes,
                "reads_per_second": arguments.reads_per_second,
                "readers": arguments.readers,
                "engine_options": arguments.engine_options,
                "engine_library": arguments.engine_library,
                "compaction_seconds": arguments.compaction_seconds,
                "verify": arguments.verify,
                "load_steps": arguments.load_steps,
                "compaction_mib_per_second": arguments.compaction_mib_per_second,
                "update_mib_per_second": arguments.update_mib_per_second,
                "value_bytes": arguments.value_bytes,
                "hot_layout": arguments.hot_layout,
            }),
        }
    }
}

/// The version of RocksDB, which it writes into the first lines of its log.
fn engine_version(database: &Path) -> String {
    fs::read_to_string(database.join("LOG"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| Some(line.split_once("RocksDB version: ")?.1.trim().to_owned()))
        .map_or_else(|| "RocksDB".into(), |version| format!("RocksDB {version}"))
}
