//! The rows of the report's table: name, direction, explanation and where each figure comes from.
//!
//! Percentiles of different runs are never averaged or merged: a row holds the median of the runs.

use crate::phase::Phase;
use crate::run_report::{
    BacklogReport, HIT_NS_MAX, MemoryReport, PausesReport, Percentiles, PhaseReport, RunReport,
};
use crate::sampler::Rates;
use crate::summary::{Better, Row, Spread};
use crate::units::mib;
use Better::{Less, More, Neither};

/// A row whose figure comes from a `T`.
struct Source<T> {
    name: &'static str,
    better: Better,
    explanation: &'static str,
    value: fn(&T) -> f64,
}

const fn source<T>(
    name: &'static str,
    better: Better,
    explanation: &'static str,
    value: fn(&T) -> f64,
) -> Source<T> {
    Source {
        name,
        better,
        explanation,
        value,
    }
}

const SERVICE: &str = "From the start of a read to its end";
const RESPONSE: &str = "From the time at which a read was due to its end, of the reads that were due in this \
     phase: what a client of a steady load sees";

/// Name of the service time, name of the response time, figure.
type PercentileSource = (&'static str, &'static str, fn(&Percentiles) -> f64);

const PERCENTILES: [PercentileSource; 7] = [
    ("service p50 µs", "response p50 µs", |p| p.p50),
    ("service p90 µs", "response p90 µs", |p| p.p90),
    ("service p99 µs", "response p99 µs", |p| p.p99),
    ("service p99.9 µs", "response p99.9 µs", |p| p.p99_9),
    ("service p99.99 µs", "response p99.99 µs", |p| p.p99_99),
    ("service max µs", "response max µs", |p| p.max),
    ("service mean µs", "response mean µs", |p| p.mean),
];

const COUNTS: [Source<PhaseReport>; 5] = [
    source("reads/s", More, "Reads that started in this phase", |p| {
        p.reads_per_second
    }),
    source(
        "reads never started",
        Less,
        "Reads that were due in this phase, and for which no reader was free until the end",
        |p| p.unstarted_reads as f64,
    ),
    source(
        "failed reads",
        Less,
        "Reads that ended with an error; their times count like the others'",
        |p| p.failed_reads as f64,
    ),
    source(
        "failed updates",
        Less,
        "Updates that ended with an error",
        |p| p.failed_updates as f64,
    ),
    source(
        FAST_READS,
        More,
        "Reads this fast mostly come from memory: few devices answer sooner",
        |p| p.fast_reads_percent,
    ),
];

const FAST_READS: &str = "reads under 40 µs %";
const _: () = assert!(HIT_NS_MAX == 40_000, "FAST_READS names the bound");

/// What the kernel and the device count.
const KERNEL: [Source<Rates>; 17] = [
    source(
        "refaults/s",
        Less,
        "Pages that the kernel dropped and soon had to read again",
        |r| r.refaults_per_second,
    ),
    source(
        "memory stall µs/s",
        Less,
        "Time in which some thread waited for memory (pressure stall information)",
        |r| r.memory_stall_us_per_second,
    ),
    source(
        "dirty pages/s",
        Neither,
        "Pages that became dirty, in the whole system",
        |r| r.dirty_pages_per_second,
    ),
    source(
        "writeback pages/s",
        Neither,
        "Dirty pages that the kernel wrote to the device",
        |r| r.writeback_pages_per_second,
    ),
    source(
        "active file MiB",
        Neither,
        "Active list of file pages at the end of the phase",
        |r| r.active_file_mib,
    ),
    source(
        "page cache MiB",
        Neither,
        "Both lists of file pages at the end of the phase",
        |r| r.page_cache_mib,
    ),
    source(
        "inputs cached MiB",
        Neither,
        "Page cache of the SSTables that the compaction reads",
        |r| r.inputs_cached_mib,
    ),
    source(
        "outputs cached MiB",
        Neither,
        "Page cache of the SSTables that the compaction writes",
        |r| r.outputs_cached_mib,
    ),
    source(
        "device reads/s",
        Neither,
        "Read requests that the device completed",
        |r| r.device_reads_per_second,
    ),
    source(
        "device read MiB/s",
        Neither,
        "Bytes that were read from the device, by every thread",
        |r| r.device_read_mib_per_second,
    ),
    source(
        "foreground device read MiB/s",
        Less,
        "Bytes that the device had to deliver for the threads that serve reads",
        |r| r.foreground_read_mib_per_second,
    ),
    source(
        "device written MiB/s",
        Neither,
        "Bytes that were written to the device, by every thread",
        |r| r.device_written_mib_per_second,
    ),
    source(
        "device r_await ms",
        Neither,
        "Mean time of a read request, queue included",
        |r| r.read_await_ms,
    ),
    source(
        "device w_await ms",
        Neither,
        "Mean time of a write request, queue included",
        |r| r.write_await_ms,
    ),
    source(
        "device queue depth",
        Neither,
        "Mean number of requests in flight",
        |r| r.queue_depth,
    ),
    source(
        "device utilisation %",
        Neither,
        "Share of the time in which the device was busy",
        |r| r.utilisation_percent,
    ),
    source(
        "stolen by the host %",
        Neither,
        "Processor time that the host of this virtual machine gave to others",
        |r| r.stolen_percent,
    ),
];

