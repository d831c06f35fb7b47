//! What the database's processes hold, and the counters of Coldstream's library in them.

use crate::units::mib;
use coldstream_control::{Counter, Snapshot};
use coldstream_host::process;
use coldstream_host::status_page::StatusPage;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::Path;

/// What all processes together hold at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessSample {
    /// Memory that belongs to no file, bytes: heaps, stacks, buffers.
    pub anonymous_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// The library's counters at one moment, summed over all processes; 0 without the library.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LibrarySample {
    /// Processes that have a status page.
    pub pages: u64,
    /// Memory of the library: windows and its part of the heap, bytes.
    pub memory_bytes: u64,
    /// The rate that pacing allows background I/O, bytes a second; 0 means no limit.
    pub pacing_bytes_per_second: u64,
    /// Time in which background threads waited for pacing, ns.
    pub pacing_ns: u64,
    /// Cold pages that were dropped, bytes.
    pub evicted_bytes: u64,
    /// Processor time of the search for them, ns.
    pub evicting_ns: u64,
    /// Pages that handovers warmed.
    pub warmed_pages: u64,
    /// Bytes that handovers read from indexes.
    pub index_bytes: u64,
    /// Ranges that handovers warmed.
    pub ranges_warmed: u64,
    /// Warmed ranges that the foreground has read since.
    pub ranges_hit: u64,
    /// Time in which handovers delayed their threads, ns.
    pub handover_ns: u64,
    /// Number of handovers by their duration: [`Counter::HANDOVER_DELAYS`].
    pub handovers: [u64; Counter::HANDOVER_DELAYS.len()],
}

impl LibrarySample {
    fn add(&mut self, snapshot: &Snapshot) {
        let get = |counter| snapshot.get(counter);
        self.pages += 1;
        self.memory_bytes += get(Counter::WindowMemoryBytes) + get(Counter::HeapBytes);
        self.pacing_bytes_per_second += get(Counter::PacingBytesPerSecond);
        self.pacing_ns += get(Counter::PacingNanoseconds);
        self.evicted_bytes += get(Counter::EvictionBytes);
        self.evicting_ns += get(Counter::EvictionNanoseconds);
        self.warmed_pages += get(Counter::HandoverPagesWarmed);
        self.index_bytes += get(Counter::HandoverIndexBytes);
        self.ranges_warmed += get(Counter::HandoverRangesWarmed);
        self.ranges_hit += get(Counter::HandoverRangesHit);
        self.handover_ns += get(Counter::HandoverNanoseconds);
        for (handovers, counter) in self.handovers.iter_mut().zip(Counter::HANDOVER_DELAYS) {
            *handovers += get(counter);
        }
    }
}

/// Rates between two samples; gauges at the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ProcessRates {
    /// Memory that belongs to no file at the end, MiB.
    pub anonymous_mib: f64,
    /// Its growth, MiB.
    pub anonymous_growth_mib: f64,
    /// Threads at the end.
    pub threads: f64,
    /// Open descriptors at the end.
    pub descriptors: f64,
    /// Memory of the library at the end, windows and heap, MiB.
    pub library_mib: f64,
    /// The rate that pacing allows background I/O at the end, MiB a second; 0 means no limit.
    pub pacing_mib_per_second: f64,
    /// Time in which background threads waited for pacing, ms a second, summed over all threads.
    pub pacing_ms_per_second: f64,
    /// Cold pages that were dropped, MiB a second.
    pub evicted_mib_per_second: f64,
    /// Share of a processor that the search for them used, %.
    pub evicting_percent: f64,
    /// Pages that handovers warmed a second.
    pub warmed_pages_per_second: f64,
    /// Bytes that handovers read from indexes, MiB a second.
    pub handover_index_mib_per_second: f64,
    /// Share of all warmed ranges that the foreground had read by the end, %.
    pub handover_hit_percent: f64,
    /// Handovers.
    pub handovers: f64,
    /// Mean delay of a thread by a handover, ms.
    pub handover_mean_ms: f64,
    /// Median of these delays, ms.
    pub handover_p50_ms: f64,
    /// 99th percentile of these delays, ms.
    pub handover_p99_ms: f64,
}

