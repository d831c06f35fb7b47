//! Header, switches and counters as plain values, and their JSON for programs.
//!
//! [`crate::summary`] makes the line for a log of them.

use coldstream_policy::Priorities;
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use crate::counter::{Counter, CounterKind};
use crate::declined::{self, DeclinedDirectory};
use crate::mechanism::{Mechanism, Switches};
use crate::page::{Header, PageError, PageView};
use crate::phase::{Phase, PhaseReads};
use crate::tax::DeviceReadTax;

/// The values of a page at about one moment. Shown with `{}` it is one line: `1.2 GiB were read and 5 MiB
/// written around the page cache. bytes_direct=1.2GiB …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The process and its settings.
    pub header: Header,
    /// The mechanisms of the process, and those that are off.
    pub switches: Switches,
    pub(crate) counters: [u64; Counter::COUNT],
    /// So many of these does the process's library have, the first ones.
    pub(crate) counters_known: usize,
    pub(crate) declined: [Option<DeclinedDirectory>; declined::ENTRIES],
    pub(crate) phases: [PhaseReads; Phase::ALL.len()],
}

impl Snapshot {
    /// The value of a counter, 0 if the process's library does not have it.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters
            .get(counter as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Whether the process's library has a counter. An older one lacks those that are new.
    #[must_use]
    pub fn has(&self, counter: Counter) -> bool {
        (counter as usize) < self.counters_known
    }

    /// All counters of the process's library with their values, in the order of the page.
    pub fn counters(&self) -> impl Iterator<Item = (Counter, u64)> {
        let all = Counter::ALL.into_iter().zip(self.counters);
        all.take(self.counters_known)
    }

    /// What happened since an earlier snapshot of the same process: sums are differences. Present and largest
    /// values, header and switches stay.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        for (counter, value) in Counter::ALL.into_iter().zip(&mut difference.counters) {
            if counter.kind() == CounterKind::Total {
                // Figures of a forged page may fall.
                *value = value.saturating_sub(earlier.get(counter));
            }
        }
        for (reads, earlier) in difference.phases.iter_mut().zip(&earlier.phases) {
            *reads = reads.since(earlier);
        }
        difference
    }

    /// The reason and the number of each fallback that happened.
    pub fn fallbacks(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters()
            .filter(|&(_, value)| value != 0)
            .filter_map(|(counter, value)| Some((counter.fallback_reason()?, value)))
    }

    /// Directories whose SSTables got no handover, with the reason.
    pub fn declined(&self) -> impl Iterator<Item = &DeclinedDirectory> {
        self.declined.iter().flatten()
    }

    /// The priorities of background threads, also while priority is off; `None` if the page has no valid
    /// ones.
    #[must_use]
    pub fn priorities(&self) -> Option<Priorities> {
        Priorities::from_bits(self.switches.priorities_bits)
    }

    /// Threads whose nice value was left alone since the start, because the process could not restore it; 0 while none is
    /// wanted. The counter counts each thread once, and never falls.
    #[must_use]
    pub fn nice_refused_threads(&self) -> u64 {
        let is_off = self.switches.off.contains(Mechanism::Priority);
        let wanted = self.priorities().filter(|_| !is_off);
        match wanted.is_some_and(|it| it.has_nice()) {
            true => self.get(Counter::PriorityRefused),
            false => 0,
        }
    }

    /// Fallbacks and failures that happened, with their numbers. A refused nice value is none any more where none can be
    /// refused now.
    pub fn irregularities(&self) -> impl Iterator<Item = (Counter, u64)> {
        let has_refused = self.nice_refused_threads() != 0;
        self.counters()
            .filter(|(counter, value)| *value != 0 && counter.is_irregular())
            .filter(move |(counter, _)| *counter != Counter::PriorityRefused || has_refused)
    }

    /// The number of the foreground's device reads that were timed.
    #[must_use]
    pub fn device_reads(&self) -> u64 {
        let reads = Counter::DEVICE_READS.map(|counter| self.get(counter));
        reads.into_iter().fold(0, u64::saturating_add)
    }

    /// An upper bound of a percentile of the foreground's device reads, in nanoseconds. `per_mille` is the
    /// percentile times ten: 990 is p99.
    ///
    /// The bound is less than twice the true value; less than four times in the fastest class (16 to
    /// 64 µs). `None` without reads, and if the percentile lies in the last class, which has no bound.
    #[must_use]
    pub fn device_reads_below_ns(&self, per_mille: u64) -> Option<u64> {
        let wanted = u128::from(self.device_reads()) * u128::from(per_mille.min(1000));
        let mut reads = 0_u128;
        let mut below_ns = Counter::DEVICE_READ_NS;
        let (_, limited) = Counter::DEVICE_READS.split_last()?;
        for counter in limited {
            reads += u128::from(self.get(*counter)) * 1000;
            if reads > 0 && reads >= wanted {
                return Some(below_ns);
            }
            below_ns *= 2;
        }
        None
    }

    /// The sampled foreground reads of a phase.
    #[must_use]
    pub fn phase_reads(&self, phase: Phase) -> &PhaseReads {
        let [compaction, rest] = &self.phases;
        match phase {
            Phase::Compaction => compaction,
            Phase::Rest => rest,
        }
    }

    /// The sampled foreground reads of all phases together.
    #[must_use]
    pub fn all_reads(&self) -> PhaseReads {
        let [compaction, rest] = &self.phases;
        compaction.plus(rest)
    }

    /// How much slower the foreground's device reads are while compactions run.
    #[must_use]
    pub fn device_read_tax(&self) -> DeviceReadTax {
        let [compaction, rest] = &self.phases;
        DeviceReadTax::of(compaction, rest)
    }

    /// The percentage of windows that a background thread had to wait for.
    #[must_use]
    pub fn windows_waited_percent(&self) -> u64 {
        let read = u128::from(self.get(Counter::WindowsRead));
        let waited = u128::from(self.get(Counter::WindowsWaited));
        let percent = (waited * 100).checked_div(read).unwrap_or_default();
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}