/// What the database's processes hold, and what Coldstream's library in them counts.
const PROCESSES: [Source<Rates>; 16] = [
    source(
        "anonymous memory MiB",
        Neither,
        "Heaps, stacks and buffers of the database at the end of the phase",
        |r| r.processes.anonymous_mib,
    ),
    source(
        "anonymous memory, growth MiB",
        Neither,
        "Growth of the anonymous memory during the phase",
        |r| r.processes.anonymous_growth_mib,
    ),
    source("threads", Neither, "Threads of the database", |r| {
        r.processes.threads
    }),
    source(
        "descriptors",
        Neither,
        "Open file descriptors of the database",
        |r| r.processes.descriptors,
    ),
    source(
        "library's own memory MiB",
        Neither,
        "Coldstream's windows and its part of the heap",
        |r| r.processes.library_mib,
    ),
    source(
        "pacing, held to MiB/s",
        Neither,
        "Rate to which pacing limits background I/O; 0 means no limit",
        |r| r.processes.pacing_mib_per_second,
    ),
    source(
        "pacing, waits ms/s",
        Neither,
        "Time that all background threads together waited for pacing",
        |r| r.processes.pacing_ms_per_second,
    ),
    source(
        "eviction MiB/s",
        Neither,
        "Cold pages that eviction dropped",
        |r| r.processes.evicted_mib_per_second,
    ),
    source(
        "eviction, % of a processor",
        Less,
        "Processor time that the search for cold pages took",
        |r| r.processes.evicting_percent,
    ),
    source(
        "handover, pages warmed/s",
        Neither,
        "Hot pages of an output that were read before its publication",
        |r| r.processes.warmed_pages_per_second,
    ),
    source(
        "handover, indexes read MiB/s",
        Neither,
        "Index blocks that were read to find these pages",
        |r| r.processes.handover_index_mib_per_second,
    ),
    source(
        "handover, warm ranges read since %",
        More,
        "Share of all warmed ranges that the foreground read afterwards",
        |r| r.processes.handover_hit_percent,
    ),
    source("handovers", Neither, "Outputs that were handed over", |r| {
        r.processes.handovers
    }),
    source(
        "handover delay ms, mean",
        Neither,
        "Mean time by which a handover delayed a publication",
        |r| r.processes.handover_mean_ms,
    ),
    source(
        "handover delay ms, p50 at most",
        Neither,
        "Upper bound of the median delay",
        |r| r.processes.handover_p50_ms,
    ),
    source(
        "handover delay ms, p99 at most",
        Neither,
        "Upper bound of the 99th percentile of the delay",
        |r| r.processes.handover_p99_ms,
    ),
];