impl ProcessRates {
    /// Between `before` and `after`. `seconds` is the time between them.
    pub fn between(
        before: (&ProcessSample, &LibrarySample),
        after: (&ProcessSample, &LibrarySample),
        seconds: f64,
    ) -> Self {
        let delta = |before: u64, after: u64| after.saturating_sub(before) as f64;
        let (process, library) = (after.0, after.1);
        let (process_before, library_before) = (before.0, before.1);
        let mut handovers = library.handovers;
        for (now, then) in handovers.iter_mut().zip(library_before.handovers) {
            *now = now.saturating_sub(then);
        }
        let count: u64 = handovers.iter().sum();
        let handover_ms = delta(library_before.handover_ns, library.handover_ns) / 1e6;
        Self {
            anonymous_mib: mib(process.anonymous_bytes),
            anonymous_growth_mib: mib(process.anonymous_bytes)
                - mib(process_before.anonymous_bytes),
            threads: process.threads as f64,
            descriptors: process.descriptors as f64,
            library_mib: mib(library.memory_bytes),
            pacing_mib_per_second: mib(library.pacing_bytes_per_second),
            pacing_ms_per_second: delta(library_before.pacing_ns, library.pacing_ns)
                / 1e6
                / seconds,
            evicted_mib_per_second: delta(library_before.evicted_bytes, library.evicted_bytes)
                / f64::from(1 << 20)
                / seconds,
            evicting_percent: delta(library_before.evicting_ns, library.evicting_ns)
                / 1e7
                / seconds,
            warmed_pages_per_second: delta(library_before.warmed_pages, library.warmed_pages)
                / seconds,
            handover_index_mib_per_second: delta(library_before.index_bytes, library.index_bytes)
                / f64::from(1 << 20)
                / seconds,
            handover_hit_percent: 100.0 * library.ranges_hit as f64
                / f64::max(library.ranges_warmed as f64, 1.0),
            handovers: count as f64,
            handover_mean_ms: handover_ms / f64::max(count as f64, 1.0),
            handover_p50_ms: duration_ms(&handovers, 500),
            handover_p99_ms: duration_ms(&handovers, 990),
        }
    }
}

/// A percentile of the handovers' durations, ms: the upper bound of the class in which it lies.
fn duration_ms(handovers: &[u64], per_mille: u64) -> f64 {
    let wanted = handovers.iter().sum::<u64>() * per_mille;
    if wanted == 0 {
        return 0.0;
    }
    let mut bound_ms = 1.0;
    let mut so_far = 0;
    for count in handovers {
        so_far += count * 1000;
        if so_far >= wanted {
            break;
        }
        bound_ms *= Counter::HANDOVER_DELAY_FACTOR as f64;
    }
    bound_ms
}

/// The database's processes in a cgroup.
#[derive(Debug)]
pub struct Processes {
    /// A process that is in the cgroup and not the database's, with its children.
    beside: Option<u32>,
    // Opened once for each process: a page stays mapped until the calling process ends.
    pages: HashMap<u32, StatusPage>,
}

impl Processes {
    /// All processes of a cgroup but this one and its children.
    pub fn without(beside: Option<u32>) -> Self {
        Self {
            beside,
            pages: HashMap::new(),
        }
    }

    /// Samples the processes that `processes_file` of a cgroup names.
    pub fn sample(&mut self, processes_file: &Path) -> (ProcessSample, LibrarySample) {
        let mut process = ProcessSample::default();
        let mut library = LibrarySample::default();
        let processes = fs::read_to_string(processes_file).unwrap_or_default();
        let numbers = processes.lines().filter_map(|line| line.parse().ok());
        let beside = self.beside;
        for number in numbers.filter(|number| !is_of(*number, beside)) {
            process.add(number);
            if let Some(snapshot) = self.snapshot(number) {
                library.add(&snapshot);
            }
        }
        (process, library)
    }

    fn snapshot(&mut self, pid: u32) -> Option<Snapshot> {
        let page = match self.pages.entry(pid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(StatusPage::open(pid).ok()?),
        };
        page.snapshot().ok()
    }
}

