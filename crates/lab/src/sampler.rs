//! The kernel's and the device's counters, read a few times a second.

use crate::cgroup::Cgroup;
use crate::foreground::Foreground;
use crate::processes::{LibrarySample, ProcessRates, ProcessSample, Processes};
use std::fs;
use std::path::PathBuf;

/// Absolute counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Monotonic clock, ns.
    pub at_ns: u64,
    /// Pages that had to be read again soon after they were evicted.
    pub refaults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Bytes on the active list of file pages.
    pub active_file_bytes: u64,
    /// Bytes on the inactive list of file pages.
    pub inactive_file_bytes: u64,
    /// Time in which some task was stalled for memory, µs.
    pub memory_stall_us: u64,
    /// Pages that became dirty, in the whole system.
    pub dirtied_pages: u64,
    /// Pages that were written back, in the whole system.
    pub written_back_pages: u64,
    /// Bytes that are dirty now.
    pub dirty_bytes: u64,
    /// Time of all processors, in ticks.
    pub processors: ProcessorsSample,
    /// The device.
    pub device: DeviceSample,
    /// Bytes that were fetched from it for the threads that serve reads.
    pub foreground_read_bytes: u64,
    /// Page cache that tables which the compaction reads hold, bytes.
    pub inputs_cached_bytes: u64,
    /// Page cache that tables which it writes hold, bytes.
    pub outputs_cached_bytes: u64,
    /// The database's processes.
    pub process: ProcessSample,
    /// Coldstream's library in them.
    pub library: LibrarySample,
}

/// The first line of `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorsSample {
    /// Time in all states.
    pub all_ticks: u64,
    /// Time in which there was work, and the host gave the processor to others.
    pub stolen_ticks: u64,
}

/// A line of `/proc/diskstats`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceSample {
    /// Reads completed.
    pub reads: u64,
    /// Sectors of 512 bytes read.
    pub sectors_read: u64,
    /// Time of reads, ms.
    pub read_ms: u64,
    /// Writes completed.
    pub writes: u64,
    /// Sectors of 512 bytes written.
    pub sectors_written: u64,
    /// Time of writes, ms.
    pub write_ms: u64,
    /// Time in which requests were in flight, ms.
    pub busy_ms: u64,
    /// Time of all requests in flight, summed, ms.
    pub weighted_ms: u64,
}

/// Where the counters come from.
#[derive(Debug)]
pub struct Sampler {
    device_number: Option<String>,
    pressure: Option<PathBuf>,
    foreground: Foreground,
    processes: Processes,
    /// What cannot be sampled here, in plain words.
    pub missing: Vec<String>,
}

impl Sampler {
    /// Looks which sources there are.
    pub fn new(
        device_number: Option<String>,
        cgroup: Option<&Cgroup>,
        foreground: Foreground,
    ) -> Self {
        let mut missing = Vec::new();
        let pressure = cgroup
            .and_then(Cgroup::pressure_file)
            .unwrap_or_else(|| PathBuf::from("/proc/pressure/memory"));
        let pressure = if pressure.exists() {
            if pressure.starts_with("/proc") {
                missing.push(
                    "memory stalls are the whole system's: this cgroup has none of its own".into(),
                );
            }
            Some(pressure)
        } else {
            missing.push("memory stalls: the kernel has no pressure stall information".into());
            None
        };
        if cgroup.is_none() {
            missing.push(
                "refaults, lists and dirty memory are the whole system's: there is no cgroup"
                    .into(),
            );
            missing.push(
                "device reads of the foreground, and what the processes hold: there is no cgroup"
                    .into(),
            );
        }
        if fs::read_to_string("/proc/self/io").is_err() {
            missing.push(
                "device reads of the foreground: /proc/PID/io cannot be read, and 0 means nothing"
                    .into(),
            );
        }
        if device_number.is_none() {
            missing.push("device figures: the work directory is on no block device".into());
        }
        Self {
            device_number,
            pressure,
            foreground,
            processes: Processes::default(),
            missing,
        }
    }