impl PageView<'_> {
    /// Header, switches and counters at about one moment. The counters are read one after another while
    /// the process goes on.
    ///
    /// # Errors
    ///
    /// As [`PageView::header`].
    pub fn snapshot(&self) -> Result<Snapshot, PageError> {
        let header = self.header()?;
        let switches = self.switches();
        let counters = Counter::ALL.map(|counter| self.get(counter));
        Ok(Snapshot {
            header,
            switches,
            counters,
            counters_known: self.counters_known(),
            declined: self.declined(),
            phases: Phase::ALL.map(|phase| self.phase_reads(phase)),
        })
    }

    /// The snapshot of the process `pid` that started at `start_time_ticks`. A page without a time counts as its own: the
    /// process sees no `/proc`, and cannot know.
    ///
    /// # Errors
    ///
    /// [`PageError::Stale`] if the page belongs to another process, else as [`PageView::header`].
    pub fn snapshot_of(&self, pid: u32, start_time_ticks: u64) -> Result<Snapshot, PageError> {
        let snapshot = self.snapshot()?;
        let header = &snapshot.header;
        if header.pid == pid && [0, start_time_ticks].contains(&header.start_time_ticks) {
            Ok(snapshot)
        } else {
            Err(PageError::Stale { pid: header.pid })
        }
    }
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let header = &self.header;
        let mut page = serializer.serialize_struct("Snapshot", 17)?;
        page.serialize_field("pid", &header.pid)?;
        page.serialize_field("start_time_ticks", &header.start_time_ticks)?;
        page.serialize_field("profile", header.profile.name())?;
        page.serialize_field("configured_io_mode", header.configured.name())?;
        let in_force = header.in_force.map(|io_mode| io_mode.name());
        page.serialize_field("io_mode_in_force", &in_force)?;
        // The former names of these two, for one version.
        page.serialize_field("configured_treatment", header.configured.name())?;
        page.serialize_field("treatment_in_force", &in_force)?;
        page.serialize_field("window_bytes", &header.window_bytes)?;
        page.serialize_field("windows_in_flight", &header.windows_in_flight)?;
        page.serialize_field("memory_bytes", &header.memory_bytes)?;
        page.serialize_field("switches", &OnOrOff(self.switches))?;
        let priorities = self.priorities();
        let nice = priorities.map(|priorities| priorities.nice_text());
        page.serialize_field("nice", &nice)?;
        let io = priorities.map(|priorities| priorities.io_text());
        page.serialize_field("io_priority", &io)?;
        page.serialize_field("foreground_device_reads", &DeviceReads::of(self))?;
        page.serialize_field("device_read_tax", &self.device_read_tax())?;
        page.serialize_field("handover_declined_in", &Declined(self))?;
        page.serialize_field("counters", &Counters(self))?;
        page.end()
    }
}

