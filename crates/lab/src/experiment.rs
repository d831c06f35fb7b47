//! The plan and its execution: cases one after another, in each the modes in turn, run by run.

use crate::arguments::{Case, RocksDbArgs, Sizes, Start};
use crate::cgroup::{Cgroup, Version};
use crate::dataset::Dataset;
use crate::driver::{Driver, Interrupted, Next, Phase, Setup, WrongValue};
use crate::interrupt;
use crate::machine::{Machine, ReadAhead};
use crate::measurement::{Measurement, RunReport};
use crate::mode::Mode;
use crate::report;
use crate::sampler::{Sampler, now_ns};
use crate::summary::{Row, rows};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// Often enough that a short phase has a mean of what is dirty; a sample takes 0.1 ms.
const SAMPLE_INTERVAL_NS: u64 = 250_000_000;

/// Why there is no report.
#[derive(Debug)]
pub enum LabError {
    /// Could not start, or go on: what, where, what to do.
    Failed(anyhow::Error),
    /// A value that was read was wrong: data is being lost or misread.
    WrongValue(String),
    /// Somebody interrupted; nothing was left behind.
    Interrupted,
}

impl std::fmt::Display for LabError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LabError::Failed(error) => write!(formatter, "{error:#}"),
            LabError::WrongValue(said) => write!(
                formatter,
                "the database gave a wrong value: {said}. This is a bug that loses data: stop \
                 using this mode and report it"
            ),
            LabError::Interrupted => formatter.write_str("interrupted; nothing was left behind"),
        }
    }
}

impl std::error::Error for LabError {}

impl From<anyhow::Error> for LabError {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<WrongValue>() {
            Ok(wrong) => LabError::WrongValue(wrong.0),
            Err(error) if error.is::<Interrupted>() => LabError::Interrupted,
            Err(error) => LabError::Failed(error),
        }
    }
}

/// All that was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Version of Coldstream.
    pub version: &'static str,
    /// The machine.
    pub machine: Machine,
    /// RocksDB, as its log names itself.
    pub engine: String,
    /// Sizes of the data set and of the phases.
    pub sizes: Sizes,
    /// Reads a second that were asked for.
    pub reads_per_second: u64,
    /// Rate limit of the compaction, MiB/s; 0 is none.
    pub compaction_mib_per_second: u64,
    /// Rate of updates, MiB/s; 0 is a single manual compaction.
    pub update_mib_per_second: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Hot keys' layout.
    pub hot_layout: crate::HotLayout,
    /// Names of the modes.
    pub modes: Vec<String>,
    /// Turns.
    pub runs: u32,
    /// What could not be done or measured here.
    pub limitations: Vec<String>,
    /// The cases.
    pub cases: Vec<CaseReport>,
}

/// A case.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CaseReport {
    /// Which.
    pub case: Case,
    /// The cgroup's limit in bytes.
    pub limit_bytes: u64,
    /// Hot keys.
    pub hot_keys: u64,
    /// What of the database was in the page cache when a run began.
    pub start: Start,
    /// Every run, by mode in the order of `Report::modes`.
    pub runs: Vec<Vec<RunReport>>,
    /// Medians and spreads.
    pub rows: Vec<Row>,
}

/// Measures, prints and writes the report.
///
/// # Errors
/// See [`LabError`].
pub fn run(arguments: &RocksDbArgs) -> Result<(), LabError> {
    interrupt::watch();
    let report = measure(arguments)?;
    publish(arguments, &report)?;
    Ok(())
}

fn publish(arguments: &RocksDbArgs, report: &Report) -> Result<()> {
    let json = || serde_json::to_string_pretty(report).context("encode the report");
    let write = |path: &Path, text: &str| {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        fs::write(path, text).with_context(|| format!("write {}", path.display()))
    };
    if let Some(path) = &arguments.json_file {
        write(path, &json()?)?;
    }
    if let Some(path) = &arguments.html {
        write(path, &report::html::page(report)?)?;
        eprintln!("lab: report written to {}", path.display());
    }
    let mut output = std::io::stdout().lock();
    let text = if arguments.json {
        json()?
    } else {
        let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        report::terminal::table(report, coloured)
    };
    writeln!(output, "{text}").context("standard output")
}