    /// Reads everything once; what the tables hold of the page cache, the caller knows. What
    /// cannot be read stays 0.
    pub fn sample(
        &mut self,
        cgroup: Option<&Cgroup>,
        inputs_cached_bytes: u64,
        outputs_cached_bytes: u64,
    ) -> Sample {
        let statistics = cgroup.and_then(|cgroup| cgroup.memory_statistics().ok());
        let system = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let of_cgroup = |name: &str| statistics.as_ref().and_then(|text| value_of(text, name));
        let of_system = |name: &str| value_of(&system, name).unwrap_or(0);
        let pages = |name: &str| of_system(name) * 4096;
        let (process, library) = cgroup
            .map(|cgroup| self.processes.sample(&cgroup.processes_file()))
            .unwrap_or_default();
        Sample {
            at_ns: now_ns(),
            refaults: of_cgroup("workingset_refault_file")
                .unwrap_or_else(|| of_system("workingset_refault_file")),
            major_faults: of_cgroup("pgmajfault").unwrap_or_else(|| of_system("pgmajfault")),
            active_file_bytes: of_cgroup("active_file").unwrap_or_else(|| pages("nr_active_file")),
            inactive_file_bytes: of_cgroup("inactive_file")
                .unwrap_or_else(|| pages("nr_inactive_file")),
            memory_stall_us: self
                .pressure
                .as_ref()
                .and_then(|path| fs::read_to_string(path).ok())
                .and_then(|text| stall_us(&text))
                .unwrap_or(0),
            dirtied_pages: of_system("nr_dirtied"),
            written_back_pages: of_system("nr_written"),
            // Version 2 and version 1 name it differently.
            dirty_bytes: of_cgroup("file_dirty")
                .or_else(|| of_cgroup("dirty"))
                .unwrap_or_else(|| pages("nr_dirty")),
            processors: fs::read_to_string("/proc/stat")
                .ok()
                .and_then(|text| processors_of(&text))
                .unwrap_or_default(),
            device: self
                .device_number
                .as_ref()
                .and_then(|number| device_of(&fs::read_to_string("/proc/diskstats").ok()?, number))
                .unwrap_or_default(),
            foreground_read_bytes: cgroup.map_or(0, |cgroup| {
                self.foreground.read_bytes(&cgroup.processes_file())
            }),
            inputs_cached_bytes,
            outputs_cached_bytes,
            process,
            library,
        }
    }
}

/// The monotonic clock, as the driver reads it.
pub fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `name value` lines, as in `memory.stat` of both versions and in `/proc/vmstat`.
fn value_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

/// Total of the line `some …` of a pressure file, µs.
fn stall_us(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

/// `cpu`, and user, nice, system, idle, iowait, irq, softirq and steal; a guest's time is in that of
/// user and nice (`proc_stat(5)`).
fn processors_of(text: &str) -> Option<ProcessorsSample> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let states: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|state| state.parse().ok())
        .collect();
    Some(ProcessorsSample {
        all_ticks: states.iter().sum(),
        stolen_ticks: *states.get(7)?,
    })
}

/// The line of a device given as `major:minor` (`Documentation/admin-guide/iostats.rst`).
fn device_of(text: &str, number: &str) -> Option<DeviceSample> {
    let (major, minor) = number.split_once(':')?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields.len() < 14 || fields[0] != major || fields[1] != minor {
            return None;
        }
        let field = |place: usize| fields[place].parse().unwrap_or(0);
        Some(DeviceSample {
            reads: field(3),
            sectors_read: field(5),
            read_ms: field(6),
            writes: field(7),
            sectors_written: field(9),
            write_ms: field(10),
            busy_ms: field(12),
            weighted_ms: field(13),
        })
    })
}

/// Bytes as MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Rates between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Rates {
    /// Refaults a second.
    pub refaults_per_second: f64,
    /// Major faults a second.
    pub major_faults_per_second: f64,
    /// Memory stall, µs a second.
    pub memory_stall_us_per_second: f64,
    /// Pages dirtied a second.
    pub dirty_pages_per_second: f64,
    /// Pages written back a second.
    pub writeback_pages_per_second: f64,
    /// Reads of the device a second.
    pub device_reads_per_second: f64,
    /// MiB a second read from the device.
    pub device_read_mib_per_second: f64,
    /// MiB a second of them for the threads that serve reads.
    pub foreground_read_mib_per_second: f64,
    /// MiB a second written to the device.
    pub device_written_mib_per_second: f64,
    /// Mean time of a read at the device, ms.
    pub read_await_ms: f64,
    /// Mean time of a write at the device, ms.
    pub write_await_ms: f64,
    /// Mean number of requests in flight.
    pub queue_depth: f64,
    /// Share of the time in which the device was busy, %.
    pub utilisation_percent: f64,
    /// Share of the processors' time that the host gave to others while there was work, %.
    pub stolen_percent: f64,
    /// Active list of file pages at the end, MiB.
    pub active_file_mib: f64,
    /// Both lists of file pages at the end, MiB.
    pub page_cache_mib: f64,
    /// What the compaction's inputs hold of it at the end, MiB.
    pub inputs_cached_mib: f64,
    /// What its outputs hold of it at the end, MiB.
    pub outputs_cached_mib: f64,
    /// The database's processes, and Coldstream's library in them.
    pub processes: ProcessRates,
}