/// `"reads": true, …`
struct OnOrOff(Switches);

impl Serialize for OnOrOff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0
                .iter()
                .map(|(mechanism, is_on)| (mechanism.name(), is_on)),
        )
    }
}

/// Latencies of the foreground's device reads.
#[derive(serde::Serialize)]
struct DeviceReads {
    timed: u64,
    p50_below_ns: Option<u64>,
    p99_below_ns: Option<u64>,
}

impl DeviceReads {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            timed: snapshot.device_reads(),
            p50_below_ns: snapshot.device_reads_below_ns(500),
            p99_below_ns: snapshot.device_reads_below_ns(990),
        }
    }
}

/// `[{ "directory": …, "reason": … }]`
struct Declined<'a>(&'a Snapshot);

impl Serialize for Declined<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Entry {
            directory: String,
            reason: String,
        }
        serializer.collect_seq(self.0.declined().map(|declined| Entry {
            directory: declined.directory(),
            reason: declined.reason(),
        }))
    }
}

struct Counters<'a>(&'a Snapshot);

impl Serialize for Counters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (counter, value) in self.0.counters() {
            map.serialize_entry(counter.name(), &value)?;
            if let Some(former) = counter.former_name() {
                map.serialize_entry(former, &value)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::mechanism::Mechanisms;
    use coldstream_policy::{IoMode, IoModeSetting, Profile};

    pub(crate) fn snapshot(values: &[(Counter, u64)]) -> Snapshot {
        let mut counters = [0; Counter::COUNT];
        for &(counter, value) in values {
            counters[counter as usize] = value;
        }
        let header = Header {
            pid: 7,
            start_time_ticks: 8,
            profile: Profile::RocksDb,
            configured: IoModeSetting::Auto,
            in_force: Some(IoMode::Direct),
            window_bytes: 1 << 20,
            windows_in_flight: 1,
            memory_bytes: 64 << 20,
        };
        let switches = Switches {
            mechanisms: Mechanisms::of(&[Mechanism::Reads, Mechanism::Writes]),
            off: Mechanisms::of(&[Mechanism::Writes]),
            priorities_bits: Priorities::default().to_bits(),
        };
        Snapshot {
            header,
            switches,
            counters,
            counters_known: Counter::COUNT,
            declined: [None; declined::ENTRIES],
            phases: Default::default(),
        }
    }

    #[test]
    fn a_refused_nice_value_is_a_problem_while_one_is_wanted() {
        let with = |nice: &str, off: &[Mechanism]| {
            let mut snapshot = snapshot(&[(Counter::PriorityRefused, 3)]);
            let priorities = Priorities::default().with_nice(nice).unwrap();
            snapshot.switches.priorities_bits = priorities.to_bits();
            snapshot.switches.off = Mechanisms::of(off);
            let problems = snapshot.irregularities().collect::<Vec<_>>();
            assert_eq!(snapshot.get(Counter::PriorityRefused), 3);
            (snapshot.nice_refused_threads(), problems.len())
        };
        assert_eq!(with("10", &[]), (3, 1));
        assert_eq!(with("none,flush:5", &[]), (3, 1));
        assert_eq!(with("0", &[]), (0, 0));
        assert_eq!(with("none", &[]), (0, 0));
        assert_eq!(with("10", &[Mechanism::Priority]), (0, 0));
    }

    #[test]
    fn latencies_of_the_foreground() {
        let some = snapshot(&[
            (Counter::ForegroundDeviceReads128Us, 60),
            (Counter::ForegroundDeviceReads256Us, 39),
            (Counter::ForegroundDeviceReads8Ms, 1),
        ]);
        assert_eq!(some.device_reads(), 100);
        assert_eq!(some.device_reads_below_ns(500), Some(128_000));
        assert_eq!(some.device_reads_below_ns(990), Some(256_000));
        assert_eq!(some.device_reads_below_ns(991), Some(8_192_000));
        let json = serde_json::to_value(&some).unwrap();
        assert_eq!(
            json["foreground_device_reads"],
            serde_json::json!({ "timed": 100, "p50_below_ns": 128_000, "p99_below_ns": 256_000 })
        );
        assert_eq!(snapshot(&[]).device_reads_below_ns(500), None);
        let forged = Counter::DEVICE_READS.map(|counter| (counter, u64::MAX));
        let forged = snapshot(&forged);
        assert_eq!(forged.device_reads(), u64::MAX);
        assert_eq!(forged.device_reads_below_ns(500), Some(64_000));
        let slow = snapshot(&[(Counter::ForegroundDeviceReadsLonger, 7)]);
        assert_eq!(slow.device_reads_below_ns(500), None);
    }

    #[test]
    fn sums_are_differences_and_present_values_stay() {
        let values = |sum, gauge| {
            snapshot(&[
                (Counter::BytesDirect, sum),
                (Counter::PacingDebtBytes, gauge),
            ])
        };
        let since = values(7, 3).since(&values(5, 9));
        assert_eq!(since.get(Counter::BytesDirect), 2);
        assert_eq!(since.get(Counter::PacingDebtBytes), 3);
        assert_eq!(
            values(1, 0).since(&values(2, 0)).get(Counter::BytesDirect),
            0
        );
    }

    /// The program was upgraded, and the database still runs with the library of before.
    #[test]
    fn what_the_library_does_not_count_is_left_out() {
        let mut older = snapshot(&[(Counter::BytesDirect, 5)]);
        older.counters_known = Counter::COUNT - 1;
        let last = Counter::ALL[Counter::COUNT - 1];
        assert!(older.counters().all(|(counter, _)| counter != last));
        assert!(!older.has(last) && older.get(last) == 0);
        let json = serde_json::to_value(&older).unwrap();
        assert_eq!(json["counters"]["bytes_direct"], 5);
        assert_eq!(json["counters"].get(last.name()), None);
    }

    #[test]
    fn forged_counters_do_not_overflow() {
        let forged = snapshot(&[
            (Counter::WindowsRead, 1),
            (Counter::WindowsWaited, u64::MAX),
        ]);
        assert_eq!(forged.windows_waited_percent(), u64::MAX);
    }

    #[test]
    fn json_has_names() {
        let json =
            serde_json::to_value(snapshot(&[(Counter::BytesDirect, 5), (Counter::Drains, 3)]))
                .unwrap();
        assert_eq!(json["pid"], 7);
        assert_eq!(json["profile"], "rocksdb");
        assert_eq!(json["configured_io_mode"], "auto");
        assert_eq!(json["io_mode_in_force"], "direct");
        assert_eq!(json["configured_treatment"], "auto");
        assert_eq!(json["treatment_in_force"], "direct");
        assert_eq!(
            json["switches"],
            serde_json::json!({ "reads": true, "writes": false })
        );
        assert_eq!(
            json["nice"],
            "compaction:10,flush:none,validation:10,streaming:10"
        );
        assert_eq!(json["counters"]["bytes_direct"], 5);
        let former = Counter::ALL.iter().filter_map(|it| it.former_name());
        assert_eq!(
            json["counters"].as_object().unwrap().len(),
            Counter::COUNT + former.count()
        );
        assert_eq!(json["counters"]["drains"], 3);
        assert_eq!(json["counters"]["settled"], 3);
    }
}