fn measure(arguments: &RocksDbArgs) -> Result<Report> {
    if arguments.modes.is_empty() || arguments.cases.is_empty() {
        bail!("nothing to measure: give at least one of --modes and of --cases");
    }
    let driver = Driver::find(arguments)?;
    let created = !arguments.work_dir.exists();
    fs::create_dir_all(&arguments.work_dir)
        .with_context(|| format!("make the work directory {}", arguments.work_dir.display()))?;
    let work_dir = fs::canonicalize(&arguments.work_dir)?;
    let _work = WorkDirectory {
        path: &work_dir,
        remove: created && !arguments.keep,
    };
    let mut progress = Progress::new();
    let mut limitations = Vec::new();
    let mut machine = Machine::observe(&work_dir);
    let _read_ahead = match (arguments.read_ahead_kb, &mut machine.device) {
        (None, _) => None,
        (Some(_), None) => {
            limitations.push("--read-ahead-kb: the work directory is on no block device".into());
            None
        }
        (Some(read_ahead_kb), Some(device)) => match ReadAhead::set(device, read_ahead_kb) {
            Ok(set) => {
                device.read_ahead_kb = read_ahead_kb;
                Some(set)
            }
            Err(error) => {
                limitations.push(format!("--read-ahead-kb {read_ahead_kb}: {error}"));
                None
            }
        },
    };
    let dataset = Dataset::prepare(arguments, &driver, &work_dir, &mut |text| {
        progress.line(text);
    })?;
    let mut lab = Lab {
        arguments,
        driver: &driver,
        dataset: &dataset,
        machine: &machine,
        work_dir: &work_dir,
        limitations,
        engine: String::new(),
        progress,
    };
    let mut cases = Vec::new();
    for case in &arguments.cases {
        cases.push(lab.case(*case)?);
    }
    lab.progress.done();
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        engine: lab.engine,
        limitations: lab.limitations,
        machine,
        sizes: arguments.sizes(),
        reads_per_second: arguments.reads_per_second,
        compaction_mib_per_second: arguments.compaction_mib_per_second,
        update_mib_per_second: arguments.update_mib_per_second,
        value_bytes: arguments.value_bytes,
        hot_layout: arguments.hot_layout,
        modes: arguments.modes.iter().map(Mode::to_string).collect(),
        runs: arguments.runs,
        cases,
    })
}

/// The work directory, removed at the end if the laboratory made it.
struct WorkDirectory<'a> {
    path: &'a Path,
    remove: bool,
}

impl Drop for WorkDirectory<'_> {
    fn drop(&mut self) {
        if self.remove {
            let _ = fs::remove_dir_all(self.path);
        }
    }
}

struct Lab<'a> {
    arguments: &'a RocksDbArgs,
    driver: &'a Driver,
    dataset: &'a Dataset,
    machine: &'a Machine,
    work_dir: &'a Path,
    limitations: Vec<String>,
    engine: String,
    progress: Progress,
}

