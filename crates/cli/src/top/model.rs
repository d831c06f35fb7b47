//! What `top` knows of a machine between two looks: figures only, no screen. `--json`, `--record` and the view have
//! all of it from here.

use coldstream_control::{Counter, DeviceReadTax, Mechanism, Snapshot};
use coldstream_host::cgroup::MemoryUse;
use coldstream_host::survey::Surveyed;
use serde::{Deserialize, Serialize};

use super::look::Look;
use crate::ctl::values::changes_no_priority;

/// All processes, over the time between two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The later look, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The time between the two looks.
    pub seconds: f64,
    /// The part of this time in which some thread of the machine waited for memory; none without PSI.
    pub memory_stall_percent: Option<f64>,
    /// The processes, in ascending order of their ids.
    pub processes: Vec<Process>,
    /// Status pages that could not be read, with the reason.
    pub unreadable: Vec<String>,
}

/// One process. Rates are those between the two looks; sums are those since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its id, as the caller sees it.
    pub pid: u32,
    /// Its effective user.
    pub user: Option<u32>,
    /// Its short name.
    pub program: String,
    /// The engine whose threads and files are recognised.
    pub profile: String,
    /// The I/O mode of background reads in force, or the configured one before the first SSTable.
    pub reads: String,
    /// Whether `coldstream attach` works for it, from outside.
    #[serde(default)]
    pub is_attached: bool,
    /// What it has, and whether it is on.
    pub mechanisms: Vec<Switch>,
    /// Reads that users wait for.
    pub foreground: Foreground,
    /// How much slower their device reads are in compaction.
    #[serde(default)]
    pub tax: Tax,
    /// Background reads by mode.
    pub background_read: Vec<Flow>,
    /// Background writes by mode.
    pub background_written: Vec<Flow>,
    /// Bytes that did not go into the page cache, or not for long, since the start.
    pub page_cache_spared_bytes: u64,
    /// What was hot in inputs and is warm in outputs.
    pub handover: Handover,
    /// Background I/O that yields.
    pub pacing: Pacing,
    /// Bytes per second that eviction dropped.
    pub eviction_bytes_per_second: f64,
    /// Background threads that yield.
    pub priority: Priority,
    /// Plain calls and failures since the start, by name.
    pub problems: Vec<Problem>,
    /// The memory of its cgroup.
    pub memory: Option<MemoryUse>,
}

/// A mechanism.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Switch {
    /// Its name.
    pub mechanism: String,
    /// Whether it is on.
    pub is_on: bool,
}

/// Foreground reads that came from the device, as far as they were timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Foreground {
    /// Timed reads per second.
    pub timed_per_second: f64,
    /// Half of them took less; none if none was timed.
    pub p50_below_ns: Option<u64>,
    /// 99 of 100 took less; none if none was timed, or if they took longer than the last class.
    pub p99_below_ns: Option<u64>,
}

/// The tax of device reads, over a longer time than that between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tax {
    /// The tax.
    pub device_reads: DeviceReadTax,
    /// The last seconds that it is about; none if it is about all the time since the process started.
    pub of_last_seconds: Option<u64>,
}

/// Bytes that took one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The way.
    pub mode: String,
    /// Bytes per second between the two looks.
    pub bytes_per_second: f64,
    /// Bytes since the start.
    pub bytes: u64,
}

/// Handovers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Handover {
    /// SSTables that got one.
    pub sstables: u64,
    /// Pages that were warmed.
    pub pages_warmed: u64,
    /// The part of what was warmed that the foreground has read since; none if nothing was warmed.
    pub hit_percent: Option<f64>,
    /// Mean time for which a publication was held up; none without a handover.
    pub delay_ms: Option<f64>,
    /// SSTables whose handover is incomplete, or was put off.
    pub incomplete: u64,
}

/// Pacing now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pacing {
    /// The limit of background I/O; none if there is none now.
    pub limit_bytes_per_second: Option<u64>,
    /// Bytes that compactions are behind flushes.
    pub debt_bytes: u64,
    /// Time that background threads waited, per second; all threads together.
    pub waited_per_second: f64,
}

