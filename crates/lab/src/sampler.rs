//! Samples of the counters of the kernel, the device and the database's processes, a few times a second.

use crate::foreground::Foreground;
use crate::processes::{LibrarySample, ProcessRates, ProcessSample, Processes};
use crate::units::mib;
use coldstream_host::counters::{self, ProcessorTime};
use coldstream_host::own_cgroup::MemoryCgroup;
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
    /// All memory of the cgroup but inactive file pages, bytes: what kubelets call the working set.
    pub working_set_bytes: u64,
    /// Time in which some task was stalled for memory, µs.
    pub memory_stall_us: u64,
    /// Pages that became dirty, in the whole system.
    pub dirtied_pages: u64,
    /// Pages that were written back, in the whole system.
    pub written_back_pages: u64,
    /// Bytes that are dirty now.
    pub dirty_bytes: u64,
    /// Time of all processors.
    pub processors: ProcessorTime,
    /// The device.
    pub device: DeviceSample,
    /// Bytes that the device delivered for the threads that serve reads.
    pub foreground_read_bytes: u64,
    /// Page cache of the SSTables that the compaction reads, bytes.
    pub inputs_cached_bytes: u64,
    /// Page cache of the SSTables that the compaction writes, bytes.
    pub outputs_cached_bytes: u64,
    /// The database's processes.
    pub process: ProcessSample,
    /// Coldstream's library in them.
    pub library: LibrarySample,
}

/// The counters of a device (`Documentation/admin-guide/iostats.rst`).
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
    /// Time in flight, summed over all requests, ms.
    pub weighted_ms: u64,
}

/// The sources of the counters.
#[derive(Debug)]
pub struct Sampler {
    device_number: Option<String>,
    pressure: Option<PathBuf>,
    foreground: Foreground,
    processes: Processes,
    /// What cannot be sampled here, in words.
    pub missing: Vec<String>,
}

impl Sampler {
    /// Finds the sources that exist.
    pub fn new(
        device_number: Option<String>,
        cgroup: Option<&MemoryCgroup>,
        foreground: Foreground,
        processes: Processes,
    ) -> Self {
        let mut missing = Vec::new();
        let pressure = cgroup
            .and_then(MemoryCgroup::pressure_file)
            .unwrap_or_else(|| PathBuf::from("/proc/pressure/memory"));
        let pressure = if pressure.exists() {
            if pressure.starts_with("/proc") {
                missing.push(
                    "memory stalls are those of the whole system: the cgroup does not count its own"
                        .into(),
                );
            }
            Some(pressure)
        } else {
            missing.push(
                "memory stalls are missing: the kernel has no pressure stall information".into(),
            );
            None
        };
        if cgroup.is_none() {
            missing.push(
                "refaults, lists and dirty memory are those of the whole system: there is no cgroup"
                    .into(),
            );
            missing.push(
                "device reads of the foreground, and memory of the processes, are missing: there is no \
                 cgroup"
                    .into(),
            );
        }
        if fs::read_to_string("/proc/self/io").is_err() {
            missing.push(
                "device reads of the foreground are missing, not 0: /proc/PID/io cannot be read"
                    .into(),
            );
        }
        if device_number.is_none() {
            missing.push(
                "device figures are missing: the work directory is on no block device".into(),
            );
        }
        Self {
            device_number,
            pressure,
            foreground,
            processes,
            missing,
        }
    }

    /// Reads all counters once. The caller gives the page cache of the SSTables. What cannot be read stays 0.
    pub fn sample(
        &mut self,
        cgroup: Option<&MemoryCgroup>,
        inputs_cached_bytes: u64,
        outputs_cached_bytes: u64,
    ) -> Sample {
        let statistics = cgroup.and_then(|cgroup| cgroup.memory_statistics().ok());
        let system = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let of_cgroup = |name: &str| {
            statistics
                .as_ref()
                .and_then(|text| counters::value(text, name))
        };
        let of_system = |name: &str| counters::value(&system, name).unwrap_or(0);
        let pages = |name: &str| of_system(name) * 4096;
        let (process, library) = cgroup
            .map(|cgroup| self.processes.sample(&cgroup.processes_file()))
            .unwrap_or_default();
        let active_file_bytes = of_cgroup("active_file").unwrap_or_else(|| pages("nr_active_file"));
        let inactive_file_bytes =
            of_cgroup("inactive_file").unwrap_or_else(|| pages("nr_inactive_file"));
        Sample {
            at_ns: now_ns(),
            refaults: of_cgroup("workingset_refault_file")
                .unwrap_or_else(|| of_system("workingset_refault_file")),
            major_faults: of_cgroup("pgmajfault").unwrap_or_else(|| of_system("pgmajfault")),
            active_file_bytes,
            inactive_file_bytes,
            working_set_bytes: cgroup
                .and_then(MemoryCgroup::used_bytes)
                .map_or(0, |used| used.saturating_sub(inactive_file_bytes)),
            memory_stall_us: self
                .pressure
                .as_ref()
                .and_then(|path| fs::read_to_string(path).ok())
                .and_then(|text| counters::stall_us(&text))
                .unwrap_or(0),
            dirtied_pages: of_system("nr_dirtied"),
            written_back_pages: of_system("nr_written"),
            // Version 2 has the first name, version 1 the second.
            dirty_bytes: of_cgroup("file_dirty")
                .or_else(|| of_cgroup("dirty"))
                .unwrap_or_else(|| pages("nr_dirty")),
            processors: fs::read_to_string("/proc/stat")
                .ok()
                .and_then(|text| ProcessorTime::parse(&text))
                .unwrap_or_default(),
            device: self
                .device_number
                .as_ref()
                .and_then(|number| DeviceSample::read(number))
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

/// The monotonic clock, which the driver reads too.
pub fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl DeviceSample {
    /// The counters of a device, `major:minor`.
    fn read(number: &str) -> Option<Self> {
        let disk = counters::disk(&fs::read_to_string("/proc/diskstats").ok()?, number)?;
        Some(Self {
            reads: disk.reads,
            sectors_read: disk.sectors_read,
            read_ms: disk.time_reading,
            writes: disk.writes,
            sectors_written: disk.sectors_written,
            write_ms: disk.time_writing,
            busy_ms: disk.time_in_progress,
            weighted_ms: disk.weighted_time_in_progress,
        })
    }
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
    /// MiB a second of these for the threads that serve reads.
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
    /// Share of processor time in which there was work and the host ran other machines, %.
    pub stolen_percent: f64,
    /// Active list of file pages at the end, MiB.
    pub active_file_mib: f64,
    /// Both lists of file pages at the end, MiB.
    pub page_cache_mib: f64,
    /// Page cache of the compaction's inputs at the end, MiB.
    pub inputs_cached_mib: f64,
    /// Page cache of the compaction's outputs at the end, MiB.
    pub outputs_cached_mib: f64,
    /// The database's processes, and Coldstream's library in them.
    pub processes: ProcessRates,
}

impl Rates {
    /// Between `before` and `after`.
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
    fn rates_are_per_second() {
        let before = Sample::default();
        let after = Sample {
            at_ns: 2_000_000_000,
            refaults: 10,
            written_back_pages: 6,
            active_file_bytes: 3 << 20,
            inactive_file_bytes: 4 << 20,
            processors: ProcessorTime {
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
