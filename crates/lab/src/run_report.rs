//! The result of one run, as the report's JSON holds it.

use crate::pauses::PauseRates;
use crate::phase::{FirstPass, Phase};
use crate::sampler::Rates;
use hdrhistogram::Histogram;

/// A read that takes less mostly comes from memory: few devices answer sooner.
pub const HIT_NS_MAX: u64 = 40_000;

/// From this share of processor time on, time that the host took away shows in a tail latency.
const STOLEN_PERCENT_MAX: f64 = 3.0;
/// Reads that never started are told of where they are more than one in so many: fewer do not touch p99.9.
const UNSTARTED_SHARE: u64 = 1000;

/// Percentiles of one distribution, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p99_9: f64,
    /// 99.99 %.
    pub p99_99: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

impl Percentiles {
    /// Percentiles of a histogram of times in ns.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: histogram.max() as f64 / 1000.0,
            mean: histogram.mean() / 1000.0,
        }
    }
}

/// A phase of a run.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// Its duration.
    pub seconds: f64,
    /// Reads that started in it.
    pub reads: u64,
    /// Reads that ended with an error; their times count like the others'.
    pub failed_reads: u64,
    /// Updates that ended with an error.
    pub failed_updates: u64,
    /// Reads that were due in it and never started. Their response times are at least what they have waited.
    #[serde(default)]
    pub unstarted_reads: u64,
    /// Reads a second.
    pub reads_per_second: f64,
    /// From the start of a read to its end, µs.
    pub service_us: Percentiles,
    /// From the time at which a read was due, µs, of the reads that were due in it: what a client of a steady load sees.
    pub response_us: Percentiles,
    /// Reads that took less than [`HIT_NS_MAX`], %; 0 for engines whose reads are slower.
    pub fast_reads_percent: f64,
    /// Figures of the kernel and the device.
    pub rates: Rates,
    /// What the memory consisted of.
    #[serde(default)]
    pub memory: MemoryReport,
    /// Service time at rising quantiles, `(quantile, µs)`, for the curve.
    pub curve: Vec<(f64, f64)>,
    /// Pauses of the database's virtual machine; all 0 where it has none.
    #[serde(default)]
    pub pauses: PausesReport,
    /// How far compaction was behind.
    #[serde(default)]
    pub backlog: BacklogReport,
}

/// Mean and peak of a figure's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Level {
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub peak: f64,
}

impl Level {
    /// The level of these samples; 0 if there is none.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Self {
        let (mut count, mut sum, mut peak) = (0.0, 0.0, 0.0_f64);
        for sample in samples {
            count += 1.0;
            sum += sample;
            peak = peak.max(sample);
        }
        Self {
            mean: sum / f64::max(count, 1.0),
            peak,
        }
    }
}

/// What the memory of the database's cgroup consisted of in a phase. A figure that cannot be had is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct MemoryReport {
    /// Pages that have to be written back, MiB.
    pub dirty_mib: Level,
    /// All memory but inactive file pages, MiB: what kubelets call the working set.
    pub working_set_mib: Level,
    /// Page cache of the SSTables that the compaction reads, MiB.
    pub inputs_cached_mib: Level,
    /// Page cache of the SSTables that the compaction writes, MiB.
    pub outputs_cached_mib: Level,
}

/// How far compaction was behind in a phase. A figure that the engine does not tell is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct BacklogReport {
    /// SSTables of level 0.
    pub level0_files: Level,
    /// SSTables of the compacted CQL table.
    pub sstables: Level,
    /// Compactions that wait or run.
    pub pending_compactions: Level,
    /// Compaction work that is left, MiB.
    pub debt_mib: Level,
    /// Samples at which a compaction ran or was about to, %.
    pub compacting_percent: f64,
}

/// Pauses of a virtual machine in a phase, and the reads that no pause delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PausesReport {
    /// Number and duration.
    pub rates: PauseRates,
    /// Reads that lay in a pause or in the queue after it, %.
    pub touched_reads_percent: f64,
    /// From the start of a read to its end, µs, of all other reads.
    pub untouched_service_us: Percentiles,
}

/// A second of a run.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Second {
    /// Since the start of the run.
    pub second: f64,
    /// Reads that started in it.
    pub reads: u64,
    /// Median of the service times of these reads, µs.
    pub p50_us: f64,
    /// 99 % of them, µs. Without such a read, both are that of the longest read that lasted through the second.
    pub p99_us: f64,
    /// Figures of the kernel and the device.
    pub rates: Rates,
}