impl Rates {
    /// From `before` to `after`.
    pub fn between(before: &Sample, after: &Sample) -> Self {
        let seconds = (after.at_ns.saturating_sub(before.at_ns)) as f64 / 1e9;
        if seconds <= 0.0 {
            return Self::default();
        }
        let delta = |before: u64, after: u64| after.saturating_sub(before) as f64;
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let (from, to) = (&before.device, &after.device);
        let (reads, writes) = (delta(from.reads, to.reads), delta(from.writes, to.writes));
        let mib_per_second = |sectors: f64| sectors / 2048.0 / seconds;
        Self {
            refaults_per_second: delta(before.refaults, after.refaults) / seconds,
            major_faults_per_second: delta(before.major_faults, after.major_faults) / seconds,
            memory_stall_us_per_second: delta(before.memory_stall_us, after.memory_stall_us)
                / seconds,
            dirty_pages_per_second: delta(before.dirtied_pages, after.dirtied_pages) / seconds,
            writeback_pages_per_second: delta(before.written_back_pages, after.written_back_pages)
                / seconds,
            device_reads_per_second: reads / seconds,
            device_read_mib_per_second: mib_per_second(delta(from.sectors_read, to.sectors_read)),
            foreground_read_mib_per_second: mib(after
                .foreground_read_bytes
                .saturating_sub(before.foreground_read_bytes))
                / seconds,
            device_written_mib_per_second: mib_per_second(delta(
                from.sectors_written,
                to.sectors_written,
            )),
            read_await_ms: ratio(delta(from.read_ms, to.read_ms), reads),
            write_await_ms: ratio(delta(from.write_ms, to.write_ms), writes),
            queue_depth: delta(from.weighted_ms, to.weighted_ms) / 1000.0 / seconds,
            utilisation_percent: delta(from.busy_ms, to.busy_ms) / 10.0 / seconds,
            stolen_percent: 100.0
                * ratio(
                    delta(
                        before.processors.stolen_ticks,
                        after.processors.stolen_ticks,
                    ),
                    delta(before.processors.all_ticks, after.processors.all_ticks),
                ),
            active_file_mib: mib(after.active_file_bytes),
            page_cache_mib: mib(after.active_file_bytes + after.inactive_file_bytes),
            inputs_cached_mib: mib(after.inputs_cached_bytes),
            outputs_cached_mib: mib(after.outputs_cached_bytes),
            processes: ProcessRates::between(
                (&before.process, &before.library),
                (&after.process, &after.library),
                seconds,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_memory_stat_are_read() {
        let text = "cache 12\nworkingset_refault_file 7\nactive_file 4096\ntotal_active_file 1\n";
        assert_eq!(value_of(text, "workingset_refault_file"), Some(7));
        assert_eq!(value_of(text, "active_file"), Some(4096));
        assert_eq!(value_of(text, "missing"), None);
    }

    #[test]
    fn pressure_and_disk_lines_are_read() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 total=9\n";
        assert_eq!(stall_us(text), Some(123));
        let disks = " 254 0 vda 10 1 80 5 20 2 160 8 0 30 13 0 0 0 0\n 254 1 vda1 1 2\n";
        let device = device_of(disks, "254:0").unwrap();
        assert_eq!(
            (device.reads, device.sectors_read, device.read_ms),
            (10, 80, 5)
        );
        assert_eq!(
            (device.writes, device.busy_ms, device.weighted_ms),
            (20, 30, 13)
        );
        assert_eq!(device_of(disks, "254:1"), None);
    }

    #[test]
    fn the_hosts_share_of_the_processors_is_read() {
        let text = "cpu  10 1 5 70 4 1 1 8 3 0\ncpu0 5 1 2 35 2 0 0 4 1 0\nintr 1\n";
        let processors = processors_of(text).unwrap();
        assert_eq!((processors.all_ticks, processors.stolen_ticks), (100, 8));
        assert_eq!(processors_of("cpu  1 2 3\n"), None);
    }

    #[test]
    fn rates_are_per_second() {
        let before = Sample::default();
        let after = Sample {
            at_ns: 2_000_000_000,
            refaults: 10,
            written_back_pages: 6,
            active_file_bytes: 3 << 20,
            inactive_file_bytes: 4 << 20,
            processors: ProcessorsSample {
                all_ticks: 400,
                stolen_ticks: 40,
            },
            device: DeviceSample {
                reads: 4,
                read_ms: 8,
                busy_ms: 1000,
                ..DeviceSample::default()
            },
            ..Sample::default()
        };
        let rates = Rates::between(&before, &after);
        assert_eq!(rates.refaults_per_second, 5.0);
        assert_eq!(rates.writeback_pages_per_second, 3.0);
        assert_eq!((rates.active_file_mib, rates.page_cache_mib), (3.0, 7.0));
        assert_eq!(rates.read_await_ms, 2.0);
        assert_eq!(rates.utilisation_percent, 50.0);
        assert_eq!(rates.stolen_percent, 10.0);
        assert_eq!(Rates::between(&after, &before), Rates::default());
    }
}