const OUTSIDE_PAUSES: &str = "Reads that no pause of the virtual machine delayed";

const PAUSES: [Source<PausesReport>; 8] = [
    source("p50 outside pauses µs", Less, OUTSIDE_PAUSES, |p| {
        p.untouched_service_us.p50
    }),
    source("p99 outside pauses µs", Less, OUTSIDE_PAUSES, |p| {
        p.untouched_service_us.p99
    }),
    source("p99.9 outside pauses µs", Less, OUTSIDE_PAUSES, |p| {
        p.untouched_service_us.p99_9
    }),
    source("max outside pauses µs", Less, OUTSIDE_PAUSES, |p| {
        p.untouched_service_us.max
    }),
    source(
        "reads in pauses %",
        Neither,
        "Reads that a pause of the virtual machine, or the queue after it, delayed",
        |p| p.touched_reads_percent,
    ),
    source(
        "pauses/s",
        Neither,
        "Pauses of at least a millisecond",
        |p| p.rates.per_second,
    ),
    source("pauses ms/s", Neither, "Time in these pauses", |p| {
        p.rates.ms_per_second
    }),
    source("longest pause ms", Neither, "The longest pause", |p| {
        p.rates.longest_ms
    }),
];

const MEMORY: [Source<MemoryReport>; 6] = [
    source(
        "working set MiB, mean",
        Less,
        "All memory of the cgroup but inactive file pages, mean of the samples; kubelets evict by it",
        |m| m.working_set_mib.mean,
    ),
    source(
        "working set MiB, peak",
        Less,
        "All memory of the cgroup but inactive file pages, largest sample",
        |m| m.working_set_mib.peak,
    ),
    source(
        "inputs cached MiB, mean",
        Neither,
        "Page cache of the SSTables that the compaction reads, mean of the samples",
        |m| m.inputs_cached_mib.mean,
    ),
    source(
        "outputs cached MiB, mean",
        Neither,
        "Page cache of the SSTables that the compaction writes, mean of the samples",
        |m| m.outputs_cached_mib.mean,
    ),
    source(
        "dirty MiB, mean",
        Neither,
        "Dirty memory, mean of the samples",
        |m| m.dirty_mib.mean,
    ),
    source(
        "dirty MiB, peak",
        Neither,
        "Dirty memory, largest sample",
        |m| m.dirty_mib.peak,
    ),
];

const BACKLOG: [Source<BacklogReport>; 9] = [
    source(
        "a compaction runs, % of the time",
        Neither,
        "Share of the samples at which a compaction ran or was about to",
        |b| b.compacting_percent,
    ),
    source(
        "level-0 files, mean",
        Less,
        "SSTables of level 0, mean of the samples; reads look into each of them",
        |b| b.level0_files.mean,
    ),
    source(
        "level-0 files, peak",
        Less,
        "SSTables of level 0, largest sample",
        |b| b.level0_files.peak,
    ),
    source(
        "SSTables, mean",
        Less,
        "SSTables of the compacted CQL table, mean of the samples",
        |b| b.sstables.mean,
    ),
    source(
        "SSTables, peak",
        Less,
        "SSTables of the compacted CQL table, largest sample",
        |b| b.sstables.peak,
    ),
    source(
        "pending compactions, mean",
        Less,
        "Compactions that wait or run, mean of the samples",
        |b| b.pending_compactions.mean,
    ),
    source(
        "pending compactions, peak",
        Less,
        "Compactions that wait or run, largest sample",
        |b| b.pending_compactions.peak,
    ),
    source(
        "compaction debt MiB, mean",
        Less,
        "Compaction work that is left, by the engine's estimate, mean of the samples",
        |b| b.debt_mib.mean,
    ),
    source(
        "compaction debt MiB, peak",
        Less,
        "Compaction work that is left, by the engine's estimate, largest sample",
        |b| b.debt_mib.peak,
    ),
];