impl Lab<'_> {
    fn case(&mut self, case: Case) -> Result<CaseReport> {
        let modes = &self.arguments.modes;
        let (limit_bytes, hot_keys) = self.arguments.limit_and_hot_keys(case);
        let start = self.arguments.start_of(case);
        let mut runs: Vec<Vec<RunReport>> = vec![Vec::new(); modes.len()];
        for turn in 1..=self.arguments.runs {
            for (mode, runs) in modes.iter().zip(&mut runs) {
                let title = format!(
                    "{}: turn {turn} of {}, {mode}",
                    case.name(),
                    self.arguments.runs
                );
                let report = self
                    .one_run(&title, mode, limit_bytes, start, hot_keys, turn)
                    .with_context(|| title.clone())?;
                self.progress.finished(&title, &report);
                runs.push(report);
            }
        }
        Ok(CaseReport {
            case,
            limit_bytes,
            hot_keys,
            start,
            rows: rows(&runs),
            runs,
        })
    }

    fn one_run(
        &mut self,
        title: &str,
        mode: &Mode,
        limit_bytes: u64,
        start: Start,
        hot_keys: u64,
        turn: u32,
    ) -> Result<RunReport> {
        let database = self.dataset.copy(self.work_dir)?;
        let cgroup = match Cgroup::create(limit_bytes) {
            Ok(cgroup) => Some(cgroup),
            Err(why) => {
                self.limit(format!(
                    "the database's memory is not limited ({why}): the page cache is the whole \
                     machine's, and the cases do not mean what their names say"
                ));
                None
            }
        };
        if let Some(cgroup) = &cgroup
            && cgroup.version() == Version::V1
        {
            self.limit("cgroup version 1: no memory pressure of the database's own".into());
        }
        let sampler = Sampler::new(
            self.machine
                .device
                .as_ref()
                .map(|device| device.number.clone()),
            cgroup.as_ref(),
        );
        for missing in &sampler.missing {
            self.limit(missing.clone());
        }
        let log = tempfile::Builder::new()
            .prefix("coldstream-log-")
            .tempfile_in(self.work_dir)
            .context("make a log file")?;
        let setup = Setup {
            mode,
            database: database.path(),
            start,
            hot_keys,
            seed: turn,
            log: log.path(),
        };
        let (running, events) = self.driver.start(self.arguments, &setup, cgroup.as_ref())?;
        let mut measurement = Measurement::new();
        measurement.sample(sampler.sample(cgroup.as_ref()));
        let mut next_sample_ns = now_ns();
        let mut phase = Phase::WarmUp;
        loop {
            match running.next(&events, Duration::from_millis(50))? {
                Next::Event(event) => {
                    if let Some(begun) = measurement.take(event) {
                        phase = begun;
                        measurement.sample(sampler.sample(cgroup.as_ref()));
                        self.progress.phase(title, phase);
                    }
                }
                Next::Nothing => {}
                Next::Over => break,
            }
            if now_ns() >= next_sample_ns && phase != Phase::End {
                measurement.sample(sampler.sample(cgroup.as_ref()));
                next_sample_ns = now_ns() + SAMPLE_INTERVAL_NS;
                self.progress.phase(title, phase);
            }
        }
        running.finish()?;
        if self.engine.is_empty() {
            self.engine = engine_version(database.path());
        }
        let library_log = fs::read_to_string(log.path())
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect();
        measurement
            .report(library_log)
            .context("the run ended before all phases were over")
    }

    /// Says once what cannot be done here.
    fn limit(&mut self, text: String) {
        if !self.limitations.contains(&text) {
            self.progress.line(&text);
            self.limitations.push(text);
        }
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

/// What goes on, on standard error: one line that changes on a terminal, else one a run.
struct Progress {
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
        }
    }

    fn line(&mut self, text: &str) {
        self.clear();
        eprintln!("lab: {text}");
    }

    fn phase(&mut self, title: &str, phase: Phase) {
        if self.terminal {
            self.clear();
            eprint!("lab: {title}: {}", phase.name());
        }
    }

    fn finished(&mut self, title: &str, report: &RunReport) {
        let p99 = |phase| {
            report
                .phase(phase)
                .map_or(0.0, |report| report.service_us.p99)
        };
        self.line(&format!(
            "{title}: p99 {:.0} µs idle, {:.0} in compaction, {:.0} after; tax {:.2}",
            p99(Phase::Idle),
            p99(Phase::Compaction),
            p99(Phase::After),
            report.compaction_tax_p99
        ));
    }

    fn done(&mut self) {
        self.clear();
    }

    fn clear(&mut self) {
        if self.terminal {
            eprint!("\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}
