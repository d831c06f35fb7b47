//! Where the laboratory works: its directory, the machine, a run's cgroup, and what could not be
//! done here.

use crate::awake::Awake;
use crate::cgroup::Cgroup;
use crate::error::Interrupted;
use crate::foreground::Foreground;
use crate::interrupt;
use crate::kernel_setting::KernelSetting;
use crate::machine::Machine;
use crate::measurement::Measurement;
use crate::phase::{Event, Phase};
use crate::progress::Progress;
use crate::report::{self, CaseDescription, CaseReport, OutputArgs, Report};
use crate::run_report::RunReport;
use crate::sampler::{Sampler, now_ns};
use crate::throttle::{DeviceRate, Throttle};
use anyhow::{Context, Result};
use clap::Args;
use coldstream_policy::memory::Version;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use tempfile::NamedTempFile;

/// Often enough that a short phase has a mean of what is dirty; a sample takes 0.1 ms.
const SAMPLE_INTERVAL_NS: u64 = 250_000_000;

/// More than this of the processors' time, taken by the host, shows in a tail latency.
const STOLEN_PERCENT_MAX: f64 = 3.0;

/// Samples and interrupts wait for an event at most so long.
const EVENT_WAIT: Duration = Duration::from_millis(50);

/// The work directory and everything around it; the directory goes away with it, if it was made
/// for it and is not to be kept.
pub struct Testbed {
    directory: PathBuf,
    remove: bool,
    _read_ahead: Option<KernelSetting>,
    _awake: Option<Awake>,
    /// The machine.
    pub machine: Machine,
    /// Tells what goes on.
    pub progress: Progress,
    /// What could not be done or measured here.
    pub limitations: Vec<String>,
    /// What the device may do in every run.
    pub device_rate: DeviceRate,
    /// What ended a case before its last turn.
    ended_by: Option<anyhow::Error>,
}

/// Where a measurement takes place, with what, and where its report goes.
#[derive(Args, Clone, Debug)]
pub struct WorkDirArgs {
    /// Coldstream's library [default: COLDSTREAM_LIBRARY, beside this program, ../lib/coldstream]
    #[arg(long, value_name = "PATH")]
    pub coldstream_library: Option<PathBuf>,
    /// Where the database lives while it is measured; on the filesystem and device in question
    #[arg(
        long = "work-dir",
        default_value = "lab-results/work",
        value_name = "DIR"
    )]
    pub directory: PathBuf,
    /// Set the device's readahead for the time of the measurement
    #[arg(long, value_name = "KIB")]
    pub read_ahead_kb: Option<u64>,
    /// Hold the device to this rate in MiB/s, reads and writes each, as a cloud volume is (cgroup
    /// version 1, root; the writeback of buffered writes is not held); 0 is as fast as it is
    #[arg(long, default_value_t = 0, value_name = "MIB")]
    pub device_mib_per_second: u64,
    /// Hold the device to so many requests a second, reads and writes each; needs the same
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub device_requests_per_second: u64,
    /// Keep the processors from going to sleep: on a virtual machine whose host takes long to wake one
    #[arg(long)]
    pub keep_awake: bool,
    /// Keep the data sets for the next time
    #[arg(long)]
    pub keep: bool,
    /// Where the report goes
    #[command(flatten)]
    pub output: OutputArgs,
}

impl WorkDirArgs {
    /// What the device may do.
    fn device_rate(&self) -> DeviceRate {
        DeviceRate {
            bytes_per_second: self.device_mib_per_second << 20,
            requests_per_second: self.device_requests_per_second,
        }
    }
}