const WHOLE_RUN: [Source<RunReport>; 20] = [
    source(
        "compaction tax p99",
        Less,
        "p99 in compaction divided by p99 idle; 1 is the physical limit",
        |r| r.compaction_tax_p99,
    ),
    source(
        "compaction tax p99.9",
        Less,
        "p99.9 in compaction divided by p99.9 idle",
        |r| r.compaction_tax_p99_9,
    ),
    source(
        "compaction tax p99 outside pauses",
        Less,
        "The same p99 tax for reads that no pause of the virtual machine delayed",
        |r| r.compaction_tax_p99_outside_pauses,
    ),
    source(
        "latency spikes µs",
        Less,
        "How far p99 of a second lies above the worst idle second, mean from the compaction's start on",
        |r| r.spikes_us().unwrap_or_default(),
    ),
    source(
        "compaction MiB/s",
        More,
        "Bytes that the compaction read and wrote, by the engine's count",
        |r| r.compaction_mib_per_second,
    ),
    source(
        "compaction input MiB/s",
        More,
        "Bytes that the compaction read, by the engine's count",
        |r| r.compaction_input_mib_per_second,
    ),
    // Totals are neither better nor worse: the phases can differ in length.
    source(
        "compaction read MiB",
        Neither,
        "Bytes that the compaction read, by the engine's count",
        |r| mib(r.compacted_read_bytes),
    ),
    source(
        "user writes MiB/s",
        More,
        "Bytes that the user wrote during compaction",
        |r| r.user_writes_mib_per_second,
    ),
    source(
        "user writes MiB",
        Neither,
        "Bytes that the user wrote during compaction, in total",
        |r| mib(r.user_written_bytes),
    ),
    source(
        "write stalls s",
        Less,
        "Time for which the engine delayed the user's writes during compaction",
        |r| r.write_stall_seconds,
    ),
    source(
        "write stalls, % of the phase",
        Less,
        "The same as a share of the compaction phase",
        |r| r.write_stall_percent,
    ),
    source(
        "updates/s",
        More,
        "Updates during compaction, where updates keep it going",
        |r| r.updates_per_second,
    ),
    source(
        "latest update, ms",
        Less,
        "Largest delay between the due time of an update and its start",
        |r| r.update_late_ms_max,
    ),
    source(
        "compaction debt MiB",
        Less,
        "Compaction work that is left at the end of its phase, by the engine's estimate",
        |r| r.compaction_debt_mib,
    ),
    // Neither is better: the phases differ in length and in the bytes that they compact.
    source(
        "compaction CPU seconds",
        Neither,
        "Processor time of the whole process during compaction",
        |r| r.compaction_cpu_seconds,
    ),
    source(
        "compaction CPU seconds without the load",
        Neither,
        "The same without the threads that make the load",
        |r| r.compaction_engine_cpu_seconds,
    ),
    source(
        "engine CPU seconds/GiB compacted",
        Less,
        "Processor time of the engine's own threads for each GiB of compaction",
        RunReport::engine_cpu_seconds_per_gib,
    ),
    source(
        "coldstream attach, % of a processor",
        Less,
        "Processor time of coldstream attach, from its start to its end",
        |r| r.attached_core_percent,
    ),
    source(
        "hot set cached MiB",
        Neither,
        "Page cache of the SSTables while nothing compacts, mean of the idle phase: what reads keep there",
        |r| sstables_cached_mib(r, Phase::Idle),
    ),
    source(
        "cached beyond the hot set MiB",
        Neither,
        "Page cache of the SSTables in compaction, mean, without the row above: pages that were read once, just \
         written, or are there twice; below 0: hot pages had to go",
        beyond_hot_set_mib,
    ),
];

/// Page cache of the SSTables in a phase, mean of its samples.
fn sstables_cached_mib(report: &RunReport, phase: Phase) -> f64 {
    report.phase(phase).map_or(0.0, |phase| {
        phase.memory.inputs_cached_mib.mean + phase.memory.outputs_cached_mib.mean
    })
}

/// What compaction adds to the hot set in the page cache. 0 where the phase before was not measured.
fn beyond_hot_set_mib(report: &RunReport) -> f64 {
    match sstables_cached_mib(report, Phase::Idle) {
        0.0 => 0.0,
        hot_set => sstables_cached_mib(report, Phase::Compaction) - hot_set,
    }
}