/// A whole run.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct RunReport {
    /// The counted phases.
    pub phases: Vec<PhaseReport>,
    /// The start of each phase, in seconds since the start of the run.
    pub boundaries: Vec<(Phase, f64)>,
    /// Bytes that the compaction read, by the engine's count.
    pub compacted_read_bytes: u64,
    /// Bytes that the compaction wrote, by the engine's count.
    pub compacted_written_bytes: u64,
    /// Bytes read by the compaction a second, MiB.
    pub compaction_input_mib_per_second: f64,
    /// Bytes read and written by the compaction a second, MiB.
    pub compaction_mib_per_second: f64,
    /// Updates a second during compaction, where updates keep it going.
    pub updates_per_second: f64,
    /// Largest delay between the due time of an update and its start, ms.
    pub update_late_ms_max: f64,
    /// Compaction work that is left at the end of its phase, MiB, by the engine's estimate.
    pub compaction_debt_mib: f64,
    /// Bytes that the user wrote during compaction.
    pub user_written_bytes: u64,
    /// The same a second, MiB.
    pub user_writes_mib_per_second: f64,
    /// Time for which the engine delayed the user's writes during compaction.
    pub write_stall_seconds: f64,
    /// The same as a share of the phase, %.
    pub write_stall_percent: f64,
    /// Processor time of the whole process during compaction, user and system.
    pub compaction_cpu_seconds: f64,
    /// The same without the threads that make the load: the engine's own threads.
    pub compaction_engine_cpu_seconds: f64,
    /// p99 during compaction ÷ p99 before, service time.
    pub compaction_tax_p99: f64,
    /// p99.9 during compaction ÷ p99.9 before, service time.
    pub compaction_tax_p99_9: f64,
    /// p99 during compaction ÷ p99 before, service time of the reads that no pause of a virtual
    /// machine delayed; 0 where it has none.
    pub compaction_tax_p99_outside_pauses: f64,
    /// Second by second.
    pub timeline: Vec<Second>,
    /// The first pass over the hot keys, where the load tells of it.
    pub first_pass: Option<FirstPass>,
    /// Lines that Coldstream's library logged, or that `coldstream attach` wrote.
    pub library_log: Vec<String>,
    /// Processor time of `coldstream attach`, from its start to its end, as a share of one processor.
    pub attached_core_percent: f64,
}

impl RunReport {
    /// A phase's report.
    pub fn phase(&self, phase: Phase) -> Option<&PhaseReport> {
        self.phases.iter().find(|report| report.phase == phase)
    }

    /// Processor time of the engine's own threads for each GiB of compaction, s; 0 without a
    /// compaction.
    pub fn engine_cpu_seconds_per_gib(&self) -> f64 {
        match self.compacted_read_bytes + self.compacted_written_bytes {
            0 => 0.0,
            bytes => self.compaction_engine_cpu_seconds * f64::from(1 << 30) / bytes as f64,
        }
    }

    /// How far p99 of a second lies above that of the worst idle second: the mean of all seconds from the
    /// compaction's start on, µs. `None` without an idle second to compare with.
    pub fn spikes_us(&self) -> Option<f64> {
        let bounds = |phase| {
            let mut phases = self.boundaries.windows(2);
            let found = phases.find(|both| both[0].0 == phase);
            found.map(|both| (both[0].1, both[1].1))
        };
        let (idle, idle_end) = bounds(Phase::Idle)?;
        let (compaction, _) = bounds(Phase::Compaction)?;
        let whole = |it: &&Second| it.second >= idle && it.second + 1.0 <= idle_end;
        let worst = (self.timeline.iter().filter(whole))
            .map(|it| it.p99_us)
            .reduce(f64::max)?;
        let later = self.timeline.iter().filter(|it| it.second >= compaction);
        let (sum, seconds) = later.fold((0.0, 0_u32), |(sum, seconds), it| {
            (sum + (it.p99_us - worst).max(0.0), seconds + 1)
        });
        (seconds > 0).then(|| sum / f64::from(seconds))
    }

    /// What to know of its figures, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let phases = self.phases.iter();
        let stolen = (phases.clone())
            .map(|phase| phase.rates.stolen_percent)
            .fold(0.0, f64::max);
        let stolen = (stolen >= STOLEN_PERCENT_MAX).then(|| {
            format!(
                "the host took up to {stolen:.0} % of the processors' time in a phase: this raises latencies, too"
            )
        });
        let reads: u64 = phases.clone().map(|phase| phase.reads).sum();
        let unstarted: u64 = phases.map(|phase| phase.unstarted_reads).sum();
        // Each load ends with some reads that are just due.
        let unstarted = (unstarted * UNSTARTED_SHARE > reads).then(|| {
            format!("{unstarted} of the reads that were due never started: their response times are lower bounds")
        });
        let first_pass = self.first_pass.and_then(FirstPass::note);
        [stolen, unstarted, first_pass]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Quantiles from 0 to 99.99 % and their values in µs. The steps become smaller towards the tail.
pub fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    (0..=40)
        .map(|step| {
            let quantile = 1.0 - 10_f64.powf(-f64::from(step) / 10.0);
            (
                quantile,
                histogram.value_at_quantile(quantile) as f64 / 1000.0,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_are_what_is_above_the_worst_idle_second() {
        // The second at 1.5 reaches into the first updates, which nothing counts.
        let seconds = [(0.5, 40.0), (1.5, 900.0), (2.6, 140.0), (3.6, 30.0)];
        let mut run = RunReport {
            boundaries: vec![
                (Phase::Idle, 0.0),
                (Phase::WarmUp, 2.0),
                (Phase::Compaction, 2.5),
                (Phase::End, 5.0),
            ],
            timeline: seconds
                .map(|(second, p99_us)| Second {
                    second,
                    reads: 1,
                    p50_us: 1.0,
                    p99_us,
                    rates: Rates::default(),
                })
                .to_vec(),
            ..RunReport::default()
        };
        assert_eq!(run.spikes_us(), Some(50.0));
        run.timeline.truncate(2);
        assert_eq!(run.spikes_us(), None);
        assert_eq!(RunReport::default().spikes_us(), None);
    }
}
