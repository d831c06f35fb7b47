//! What the database's own processes hold, and what Coldstream's library in them says about
//! itself on its status page.

use crate::sampler::mib;
use coldstream_control::{Counter, PageView, PidNamespace, Snapshot, page_path, start_time_ticks};
use coldstream_io::shared::SharedPage;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What the processes hold at one moment, all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessSample {
    /// Memory of no file, bytes: heaps, stacks, buffers.
    pub anonymous_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// What the library has counted up to one moment; all 0 without it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LibrarySample {
    /// Processes that have a status page.
    pub pages: u64,
    /// What it holds itself: windows, and what it takes of the process's heap; bytes.
    pub memory_bytes: u64,
    /// What pacing holds background I/O to, bytes a second; 0 is nothing.
    pub pacing_bytes_per_second: u64,
    /// How long background threads have waited for pacing, ns.
    pub pacing_ns: u64,
    /// Bytes of cold pages that were dropped.
    pub evicted_bytes: u64,
    /// Processor time that finding them took, ns.
    pub evicting_ns: u64,
    /// Pages that were warmed.
    pub warmed_pages: u64,
    /// Bytes that were read to find out which.
    pub index_bytes: u64,
    /// Places that were warmed, and those of them that the foreground has read since.
    pub places_warmed: u64,
    /// See above.
    pub places_hit: u64,
    /// How long handovers have held their threads up, ns.
    pub handover_ns: u64,
    /// Handovers by how long each took: [`Counter::HANDOVER_DELAYS`].
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
        self.places_warmed += get(Counter::HandoverRangesWarmed);
        self.places_hit += get(Counter::HandoverRangesHit);
        self.handover_ns += get(Counter::HandoverNanoseconds);
        for (handovers, counter) in self.handovers.iter_mut().zip(Counter::HANDOVER_DELAYS) {
            *handovers += get(counter);
        }
    }
}

/// What became of both between two moments, and what is at the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ProcessRates {
    /// Memory of no file at the end, MiB.
    pub anonymous_mib: f64,
    /// What it grew by, MiB.
    pub anonymous_growth_mib: f64,
    /// Threads at the end.
    pub threads: f64,
    /// Open descriptors at the end.
    pub descriptors: f64,
    /// What the library holds itself at the end, windows and heap, MiB.
    pub library_mib: f64,
    /// What pacing holds background I/O to at the end, MiB a second; 0 is nothing.
    pub pacing_mib_per_second: f64,
    /// How long background threads waited for pacing, ms a second, of all of them together.
    pub pacing_ms_per_second: f64,
    /// MiB a second of cold pages that were dropped.
    pub evicted_mib_per_second: f64,
    /// Share of a processor that finding them took, %.
    pub evicting_percent: f64,
    /// Pages warmed a second.
    pub warmed_pages_per_second: f64,
    /// MiB a second that were read to find out which.
    pub handover_index_mib_per_second: f64,
    /// Of all places that were ever warmed, those that the foreground had read by the end, %.
    pub handover_hit_percent: f64,
    /// Handovers.
    pub handovers: f64,
    /// How long one held its thread up, ms: the mean.
    pub handover_mean_ms: f64,
    /// What half of them took at most, ms.
    pub handover_p50_ms: f64,
    /// What 99 in 100 of them took at most, ms.
    pub handover_p99_ms: f64,
}

impl ProcessRates {
    /// From `before` to `after`, so many seconds later.
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
            handover_hit_percent: 100.0 * library.places_hit as f64
                / f64::max(library.places_warmed as f64, 1.0),
            handovers: count as f64,
            handover_mean_ms: handover_ms / f64::max(count as f64, 1.0),
            handover_p50_ms: at_most_ms(&handovers, 500),
            handover_p99_ms: at_most_ms(&handovers, 990),
        }
    }
}

/// What so many in a thousand handovers took at most, ms: the upper bound of the last one's class.
fn at_most_ms(handovers: &[u64], per_mille: u64) -> f64 {
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

/// The processes of a cgroup.
#[derive(Debug, Default)]
pub struct Processes {
    // Mapped once: a page stays mapped until this process ends.
    pages: HashMap<u32, SharedPage>,
}

impl Processes {
    /// What is to be known of the processes that `processes_file`, a cgroup's, names.
    pub fn sample(&mut self, processes_file: &Path) -> (ProcessSample, LibrarySample) {
        let mut process = ProcessSample::default();
        let mut library = LibrarySample::default();
        let processes = fs::read_to_string(processes_file).unwrap_or_default();
        for number in processes.lines().filter_map(|line| line.parse().ok()) {
            process.add(number);
            if let Some(snapshot) = self.snapshot(number) {
                library.add(&snapshot);
            }
        }
        (process, library)
    }

    fn snapshot(&mut self, process: u32) -> Option<Snapshot> {
        let page = match self.pages.get(&process) {
            Some(page) => *page,
            None => {
                let user = rustix::process::geteuid().as_raw();
                let path = page_path(user, process, PidNamespace::own());
                let path = CString::new(path.as_os_str().as_bytes()).ok()?;
                let page = SharedPage::open(&path).ok()?;
                self.pages.insert(process, page);
                page
            }
        };
        let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
        let view = PageView::new(page.words()).ok()?;
        view.snapshot_of(process, start_time_ticks(&stat)?).ok()
    }
}

impl ProcessSample {
    fn add(&mut self, process: u32) {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        self.anonymous_bytes += value("RssAnon:").unwrap_or(0) << 10;
        self.threads += value("Threads:").unwrap_or(0);
        let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
        self.descriptors += descriptors.map_or(0, |entries| entries.count() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn this_process_is_looked_at() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{}", std::process::id()).unwrap();
        let (process, library) = Processes::default().sample(file.path());
        assert!(process.anonymous_bytes > 1 << 16, "{process:?}");
        assert!(
            process.threads >= 1 && process.descriptors >= 4,
            "{process:?}"
        );
        assert_eq!(library, LibrarySample::default(), "it is not in this one");
    }

    #[test]
    fn delays_are_bounds_of_their_classes() {
        assert_eq!(at_most_ms(&[0; 7], 500), 0.0);
        assert_eq!(at_most_ms(&[10, 0, 0, 0, 0, 0, 0], 990), 1.0);
        assert_eq!(at_most_ms(&[50, 49, 0, 1, 0, 0, 0], 500), 1.0);
        assert_eq!(at_most_ms(&[50, 49, 0, 1, 0, 0, 0], 990), 4.0);
        assert_eq!(at_most_ms(&[50, 48, 0, 2, 0, 0, 0], 990), 64.0);
        assert_eq!(at_most_ms(&[0, 0, 0, 0, 0, 0, 3], 500), 4096.0);
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
            places_warmed: 50,
            places_hit: 40,
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