/// Priorities of background threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Priority {
    /// Times that they got their former priorities back, since the start.
    pub releases: u64,
    /// Whether none is changed (`--priority off`).
    #[serde(default)]
    pub changes_none: bool,
    /// Processor time per second; all threads together.
    pub run_per_second: f64,
    /// Time per second in which they waited for a processor; all threads together.
    pub wait_per_second: f64,
}

/// A counter that should be zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Its name.
    pub counter: String,
    /// Its value since the start.
    pub count: u64,
}

impl Model {
    /// What happened between two looks. A process that was not there at the first has rates of zero.
    pub fn between(earlier: &Look, later: &Look) -> Self {
        let seconds = later.at.saturating_duration_since(earlier.at).as_secs_f64();
        let stall = earlier.memory_stall_us.zip(later.memory_stall_us);
        let processes = later.survey.processes.iter().map(|surveyed| {
            let mut former = earlier.survey.processes.iter();
            let former = former.find(|former| is_same(former, surveyed));
            let former = former.map_or(&surveyed.snapshot, |former| &former.snapshot);
            let memory = later.memory.get(&surveyed.pid).copied();
            Process::between(surveyed, former, memory, seconds)
        });
        Self {
            unix_ms: later.unix_ms,
            seconds,
            memory_stall_percent: stall.map(|(before, after)| {
                let stalled = after.saturating_sub(before) as f64 / 1e6;
                100.0 * rate(stalled, seconds)
            }),
            processes: processes.collect(),
            unreadable: later.survey.unreadable.clone(),
        }
    }
}

/// Whether both are one process: ids are given out again.
fn is_same(one: &Surveyed, other: &Surveyed) -> bool {
    let start = |surveyed: &Surveyed| surveyed.snapshot.header.start_time_ticks;
    one.pid == other.pid && start(one) == start(other)
}

