//! The place and the conditions of a measurement: work directory, machine, and limits of a run. It
//! also collects what this machine does not allow, for the report.

use crate::awake::Awake;
use crate::machine::Machine;
use crate::number_option::{self, at_least};
use crate::progress::Progress;
use crate::report::OutputArgs;
use crate::throttle::{DeviceRate, Throttle, cgroup_name};
use anyhow::{Context, Result};
use clap::Args;
use coldstream_host::kernel_setting::KernelSetting;
use coldstream_host::machine;
use coldstream_host::own_cgroup::MemoryCgroup;
use coldstream_policy::memory_limits::Version;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A prepared machine. Dropping it restores the kernel's settings. It also removes the work directory
/// if the laboratory made it and `--keep` was not given.
pub struct Testbed {
    directory: PathBuf,
    remove: bool,
    _read_ahead: Option<KernelSetting>,
    _awake: Option<Awake>,
    /// The machine.
    pub machine: Machine,
    /// Shows what is going on.
    pub progress: Progress,
    /// What could not be done or measured here, for the report.
    pub limitations: Vec<String>,
    /// The rate of the device in every run. Unlimited where it could not be limited.
    pub device_rate: DeviceRate,
}

/// Limits of one run; removed when dropped.
#[derive(Debug)]
pub struct Limits {
    cgroup: Option<MemoryCgroup>,
    throttle: Option<Throttle>,
}

impl Limits {
    /// The cgroup with the memory limit; `None` where none could be made.
    pub fn cgroup(&self) -> Option<&MemoryCgroup> {
        self.cgroup.as_ref()
    }

    /// Whether the kernel has killed a process of the run because it did not fit the memory limit.
    pub fn were_too_small(&self) -> bool {
        let kills = self.cgroup.as_ref().and_then(MemoryCgroup::kills);
        kills.is_some_and(|kills| kills > 0)
    }

    /// The cgroups' files of processes. A process that writes its id into all of them is limited.
    pub fn processes_files(&self) -> Vec<PathBuf> {
        let memory = self.cgroup.iter().map(MemoryCgroup::processes_file);
        let device = self.throttle.iter().map(Throttle::processes_file);
        memory.chain(device).collect()
    }
}

/// Options of every engine: the work directory and its device, and where the report goes.
#[derive(Args, Clone, Debug)]
pub struct WorkDirArgs {
    /// Coldstream's library [default: COLDSTREAM_LIBRARY, beside this program, ../lib/coldstream]
    #[arg(long, value_name = "PATH")]
    pub coldstream_library: Option<PathBuf>,
    /// Directory of the database during the measurement; its filesystem and device are measured
    #[arg(
        long = "work-dir",
        default_value = "lab-results/work",
        value_name = "DIR"
    )]
    pub directory: PathBuf,
    /// Set the device's readahead (read_ahead_kb) during the measurement
    #[arg(long, value_name = "KIB", value_parser = at_least::<0>)]
    pub read_ahead_kb: Option<u64>,
    /// Limit the device to this rate, like a cloud volume; 0 is no limit
    ///
    /// In MiB/s, for reads and for writes. Needs root and cgroup version 1. Writeback of buffered
    /// writes is not limited.
    #[arg(long, default_value_t = 0, value_name = "MIB", value_parser = at_least::<0>)]
    pub device_mib_per_second: u64,
    /// Limit the device to this number of requests a second, for reads and for writes; 0 is no limit
    ///
    /// Needs the same as --device-mib-per-second.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = at_least::<0>)]
    pub device_requests_per_second: u64,
    /// Look for the smallest memory limit at which p99 in compaction is at most this, in each mode
    ///
    /// In microseconds. Replaces the comparison of modes. It halves the limit's range four or five times, down to
    /// sixteenths of the case's limit; each step takes --runs runs of each mode.
    #[arg(long, value_name = "US", value_parser = number_option::microseconds, conflicts_with_all = ["html", "svg"])]
    pub smallest_limit_for_p99_us: Option<f64>,
    /// Keep idle processors awake, on a virtual machine whose host is slow to wake them
    ///
    /// Does nothing where cgroups of version 2 share out processor time; the report says so.
    #[arg(long)]
    pub keep_awake: bool,
    /// Keep the data sets for the next measurement
    #[arg(long)]
    pub keep: bool,
    /// Where the report goes
    #[command(flatten)]
    pub output: OutputArgs,
}

impl WorkDirArgs {
    fn device_rate(&self) -> DeviceRate {
        DeviceRate {
            bytes_per_second: self.device_mib_per_second << 20,
            requests_per_second: self.device_requests_per_second,
        }
    }
}

