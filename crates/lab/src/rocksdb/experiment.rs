//! The plan and its execution: cases one after another, in each the modes in turn, run by run.

use super::arguments::{RocksDbArgs, Start};
use super::dataset::Dataset;
use super::driver::{Driver, Setup};
use super::mode::Mode;
use crate::cgroup::Cgroup;
use crate::error::LabError;
use crate::interrupt;
use crate::measurement::Measurement;
use crate::option_name::option_name;
use crate::preloaded::library_log;
use crate::report::{CaseDescription, Report};
use crate::run_report::{HIT_NS_MAX, RunReport};
use crate::testbed::Testbed;
use crate::throttle::Throttle;
use anyhow::{Result, bail};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// What the driver calls the threads that read.
const READER: &str = "reader";

/// Measures, prints and writes the report.
///
/// # Errors
/// See [`LabError`].
pub fn run(arguments: &RocksDbArgs) -> Result<(), LabError> {
    interrupt::watch();
    Ok(measure(arguments)?)
}

fn measure(arguments: &RocksDbArgs) -> Result<()> {
    if arguments.modes.is_empty() || arguments.cases.is_empty() {
        bail!("nothing to measure: give at least one of --modes and of --cases");
    }
    let driver = Driver::find(arguments)?;
    let mut testbed = Testbed::open(&arguments.work_dir)?;
    let work_dir = testbed.directory().to_path_buf();
    let dataset = Dataset::prepare(arguments, &driver, &work_dir, &mut |text| {
        testbed.progress.line(text);
    })?;
    let mut lab = Lab {
        arguments,
        driver: &driver,
        dataset: &dataset,
        engine: String::new(),
    };
    let mut cases = Vec::new();
    for case in &arguments.cases {
        let (limit_bytes, hot_keys) = arguments.limit_and_hot_keys(*case);
        let start = arguments.start_of(*case);
        let description = CaseDescription {
            title: option_name(*case),
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
        };
        let condition = Condition {
            limit_bytes,
            hot_keys,
            start,
        };
        cases.extend(testbed.case(
            description,
            &arguments.modes,
            arguments.runs,
            |testbed, title, mode, turn| lab.one_run(testbed, title, mode, &condition, turn),
        ));
    }
    let load = match arguments.update_mib_per_second {
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
    let sizes = arguments.sizes();
    let report = Report {
        version: env!("CARGO_PKG_VERSION").into(),
        engine: lab.engine,
        load: format!(
            "{} keys of {} bytes, {} reads/s, {load}{options}",
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
            "device_rate": testbed.device_rate,
            "value_bytes": arguments.value_bytes,
            "hot_layout": arguments.hot_layout,
        }),
        modes: arguments.modes.iter().map(Mode::to_string).collect(),
        runs: arguments.runs,
        limitations: std::mem::take(&mut testbed.limitations),
        machine: testbed.machine.clone(),
        cases,
    };
    testbed.publish(&report, &arguments.work_dir.output)
}

/// What a case makes of a run.
struct Condition {
    limit_bytes: u64,
    hot_keys: u64,
    start: Start,
}

struct Lab<'a> {
    arguments: &'a RocksDbArgs,
    driver: &'a Driver,
    dataset: &'a Dataset,
    engine: String,
}

impl Lab<'_> {
    fn one_run(
        &mut self,
        testbed: &mut Testbed,
        title: &str,
        mode: &Mode,
        condition: &Condition,
        turn: u32,
    ) -> Result<RunReport> {
        let mut database = self.dataset.copy(testbed.directory())?;
        let cgroup = testbed.cgroup(condition.limit_bytes);
        let throttle = testbed.throttle();
        let log = testbed.log_file()?;
        let setup = Setup {
            mode,
            database: database.path(),
            start: condition.start,
            hot_keys: condition.hot_keys,
            seed: turn,
            log: log.path(),
        };
        let memory = cgroup.iter().map(Cgroup::processes_file);
        let enters: Vec<PathBuf> = memory
            .chain(throttle.iter().map(Throttle::processes_file))
            .collect();
        let (running, events) = self.driver.start(self.arguments, &setup, &enters)?;
        let mut measurement = Measurement::new(HIT_NS_MAX);
        testbed.record(
            title,
            (cgroup.as_ref(), &[READER]),
            &mut measurement,
            &events,
            || {
                database.drop_deleted();
                (0, 0)
            },
        )?;
        running.finish()?;
        if self.engine.is_empty() {
            self.engine = engine_version(database.path());
        }
        let seen = measurement.saw_library();
        measurement.report(library_log(mode.preloaded(), log.path(), seen)?)
    }
}

/// RocksDB writes its version into the first lines of its log.
fn engine_version(database: &Path) -> String {
    fs::read_to_string(database.join("LOG"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| Some(line.split_once("RocksDB version: ")?.1.trim().to_owned()))
        .map_or_else(|| "RocksDB".into(), |version| format!("RocksDB {version}"))
}