fn rate(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

impl Process {
    fn between(
        surveyed: &Surveyed,
        former: &Snapshot,
        memory: Option<MemoryUse>,
        seconds: f64,
    ) -> Self {
        let now = &surveyed.snapshot;
        let since = now.since(former);
        let per_second = |counter| rate(since.get(counter) as f64, seconds);
        let seconds_per_second = |counter| per_second(counter) / 1e9;
        let flows = |modes: &[(Counter, &str)]| {
            let flows = modes.iter().map(|&(counter, mode)| Flow {
                mode: mode.to_owned(),
                bytes_per_second: per_second(counter),
                bytes: now.get(counter),
            });
            flows.collect()
        };
        let header = &now.header;
        let configured = header.configured.name();
        let spared = now.read_around_cache_bytes();
        Self {
            pid: surveyed.pid,
            user: surveyed.user,
            program: surveyed.program.clone(),
            profile: header.profile.name().to_owned(),
            reads: header
                .in_force
                .map_or(configured, |io_mode| io_mode.name())
                .to_owned(),
            is_attached: surveyed.keeper.is_some(),
            mechanisms: switches(now),
            foreground: Foreground {
                timed_per_second: rate(since.device_reads() as f64, seconds),
                p50_below_ns: since.device_reads_below_ns(500),
                p99_below_ns: since.device_reads_below_ns(990),
            },
            tax: Tax {
                device_reads: now.device_read_tax(),
                of_last_seconds: None,
            },
            background_read: flows(&Counter::READ_MODES),
            background_written: flows(&Counter::WRITE_MODES),
            page_cache_spared_bytes: spared.saturating_add(now.written_around_cache_bytes()),
            handover: handover(now),
            pacing: Pacing {
                limit_bytes_per_second: Some(now.get(Counter::PacingBytesPerSecond))
                    .filter(|limit| *limit > 0),
                debt_bytes: now.get(Counter::PacingDebtBytes),
                waited_per_second: seconds_per_second(Counter::PacingNanoseconds),
            },
            eviction_bytes_per_second: per_second(Counter::EvictionBytes),
            priority: Priority {
                releases: now.get(Counter::PriorityReleases),
                changes_none: changes_no_priority(now),
                run_per_second: seconds_per_second(Counter::BackgroundRunNanoseconds),
                wait_per_second: seconds_per_second(Counter::BackgroundWaitNanoseconds),
            },
            problems: problems(now),
            memory,
        }
    }

    /// Bytes per second of all modes together.
    pub fn read_per_second(&self) -> f64 {
        total(&self.background_read)
    }

    /// Bytes per second of all modes together.
    pub fn written_per_second(&self) -> f64 {
        total(&self.background_written)
    }

    /// The names of the mechanisms that are off.
    pub fn off(&self) -> Vec<&str> {
        let off = self.mechanisms.iter().filter(|switch| !switch.is_on);
        off.map(|switch| switch.mechanism.as_str()).collect()
    }
}

fn total(flows: &[Flow]) -> f64 {
    // The sum of no numbers would be -0.0.
    let flows = flows.iter();
    flows.fold(0.0, |sum, flow| sum + flow.bytes_per_second)
}

fn switches(snapshot: &Snapshot) -> Vec<Switch> {
    let switches = snapshot.switches.iter().map(|(mechanism, is_on)| Switch {
        mechanism: Mechanism::name(mechanism).to_owned(),
        is_on,
    });
    switches.collect()
}

fn handover(snapshot: &Snapshot) -> Handover {
    let sstables = snapshot.get(Counter::HandoverSsTables);
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let incomplete = Counter::HANDOVERS_INCOMPLETE.map(|(counter, _)| snapshot.get(counter));
    Handover {
        sstables,
        pages_warmed: snapshot.get(Counter::HandoverPagesWarmed),
        hit_percent: share(
            snapshot.get(Counter::HandoverRangesHit),
            snapshot.get(Counter::HandoverRangesWarmed),
        )
        .map(|hit| 100.0 * hit),
        delay_ms: share(snapshot.get(Counter::HandoverNanoseconds), sstables).map(|ns| ns / 1e6),
        incomplete: incomplete.into_iter().fold(0, u64::saturating_add),
    }
}

fn problems(snapshot: &Snapshot) -> Vec<Problem> {
    let counters = snapshot.irregularities();
    let counters = counters.filter(|(counter, _)| counter.is_problem());
    let problems = counters.map(|(counter, count)| Problem {
        counter: counter.name().to_owned(),
        count,
    });
    problems.collect()
}

#[cfg(test)]
pub mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

    use coldstream_control::{Header, PAGE_WORDS, PageView, Phase, Switches};
    use coldstream_host::survey::Survey;
    use coldstream_policy::{IoModeSetting, Priorities, Profile};

    use super::*;

    /// A process with these counters.
    pub fn surveyed(pid: u32, start_time_ticks: u64, values: &[(Counter, u64)]) -> Surveyed {
        surveyed_page(pid, start_time_ticks, |page| {
            for &(counter, value) in values {
                page.set(counter, value);
            }
        })
    }

    fn surveyed_page(
        pid: u32,
        start_time_ticks: u64,
        fill: impl FnOnce(&PageView<'_>),
    ) -> Surveyed {
        let words: Vec<AtomicU64> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = PageView::new(&words).unwrap();
        page.initialise(&Header {
            pid,
            start_time_ticks,
            profile: Profile::RocksDb,
            configured: IoModeSetting::Auto,
            in_force: None,
            window_bytes: 1 << 20,
            windows_in_flight: 1,
            memory_bytes: 64 << 20,
        });
        fill(&page);
        Surveyed {
            pid,
            user: Some(0),
            program: "driver".to_owned(),
            snapshot: page.snapshot().unwrap(),
            keeper: None,
        }
    }

    /// A process with these counters and switches.
    pub fn surveyed_with_switches(
        pid: u32,
        values: &[(Counter, u64)],
        switches: &Switches,
    ) -> Surveyed {
        surveyed_page(pid, 1, |page| {
            for &(counter, value) in values {
                page.set(counter, value);
            }
            page.put_switches(switches);
        })
    }

    /// A process with this many device reads, in compaction and at rest.
    pub fn surveyed_with_reads(pid: u32, device_reads: [u64; 2]) -> Surveyed {
        surveyed_page(pid, 1, |page| {
            for (phase, reads) in Phase::ALL.into_iter().zip(device_reads) {
                for _ in 0..reads {
                    page.record_device_read(phase, 7);
                }
            }
        })
    }

    pub fn look(at: Instant, processes: Vec<Surveyed>) -> Look {
        Look {
            at,
            unix_ms: 0,
            survey: Survey {
                processes,
                unreadable: Vec::new(),
            },
            memory: HashMap::new(),
            memory_stall_us: Some(0),
        }
    }

    #[test]
    fn rates_are_between_the_looks_and_sums_since_the_start() {
        let start = Instant::now();
        let before = [
            (Counter::BytesDirect, 10 << 20),
            (Counter::ForegroundDeviceReadsLonger, 50),
        ];
        let after = [
            (Counter::BytesDirect, 30 << 20),
            (Counter::WriteBytesDirect, 6 << 20),
            (Counter::ForegroundDeviceReadsLonger, 50),
            (Counter::ForegroundDeviceReads128Us, 8),
            (Counter::HandoverSsTables, 2),
            (Counter::HandoverNanoseconds, 6_000_000),
            (Counter::HandoverRangesWarmed, 4),
            (Counter::HandoverRangesHit, 3),
            (Counter::FallbackFilesystem, 1),
        ];
        let earlier = look(start, vec![surveyed(7, 1, &before)]);
        let later = look(start + Duration::from_secs(2), vec![surveyed(7, 1, &after)]);
        let model = Model::between(&earlier, &later);
        let [process] = model.processes.as_slice() else {
            panic!("{model:?}");
        };
        assert_eq!(process.read_per_second(), f64::from(10 << 20));
        assert_eq!(process.page_cache_spared_bytes, 36 << 20);
        assert_eq!(process.foreground.timed_per_second, 4.0);
        assert_eq!(process.foreground.p99_below_ns, Some(128_000));
        assert_eq!(process.handover.hit_percent, Some(75.0));
        assert_eq!(process.handover.delay_ms, Some(3.0));
        assert_eq!(process.problems.len(), 1);
        let json = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<Model>(&json).unwrap(), model);
    }

    #[test]
    fn a_nice_value_that_was_refused_is_no_problem_once_none_is_wanted() {
        let problems_with = |nice: &str| {
            let priorities = Priorities::default().with_nice(nice).unwrap();
            let surveyed = surveyed_page(7, 1, |page| {
                page.set(Counter::PriorityRefused, 3);
                page.put_switches(&Switches {
                    priorities_bits: priorities.to_bits(),
                    ..page.switches()
                });
            });
            problems(&surveyed.snapshot)
        };
        assert_eq!(problems_with("10").len(), 1);
        assert_eq!(problems_with("0"), []);
    }

    #[test]
    fn a_step_of_the_clock_changes_no_rate() {
        let start = Instant::now();
        let mut earlier = look(start, vec![surveyed(7, 1, &[])]);
        earlier.unix_ms = 9_000_000;
        let values = [(Counter::BytesDirect, 4 << 20)];
        let mut later = look(
            start + Duration::from_secs(2),
            vec![surveyed(7, 1, &values)],
        );
        later.unix_ms = 1_000;
        let model = Model::between(&earlier, &later);
        assert_eq!(model.seconds, 2.0);
        assert_eq!(model.processes[0].read_per_second(), f64::from(2 << 20));
    }

    #[test]
    fn a_new_process_with_an_old_id_has_no_rates_yet() {
        let start = Instant::now();
        let values = [(Counter::BytesDirect, 1 << 30)];
        let earlier = look(start, vec![surveyed(7, 1, &[])]);
        let later = look(
            start + Duration::from_secs(1),
            vec![surveyed(7, 2, &values)],
        );
        let model = Model::between(&earlier, &later);
        assert_eq!(model.processes[0].read_per_second(), 0.0);
        let model = Model::between(&later, &later);
        assert_eq!(model.processes[0].read_per_second(), 0.0);
    }
}