impl Testbed {
    /// Makes the directory and looks at the machine; sets the device's readahead if asked to.
    pub fn open(arguments: &WorkDirArgs) -> Result<Self> {
        arguments.output.check()?;
        let directory = &arguments.directory;
        let created = !directory.exists();
        fs::create_dir_all(directory)
            .with_context(|| format!("make the work directory {}", directory.display()))?;
        let directory =
            fs::canonicalize(directory).with_context(|| directory.display().to_string())?;
        let mut testbed = Self {
            remove: created && !arguments.keep,
            _read_ahead: None,
            _awake: None,
            machine: Machine::observe(&directory),
            progress: Progress::new(),
            limitations: Vec::new(),
            ended_by: None,
            device_rate: arguments.device_rate(),
            directory,
        };
        if arguments.keep_awake {
            match Awake::keep() {
                Ok(awake) => testbed._awake = Some(awake),
                Err(error) => testbed.limit(format!("processors are not kept awake: {error}")),
            }
            testbed.machine.kept_awake = testbed._awake.is_some();
        }
        if let Some(read_ahead_kb) = arguments.read_ahead_kb {
            testbed._read_ahead = testbed.set_read_ahead(read_ahead_kb);
            if let (Some(_), Some(device)) = (&testbed._read_ahead, &mut testbed.machine.device) {
                device.read_ahead_kb = read_ahead_kb;
            }
        }
        Ok(testbed)
    }

    /// Sets the device's readahead until what is returned is dropped; says once why it cannot.
    pub fn set_read_ahead(&mut self, read_ahead_kb: u64) -> Option<KernelSetting> {
        let Some(device) = &self.machine.device else {
            self.limit("readahead: the work directory is on no block device".into());
            return None;
        };
        match KernelSetting::set(&device.read_ahead_path(), &read_ahead_kb.to_string()) {
            Ok(set) => Some(set),
            Err(error) => {
                self.limit(format!("readahead of {read_ahead_kb} KiB: {error}"));
                None
            }
        }
    }

    /// The directory, canonical.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A cgroup for a run; none, and a limitation, where none can be made.
    pub fn cgroup(&mut self, limit_bytes: u64) -> Option<Cgroup> {
        match Cgroup::create(limit_bytes) {
            Ok(cgroup) => {
                if cgroup.version() == Version::V1 {
                    self.limit("cgroup version 1: no memory pressure of the database's own".into());
                }
                Some(cgroup)
            }
            Err(why) => {
                self.limit(format!(
                    "the database's memory is not limited ({why}): the page cache is the whole \
                     machine's, and the cases do not mean what their names say"
                ));
                None
            }
        }
    }

    /// A throttle of the device for a run; none, and a limitation, where none can be made.
    pub fn throttle(&mut self) -> Option<Throttle> {
        if self.device_rate.is_unlimited() {
            return None;
        }
        let made = match &self.machine.device {
            Some(device) => Throttle::create(&device.disk_number, self.device_rate),
            None => Err("the work directory is on no block device".into()),
        };
        made.map_err(|why| self.limit(format!("the device is not held to a rate: {why}")))
            .ok()
    }

    /// A file for what the library says.
    pub fn log_file(&self) -> Result<NamedTempFile> {
        tempfile::Builder::new()
            .prefix("coldstream-log-")
            .tempfile_in(&self.directory)
            .context("make a log file")
    }

    /// Says once what cannot be done here.
    pub fn limit(&mut self, text: String) {
        if !self.limitations.contains(&text) {
            self.progress.line(&text);
            self.limitations.push(text);
        }
    }

