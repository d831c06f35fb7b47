//! RocksDB as an engine of the laboratory.

use super::arguments::RocksDbArgs;
use super::db_bench::read_random_exp_range;
use super::load_program::LoadProgram;
use super::mode::Mode;
use super::parameters::Setup;
use super::workload::Workload;
use crate::compaction_files::CompactionFiles;
use crate::driven::case::Start;
use crate::driven::dataset::Dataset;
use crate::driven::parameters::{Loop, RunParameters};
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

/// RocksDB, driven by the load driver or by db_bench.
#[derive(Debug)]
pub struct RocksDb {
    arguments: RocksDbArgs,
    workload: Workload,
    /// A mode of the recipe that the engine does not know, and what is measured instead.
    replaced: Vec<String>,
    program: LoadProgram,
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
    /// The driver gives its readers the first name (`run.cc`). db_bench's threads have its own.
    const READER_THREADS: &'static [&'static str] = &["reader", "db_bench"];

    fn find(arguments: RocksDbArgs) -> Result<Self> {
        let mut workload = arguments.workload();
        let program = LoadProgram::find(&arguments, &workload)?;
        let replaced = check_modes(&arguments, &program, &mut workload)?;
        Ok(Self {
            arguments,
            workload,
            replaced,
            program,
            version: OnceCell::new(),
        })
    }

    fn plan(&self) -> Plan<'_, Self> {
        let workload = &self.workload;
        let case = |case| {
            let (limit_bytes, hot_keys) = workload.limit_and_hot_keys(case);
            let start = workload.start_of(case);
            let db_bench = self.program.db_bench();
            let exp_range = db_bench.map(|_| read_random_exp_range(workload.sizes.keys, hot_keys));
            Case {
                description: CaseDescription {
                    title: option_name(case),
                    text: format!(
                        "{hot_keys} hot keys{}, limit {} MiB, {} start",
                        exp_range.map_or("", |_| " with 80 % of the reads"),
                        limit_bytes >> 20,
                        option_name(start)
                    ),
                    parameters: json!({
                        "limit_bytes": limit_bytes,
                        "hot_keys": hot_keys,
                        "start": start,
                        "read_random_exp_range": exp_range,
                    }),
                    published: (workload.recipe).and_then(|recipe| recipe.published(case)),
                },
                limit_bytes,
                condition: Condition { hot_keys, start },
            }
        };
        Plan {
            modes: &workload.modes,
            turns: self.arguments.runs,
            cases: workload.cases.iter().copied().map(case).collect(),
            work_dir: &self.arguments.work_dir,
        }
    }

    fn prepare(&self, testbed: &mut Testbed) -> Result<Dataset> {
        for text in &self.replaced {
            testbed.add_limitation(text.clone());
        }
        if let Some(note) = self.program.note() {
            testbed.add_limitation(note.to_owned());
        }
        let (arguments, workload, program) = (&self.arguments, &self.workload, &self.program);
        let wanted = program.wanted_dataset(arguments, workload)?;
        Dataset::prepare(wanted, arguments.work_dir.keep, testbed, |directory| {
            program.load(arguments, workload, directory)
        })
    }

    fn copy_dataset(&self, dataset: &Dataset, _: &Mode, directory: &Path) -> Result<LinkedCopy> {
        dataset.copy(directory)
    }

    fn run(
        &self,
        testbed: &mut Testbed,
        dataset: &Dataset,
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
        let (arguments, workload) = (&self.arguments, &self.workload);
        let mut measurement = Measurement::new(HIT_NS_MAX);
        match &self.program {
            LoadProgram::Driver(driver) => {
                let parameters = RunParameters::of(arguments, workload, &setup);
                driver.measure(testbed, run, dataset, &parameters, &mut measurement)?;
            }
            LoadProgram::DbBench(db_bench) => {
                let processes_files = run.limits.processes_files();
                let prefix = run.command_prefix.clone();
                let mut files = CompactionFiles::watch(database.clone(), ".sst");
                // The driver does this itself.
                run.copy.drop_pages()?;
                let (running, events) =
                    db_bench.start(arguments, workload, &setup, &processes_files, &prefix)?;
                run.record(testbed, &mut measurement, &events, || files.cached_bytes())?;
                running.finish(&mut measurement)?;
            }
        }
        self.version.get_or_init(|| engine_version(&database));
        Ok(measurement)
    }

    fn describe(&self) -> Description {
        let arguments = &self.arguments;
        let workload = &self.workload;
        let sizes = workload.sizes;
        let recipe = match workload.recipe {
            Some(recipe) => recipe.describe(sizes.memory_bytes) + ": ",
            None => String::new(),
        };
        let reads = match workload.reader_loop {
            Loop::Open => format!("{} reads/s", workload.reads_per_second),
            Loop::Closed => format!(
                "{} readers{} in a closed loop",
                arguments.readers,
                self.program.db_bench().map_or("", |_| " of db_bench"),
            ),
        };
        let compaction = match workload.update_mib_per_second {
            0 => format!(
                "one compaction of everything at {} MiB/s",
                workload.compaction_mib_per_second
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
                "{recipe}{} keys of {} bytes, {reads}, {compaction}{options}",
                sizes.keys, workload.value_bytes
            ),
            parameters: json!({
                "recipe": workload.recipe,
                "sizes": sizes,
                "loop": workload.reader_loop,
                "reads_per_second": workload.reads_per_second,
                "readers": arguments.readers,
                "engine_options": arguments.engine_options,
                "engine_library": arguments.engine_library,
                "db_bench": arguments.db_bench,
                "compaction_seconds": sizes.compaction_seconds,
                "verify": arguments.verify,
                "load_steps": arguments.load_steps,
                "compaction_mib_per_second": workload.compaction_mib_per_second,
                "update_mib_per_second": workload.update_mib_per_second,
                "value_bytes": workload.value_bytes,
                "hot_layout": workload.hot_layout,
            }),
        }
    }
}

/// Checks that the engine knows the options of every mode, before the data set is loaded.
///
/// A release before 11.5 has no direct compaction reads. Of the modes of a preset, such a one is
/// replaced by `direct-writes`. Returns what was replaced.
///
/// # Errors
/// The engine does not know an option that was asked for.
fn check_modes(
    arguments: &RocksDbArgs,
    program: &LoadProgram,
    workload: &mut Workload,
) -> Result<Vec<String>> {
    let mut replaced = Vec::new();
    let mut modes = workload.modes.clone();
    for mode in &mut modes {
        let check = |mode: &Mode| program.check_mode(arguments, workload, mode);
        let Err(error) = check(mode) else {
            continue;
        };
        let is_preset = arguments.modes.is_empty();
        let writes = mode.without_direct_reads().filter(|_| is_preset);
        match writes {
            Some(writes) if check(&writes).is_ok() => {
                let (engine, option) = program.engine(arguments);
                replaced.push(format!(
                    "{engine} has no direct compaction reads: {writes} instead of {mode}; see {option}"
                ));
                *mode = writes;
            }
            _ => return Err(error.context(format!("mode {mode}"))),
        }
    }
    workload.modes = modes;
    Ok(replaced)
}

/// The version of RocksDB, which it writes into the first lines of its log.
fn engine_version(database: &Path) -> String {
    fs::read_to_string(database.join("LOG"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| Some(line.split_once("RocksDB version: ")?.1.trim().to_owned()))
        .map_or_else(|| "RocksDB".into(), |version| format!("RocksDB {version}"))
}