/// All rows, for the runs of each mode. A row that is 0 everywhere is left out: the engine's
/// laboratory does not sample it.
pub fn rows(modes: &[Vec<RunReport>]) -> Vec<Row> {
    let mut rows: Vec<Row> = WHOLE_RUN
        .iter()
        .map(|source| row(None, source, modes, |run| (source.value)(run)))
        .collect();
    for phase in Phase::COUNTED {
        phase_rows(&mut rows, phase, modes);
    }
    rows.retain(|row| !row.modes.iter().all(Spread::is_zero));
    rows
}

fn phase_rows(rows: &mut Vec<Row>, phase: Phase, modes: &[Vec<RunReport>]) {
    for (names, explanation) in [(0, SERVICE), (1, RESPONSE)] {
        for (service, response, value) in PERCENTILES {
            let name = [service, response][names];
            let source = source::<Percentiles>(name, Less, explanation, value);
            rows.push(phase_row(phase, &source, modes, |report| {
                value(if names == 0 {
                    &report.service_us
                } else {
                    &report.response_us
                })
            }));
        }
    }
    for source in &COUNTS {
        rows.push(phase_row(phase, source, modes, source.value));
    }
    for source in KERNEL.iter().chain(&PROCESSES) {
        let value = |report: &PhaseReport| (source.value)(&report.rates);
        rows.push(phase_row(phase, source, modes, value));
    }
    for source in &PAUSES {
        let value = |report: &PhaseReport| (source.value)(&report.pauses);
        rows.push(phase_row(phase, source, modes, value));
    }
    for source in &BACKLOG {
        let value = |report: &PhaseReport| (source.value)(&report.backlog);
        rows.push(phase_row(phase, source, modes, value));
    }
    for source in &MEMORY {
        let value = |report: &PhaseReport| (source.value)(&report.memory);
        rows.push(phase_row(phase, source, modes, value));
    }
}

fn phase_row<T>(
    phase: Phase,
    source: &Source<T>,
    modes: &[Vec<RunReport>],
    value: impl Fn(&PhaseReport) -> f64,
) -> Row {
    row(Some(phase), source, modes, |run| {
        run.phase(phase).map_or(0.0, &value)
    })
}

fn row<T>(
    phase: Option<Phase>,
    source: &Source<T>,
    modes: &[Vec<RunReport>],
    value: impl Fn(&RunReport) -> f64,
) -> Row {
    let spread = |runs: &Vec<RunReport>| Spread::of(runs.iter().map(&value));
    Row {
        phase,
        name: source.name,
        better: source.better,
        explanation: source.explanation,
        modes: modes.iter().map(spread).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::run_report::Level;

    #[test]
    fn a_row_of_zeros_is_left_out() {
        let run = RunReport {
            compaction_tax_p99: 2.0,
            ..RunReport::default()
        };
        let rows = rows(&[vec![run], vec![RunReport::default()]]);
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names, ["compaction tax p99"]);
        assert_eq!(rows[0].modes[0].median, 2.0);
    }

    #[test]
    fn what_compaction_adds_to_the_hot_set() {
        let phase = |phase, inputs, outputs| PhaseReport {
            memory: MemoryReport {
                inputs_cached_mib: Level::of([inputs]),
                outputs_cached_mib: Level::of([outputs]),
                ..MemoryReport::default()
            },
            ..fixture::phase(phase, 50.0)
        };
        let mut run = RunReport {
            phases: vec![phase(Phase::Compaction, 30.0, 25.0)],
            ..RunReport::default()
        };
        assert_eq!(beyond_hot_set_mib(&run), 0.0);
        run.phases.push(phase(Phase::Idle, 40.0, 0.0));
        assert_eq!(sstables_cached_mib(&run, Phase::Idle), 40.0);
        assert_eq!(beyond_hot_set_mib(&run), 15.0);
    }
}