    /// Takes a run's events until nobody is left who could send one, and the kernel's counters
    /// meanwhile. An interrupt ends it with [`Interrupted`].
    ///
    /// The threads that serve reads have names that begin with any of `foreground`.
    pub fn record(
        &mut self,
        title: &str,
        (cgroup, foreground): (Option<&Cgroup>, &'static [&'static str]),
        measurement: &mut Measurement,
        events: &Receiver<Result<Event>>,
        mut cached: impl FnMut() -> (u64, u64),
    ) -> Result<()> {
        let device = self.machine.device.as_ref();
        let number = device.map(|device| device.number.clone());
        let mut sampler = Sampler::new(number, cgroup, Foreground::new(foreground));
        for missing in std::mem::take(&mut sampler.missing) {
            self.limit(missing);
        }
        let mut sample = |measurement: &mut Measurement| {
            let (inputs, outputs) = cached();
            measurement.sample(sampler.sample(cgroup, inputs, outputs));
        };
        sample(measurement);
        let mut next_sample_ns = now_ns();
        let mut phase = Phase::WarmUp;
        loop {
            if interrupt::is_requested() {
                return Err(Interrupted.into());
            }
            match events.recv_timeout(EVENT_WAIT) {
                Ok(event) => {
                    if let Some(begun) = measurement.take(event?) {
                        phase = begun;
                        sample(measurement);
                        self.progress.phase(title, phase);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if now_ns() >= next_sample_ns && phase != Phase::End {
                sample(measurement);
                next_sample_ns = now_ns() + SAMPLE_INTERVAL_NS;
                self.progress.phase(title, phase);
            }
        }
    }

    /// A case: every mode once in each turn. An error or an interrupt ends it, and the turns that were
    /// finished by then are its report; `None` if there was none, or an earlier case was ended so.
    pub fn case<M: std::fmt::Display>(
        &mut self,
        case: CaseDescription,
        modes: &[M],
        turns: u32,
        mut one_run: impl FnMut(&mut Self, &str, &M, u32) -> Result<RunReport>,
    ) -> Option<CaseReport> {
        let mut finished: Vec<Vec<RunReport>> = vec![Vec::new(); modes.len()];
        for turn in 1..=turns {
            if self.ended_by.is_some() {
                break;
            }
            let runs: Result<Vec<RunReport>> = (modes.iter())
                .map(|mode| {
                    let title = format!("{}: turn {turn} of {turns}, {mode}", case.title);
                    let report =
                        one_run(self, &title, mode, turn).with_context(|| title.clone())?;
                    self.progress.finished(&title, &report);
                    let stolen = report.stolen_percent();
                    if stolen >= STOLEN_PERCENT_MAX {
                        self.limit(format!(
                            "{title}: the host took up to {stolen:.0} % of the processors' time in a \
                             phase: latencies are its doing, too"
                        ));
                    }
                    Ok(report)
                })
                .collect();
            match runs {
                Ok(runs) => (finished.iter_mut().zip(runs)).for_each(|(mode, run)| mode.push(run)),
                Err(error) => {
                    self.limit(format!("ended before its time: {error:#}"));
                    self.ended_by = Some(error);
                }
            }
        }
        let is_of_use = finished.iter().all(|runs| !runs.is_empty());
        is_of_use.then(|| CaseReport::new(case, finished))
    }

    /// Publishes what was measured, and then gives the error that ended it before its time, if one did.
    pub fn publish(&mut self, report: &Report, output: &OutputArgs) -> Result<()> {
        if !report.cases.is_empty() {
            report::publish(report, output)?;
        }
        self.ended_by.take().map_or(Ok(()), Err)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.progress.done();
        if self.remove {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn an_error_leaves_the_turns_that_were_finished() {
        let directory = tempfile::tempdir().unwrap();
        let mut testbed = Testbed::open(&WorkDirArgs {
            coldstream_library: None,
            directory: directory.path().to_path_buf(),
            read_ahead_kb: None,
            device_mib_per_second: 0,
            device_requests_per_second: 0,
            keep_awake: false,
            keep: false,
            output: OutputArgs::default(),
        })
        .unwrap();
        let case = CaseDescription {
            title: "case".into(),
            text: String::new(),
            parameters: serde_json::Value::Null,
        };
        let mut run = |last: u32| {
            testbed.case(case.clone(), &["one", "other"], 5, |_, _, mode, turn| {
                if *mode == "other" && turn > last {
                    bail!("too slow");
                }
                Ok(RunReport::default())
            })
        };
        let report = run(3).unwrap();
        assert!(report.runs.iter().all(|runs| runs.len() == 3));
        assert!(run(5).is_none(), "the next case");
        assert!(testbed.limitations[0].ends_with("turn 4 of 5, other: too slow"));
        assert!(testbed.ended_by.take().is_some());
        let none = testbed.case(case.clone(), &["one"], 5, |_, _, _, _| bail!("at once"));
        assert!(none.is_none());
    }
}