impl Testbed {
    /// Makes the work directory, looks at the machine and changes the kernel's settings as asked.
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
            device_rate: arguments.device_rate(),
            directory,
        };
        if arguments.keep_awake {
            match Awake::keep() {
                Ok(awake) => testbed._awake = Some(awake),
                Err(error) => {
                    testbed.add_limitation(format!("processors are not kept awake: {error}"))
                }
            }
            testbed.machine.kept_awake = testbed._awake.is_some();
            testbed.machine.awake_refused = testbed._awake.is_none();
        }
        if let Some(read_ahead_kb) = arguments.read_ahead_kb {
            testbed._read_ahead = testbed.set_read_ahead(read_ahead_kb);
            if let (Some(_), Some(device)) = (&testbed._read_ahead, &mut testbed.machine.device) {
                // For whoever has to set it back after a SIGKILL.
                testbed.progress.line(&format!(
                    "{} is {read_ahead_kb} until the end; it was {}",
                    device.read_ahead_file().display(),
                    device.read_ahead_kb
                ));
                device.read_ahead_kb = read_ahead_kb;
            }
        }
        Ok(testbed)
    }

    /// Sets the device's readahead until the result is dropped. `None`, and a limitation, where
    /// that is not possible.
    pub fn set_read_ahead(&mut self, read_ahead_kb: u64) -> Option<KernelSetting> {
        let Some(device) = &self.machine.device else {
            self.add_limitation("readahead: the work directory is on no block device".into());
            return None;
        };
        match KernelSetting::set(device.read_ahead_file(), &read_ahead_kb.to_string()) {
            Ok(set) => Some(set),
            Err(error) => {
                self.add_limitation(format!("readahead of {read_ahead_kb} KiB: {error}"));
                None
            }
        }
    }

    /// The directory, canonical.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Limits for a run: memory, and the device's rate if one was asked for. A limit that cannot be
    /// set here is left out and becomes a limitation of the report.
    pub fn limits(&mut self, memory_bytes: u64) -> Limits {
        Limits {
            cgroup: self.cgroup(memory_bytes),
            throttle: self.throttle(),
        }
    }

    fn cgroup(&mut self, limit_bytes: u64) -> Option<MemoryCgroup> {
        let machine_bytes = self.machine.memory_bytes;
        if limit_bytes > machine_bytes && machine_bytes > 0 {
            self.add_limitation(format!(
                "the limit of {} MiB is above the machine's memory of {} MiB: it does not bind",
                limit_bytes >> 20,
                machine_bytes >> 20
            ));
        }
        match MemoryCgroup::create(&cgroup_name(), limit_bytes) {
            Ok(cgroup) => {
                if cgroup.may_swap() && machine::has_swap() {
                    self.add_limitation(
                        "the database may swap, and its limit does not bind what is swapped out: swapoff -a"
                            .into(),
                    );
                }
                if cgroup.version() == Version::V1 {
                    self.add_limitation(
                        "cgroup version 1: no memory pressure of the database's own".into(),
                    );
                }
                Some(cgroup)
            }
            Err(why) => {
                self.add_limitation(format!(
                    "the database's memory is not limited ({why}): it has the whole machine's page \
                     cache, and the cases do not mean what their names say"
                ));
                None
            }
        }
    }

    fn throttle(&mut self) -> Option<Throttle> {
        if self.device_rate.is_unlimited() {
            return None;
        }
        let made = match &self.machine.device {
            Some(device) => Throttle::create(&device.disk_number, self.device_rate)
                .map_err(|error| error.to_string()),
            None => Err("the work directory is on no block device".into()),
        };
        made.map_err(|why| {
            self.device_rate = DeviceRate::UNLIMITED;
            self.add_limitation(format!("the device is not limited to a rate: {why}"))
        })
        .ok()
    }

    /// A file for the log of a preload library.
    pub fn log_file(&self) -> Result<NamedTempFile> {
        tempfile::Builder::new()
            .prefix("coldstream-log-")
            .tempfile_in(&self.directory)
            .context("make a log file")
    }

    /// Adds to the report, and shows at once, what this machine does not allow. The same text
    /// counts once.
    pub fn add_limitation(&mut self, text: String) {
        if !self.limitations.contains(&text) {
            self.progress.line(&text);
            self.limitations.push(text);
        }
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.progress.clear();
        if self.remove {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

#[cfg(test)]
impl WorkDirArgs {
    /// The defaults, in a directory.
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            coldstream_library: None,
            directory: directory.to_path_buf(),
            read_ahead_kb: None,
            device_mib_per_second: 0,
            device_requests_per_second: 0,
            keep_awake: false,
            smallest_limit_for_p99_us: None,
            keep: false,
            output: OutputArgs::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_does_not_bind_is_a_limitation() {
        let directory = tempfile::tempdir().unwrap();
        let mut testbed = Testbed::open(&WorkDirArgs::in_directory(directory.path())).unwrap();
        let is_said = |testbed: &Testbed| {
            let mut limitations = testbed.limitations.iter();
            limitations
                .any(|it| it.contains("above the machine's memory of 64 MiB: it does not bind"))
        };
        testbed.machine.memory_bytes = 64 << 20;
        drop(testbed.cgroup(64 << 20));
        assert!(!is_said(&testbed), "{:?}", testbed.limitations);
        drop(testbed.cgroup(65 << 20));
        assert!(is_said(&testbed), "{:?}", testbed.limitations);
    }

    #[test]
    fn a_rate_that_is_not_in_force_is_not_reported() {
        let directory = tempfile::tempdir().unwrap();
        let arguments = WorkDirArgs {
            device_mib_per_second: 5,
            ..WorkDirArgs::in_directory(directory.path())
        };
        let mut testbed = Testbed::open(&arguments).unwrap();
        testbed.machine.device = None;
        assert!(testbed.throttle().is_none());
        assert_eq!(testbed.device_rate, DeviceRate::UNLIMITED);
        let mut limitations = testbed.limitations.iter();
        assert!(limitations.any(|it| it.starts_with("the device is not limited to a rate: ")));
    }
}