/// Whether a process is this one or its child.
fn is_of(pid: u32, other: Option<u32>) -> bool {
    other.is_some() && (other == Some(pid) || process::parent(pid) == other)
}

impl ProcessSample {
    fn add(&mut self, pid: u32) {
        let usage = process::usage(pid).unwrap_or_default();
        self.anonymous_bytes += usage.anonymous_bytes;
        self.threads += usage.threads;
        self.descriptors += process::descriptors(pid) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process_group};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::process::CommandExt;

    #[test]
    fn this_process_is_looked_at() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{}", std::process::id()).unwrap();
        let (process, library) = Processes::without(None).sample(file.path());
        assert!(process.anonymous_bytes > 1 << 16, "{process:?}");
        assert!(
            process.threads >= 1 && process.descriptors >= 4,
            "{process:?}"
        );
        assert_eq!(library, LibrarySample::default(), "it is not in this one");
    }

    #[test]
    fn what_runs_beside_the_database_is_not_of_it() {
        // A shell that stays, and its child.
        let mut beside = std::process::Command::new("/bin/sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut child = String::new();
        let mut output = BufReader::new(beside.stdout.take().unwrap());
        output.read_line(&mut child).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "{}\n{child}", beside.id()).unwrap();
        let threads = |but| Processes::without(but).sample(file.path()).0.threads;
        assert_eq!(threads(None), 2);
        assert_eq!(threads(Some(beside.id())), 0);
        assert_eq!(threads(child.trim().parse().ok()), 1);
        let group = Pid::from_child(&beside);
        kill_process_group(group, Signal::KILL).unwrap();
        beside.wait().unwrap();
    }

    #[test]
    fn delays_are_bounds_of_their_classes() {
        assert_eq!(duration_ms(&[0; 7], 500), 0.0);
        assert_eq!(duration_ms(&[10, 0, 0, 0, 0, 0, 0], 990), 1.0);
        assert_eq!(duration_ms(&[50, 49, 0, 1, 0, 0, 0], 500), 1.0);
        assert_eq!(duration_ms(&[50, 49, 0, 1, 0, 0, 0], 990), 4.0);
        assert_eq!(duration_ms(&[50, 48, 0, 2, 0, 0, 0], 990), 64.0);
        assert_eq!(duration_ms(&[0, 0, 0, 0, 0, 0, 3], 500), 4096.0);
    }

    #[test]
    fn only_what_came_between_counts() {
        let before = LibrarySample {
            pacing_ns: 1_000_000,
            handover_ns: 7_000_000,
            handovers: [5, 0, 1, 0, 0, 0, 0],
            ..LibrarySample::default()
        };
        let after = LibrarySample {
            memory_bytes: 3 << 20,
            pacing_ns: 5_000_000,
            evicted_bytes: 8 << 20,
            index_bytes: 4 << 20,
            ranges_warmed: 50,
            ranges_hit: 40,
            handover_ns: 13_000_000,
            handovers: [5, 2, 1, 0, 0, 0, 0],
            ..LibrarySample::default()
        };
        let held = |anonymous_mib: u64| ProcessSample {
            anonymous_bytes: anonymous_mib << 20,
            threads: 9,
            descriptors: 30,
        };
        let rates = ProcessRates::between((&held(12), &before), (&held(10), &after), 2.0);
        assert_eq!(rates.anonymous_growth_mib, -2.0);
        assert_eq!((rates.threads, rates.descriptors), (9.0, 30.0));
        assert_eq!((rates.library_mib, rates.pacing_ms_per_second), (3.0, 2.0));
        assert_eq!(rates.evicted_mib_per_second, 4.0);
        assert_eq!(rates.handover_index_mib_per_second, 2.0);
        assert_eq!(rates.handover_hit_percent, 80.0);
        assert_eq!((rates.handovers, rates.handover_mean_ms), (2.0, 3.0));
        assert_eq!((rates.handover_p50_ms, rates.handover_p99_ms), (4.0, 4.0));
    }
}
