//! Several runs of one mode together: the median of each row and its spread. Percentiles of
//! different runs are never averaged or merged.

use crate::phase::Phase;
use crate::run_report::{HIT_NS_MAX, PausesReport, Percentiles, PhaseReport, RunReport};
use crate::sampler::Rates;

/// Median, smallest and largest of a figure over the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Spread {
    /// Median; of an even number, the mean of the middle two.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// How many there were.
    pub runs: usize,
}

impl Spread {
    /// Of these values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (values.first(), values.last()) else {
            return Self::default();
        };
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Self {
            median,
            min: *min,
            max: *max,
            runs: values.len(),
        }
    }

    /// Whether it is no figure at all.
    fn is_zero(&self) -> bool {
        self.min == 0.0 && self.max == 0.0
    }
}

/// Whether less or more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Latencies, stalls.
    Less,
    /// Throughput.
    More,
    /// Neither: context.
    Neither,
}

/// A row of the table.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Row {
    /// Phase, or none for figures of the whole run.
    pub phase: Option<Phase>,
    /// What it is, with its unit.
    pub name: String,
    /// Which way is better.
    pub better: Better,
    /// One spread a mode.
    pub modes: Vec<Spread>,
}

type OfPercentiles = fn(&Percentiles) -> f64;
type OfRates = fn(&Rates) -> f64;

const PERCENTILES: [(&str, &str, OfPercentiles); 7] = [
    ("service p50 µs", "response p50 µs", |p| p.p50),
    ("service p90 µs", "response p90 µs", |p| p.p90),
    ("service p99 µs", "response p99 µs", |p| p.p99),
    ("service p99.9 µs", "response p99.9 µs", |p| p.p99_9),
    ("service p99.99 µs", "response p99.99 µs", |p| p.p99_99),
    ("service max µs", "response max µs", |p| p.max),
    ("service mean µs", "response mean µs", |p| p.mean),
];

const RATES: [(&str, Better, OfRates); 33] = [
    ("refaults/s", Better::Less, |r| r.refaults_per_second),
    ("memory stall µs/s", Better::Less, |r| {
        r.memory_stall_us_per_second
    }),
    ("dirty pages/s", Better::Neither, |r| {
        r.dirty_pages_per_second
    }),
    ("writeback pages/s", Better::Neither, |r| {
        r.writeback_pages_per_second
    }),
    ("active file MiB", Better::Neither, |r| r.active_file_mib),
    ("page cache MiB", Better::Neither, |r| r.page_cache_mib),
    ("inputs cached MiB", Better::Neither, |r| {
        r.inputs_cached_mib
    }),
    ("outputs cached MiB", Better::Neither, |r| {
        r.outputs_cached_mib
    }),
    ("device reads/s", Better::Neither, |r| {
        r.device_reads_per_second
    }),
    ("device read MiB/s", Better::Neither, |r| {
        r.device_read_mib_per_second
    }),
    ("foreground device read MiB/s", Better::Less, |r| {
        r.foreground_read_mib_per_second
    }),
    ("device written MiB/s", Better::Neither, |r| {
        r.device_written_mib_per_second
    }),
    ("device r_await ms", Better::Neither, |r| r.read_await_ms),
    ("device w_await ms", Better::Neither, |r| r.write_await_ms),
    ("device queue depth", Better::Neither, |r| r.queue_depth),
    ("device utilisation %", Better::Neither, |r| {
        r.utilisation_percent
    }),
    ("stolen by the host %", Better::Neither, |r| {
        r.stolen_percent
    }),
    ("anonymous memory MiB", Better::Neither, |r| {
        r.processes.anonymous_mib
    }),
    ("anonymous memory, growth MiB", Better::Neither, |r| {
        r.processes.anonymous_growth_mib
    }),
    ("threads", Better::Neither, |r| r.processes.threads),
    ("descriptors", Better::Neither, |r| r.processes.descriptors),
    ("library's own memory MiB", Better::Neither, |r| {
        r.processes.library_mib
    }),
    ("pacing, held to MiB/s", Better::Neither, |r| {
        r.processes.pacing_mib_per_second
    }),
    ("pacing, waits ms/s", Better::Neither, |r| {
        r.processes.pacing_ms_per_second
    }),
    ("eviction MiB/s", Better::Neither, |r| {
        r.processes.evicted_mib_per_second
    }),
    ("eviction, % of a processor", Better::Less, |r| {
        r.processes.evicting_percent
    }),
    ("handover, pages warmed/s", Better::Neither, |r| {
        r.processes.warmed_pages_per_second
    }),
    ("handover, indexes read MiB/s", Better::Neither, |r| {
        r.processes.handover_index_mib_per_second
    }),
    ("handover, warm places read since %", Better::More, |r| {
        r.processes.handover_hit_percent
    }),
    ("handovers", Better::Neither, |r| r.processes.handovers),
    ("handover delay ms, mean", Better::Neither, |r| {
        r.processes.handover_mean_ms
    }),
    ("handover delay ms, p50 at most", Better::Neither, |r| {
        r.processes.handover_p50_ms
    }),
    ("handover delay ms, p99 at most", Better::Neither, |r| {
        r.processes.handover_p99_ms
    }),
];

type OfPauses = fn(&PausesReport) -> f64;

const PAUSES: [(&str, Better, OfPauses); 8] = [
    ("p50 outside pauses µs", Better::Less, |p| {
        p.untouched_service_us.p50
    }),
    ("p99 outside pauses µs", Better::Less, |p| {
        p.untouched_service_us.p99
    }),
    ("p99.9 outside pauses µs", Better::Less, |p| {
        p.untouched_service_us.p99_9
    }),
    ("max outside pauses µs", Better::Less, |p| {
        p.untouched_service_us.max
    }),
    ("reads in pauses %", Better::Neither, |p| {
        p.touched_reads_percent
    }),
    ("pauses/s", Better::Neither, |p| p.rates.per_second),
    ("pauses ms/s", Better::Neither, |p| p.rates.ms_per_second),
    ("longest pause ms", Better::Neither, |p| p.rates.longest_ms),
];

type OfPhase = fn(&PhaseReport) -> f64;

const COUNTS: [(&str, Better, OfPhase); 3] = [
    ("reads/s", Better::More, |p| p.reads_per_second),
    ("failed reads", Better::Less, |p| p.failed_reads as f64),
    ("failed updates", Better::Less, |p| p.failed_updates as f64),
];

const DIRTY: [(&str, Better, OfPhase); 2] = [
    ("dirty MiB, mean", Better::Neither, |p| p.dirty_mib_mean),
    ("dirty MiB, peak", Better::Neither, |p| p.dirty_mib_peak),
];

type OfRun = fn(&RunReport) -> f64;

const OF_RUNS: [(&str, Better, OfRun); 11] = [
    ("compaction tax p99", Better::Less, |r| r.compaction_tax_p99),
    ("compaction tax p99.9", Better::Less, |r| {
        r.compaction_tax_p99_9
    }),
    ("compaction tax p99 outside pauses", Better::Less, |r| {
        r.compaction_tax_p99_outside_pauses
    }),
    ("compaction MiB/s", Better::More, |r| {
        r.compaction_mib_per_second
    }),
    ("compaction input MiB/s", Better::More, |r| {
        r.compaction_input_mib_per_second
    }),
    ("updates/s", Better::More, |r| r.updates_per_second),
    ("latest update, ms", Better::Less, |r| r.update_late_ms_max),
    ("compaction debt MiB", Better::Less, |r| {
        r.compaction_debt_mib
    }),
    // Of phases that differ in length and in what they moved.
    ("compaction CPU seconds", Better::Neither, |r| {
        r.compaction_cpu_seconds
    }),
    (
        "compaction CPU seconds without the load",
        Better::Neither,
        |r| r.compaction_engine_cpu_seconds,
    ),
    (
        "engine CPU seconds/GiB compacted",
        Better::Less,
        RunReport::engine_cpu_seconds_per_gib,
    ),
];

/// All rows, for the runs of each mode.
pub fn rows(modes: &[Vec<RunReport>]) -> Vec<Row> {
    let mut rows: Vec<Row> = OF_RUNS
        .into_iter()
        .map(|(name, better, of)| Row::new(None, name, better, modes, &of))
        .collect();
    for phase in Phase::COUNTED {
        let mut row = |name: &str, better, of: &dyn Fn(&PhaseReport) -> f64| {
            let of = |run: &RunReport| run.phase(phase).map_or(0.0, of);
            rows.push(Row::new(Some(phase), name, better, modes, &of));
        };
        for (name, _, of) in PERCENTILES {
            row(name, Better::Less, &|report| of(&report.service_us));
        }
        for (_, name, of) in PERCENTILES {
            row(name, Better::Less, &|report| of(&report.response_us));
        }
        for (name, better, of) in COUNTS {
            row(name, better, &of);
        }
        let fast = format!("reads under {} µs %", HIT_NS_MAX / 1000);
        row(&fast, Better::More, &|report| report.fast_reads_percent);
        for (name, better, of) in RATES {
            row(name, better, &|report| of(&report.rates));
        }
        for (name, better, of) in PAUSES {
            row(name, better, &|report| of(&report.pauses));
        }
        for (name, better, of) in DIRTY {
            row(name, better, &of);
        }
    }
    // What an engine's laboratory does not sample.
    rows.retain(|row| !row.modes.iter().all(Spread::is_zero));
    rows
}

/// With fewer runs of each mode, spreads lie apart by chance in more than a row or two of a table.
const RUNS_MIN: usize = 4;

/// A figure may be so much worse before it counts as a loss.
pub const TOLERANCE: f64 = 0.02;

/// How a mode's median compares with the first mode's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better by more than the tolerance, and the spreads of at least four runs do not overlap.
    Wins,
    /// Worse by more than the tolerance, and the spreads of at least four runs do not overlap.
    Loses,
    /// Worse by more than the tolerance, but the spreads overlap, or are of too few runs to tell.
    LosesWithinNoise,
    /// None of these.
    Even,
}

impl Row {
    fn new(
        phase: Option<Phase>,
        name: &str,
        better: Better,
        modes: &[Vec<RunReport>],
        of: &dyn Fn(&RunReport) -> f64,
    ) -> Self {
        let spread = |runs: &Vec<RunReport>| Spread::of(runs.iter().map(of));
        Self {
            phase,
            name: name.to_owned(),
            better,
            modes: modes.iter().map(spread).collect(),
        }
    }

    /// The verdict on a mode.
    pub fn verdict(&self, mode: usize) -> Verdict {
        let (Some(first), Some(this)) = (self.modes.first(), self.modes.get(mode)) else {
            return Verdict::Even;
        };
        let (worse, better, apart) = match self.better {
            Better::Neither => return Verdict::Even,
            Better::Less => (
                this.median > first.median * (1.0 + TOLERANCE),
                this.median < first.median * (1.0 - TOLERANCE),
                this.min > first.max || this.max < first.min,
            ),
            Better::More => (
                this.median < first.median * (1.0 - TOLERANCE),
                this.median > first.median * (1.0 + TOLERANCE),
                this.min > first.max || this.max < first.min,
            ),
        };
        let apart = apart && first.runs.min(this.runs) >= RUNS_MIN;
        match (worse, better, apart) {
            (true, _, true) => Verdict::Loses,
            (true, _, false) => Verdict::LosesWithinNoise,
            (_, true, true) => Verdict::Wins,
            _ => Verdict::Even,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between() {
        assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]).median, 2.5);
        assert_eq!(
            Spread::of([3.0, 1.0, 2.0]),
            Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0,
                runs: 3,
            }
        );
        assert_eq!(Spread::of([]), Spread::default());
    }

    #[test]
    fn a_loss_is_one_even_when_it_is_small() {
        let row = |better, first: [f64; 4], second: [f64; 4]| Row {
            phase: None,
            name: "x".into(),
            better,
            modes: vec![Spread::of(first), Spread::of(second)],
        };
        let first = [100.0, 101.0, 101.0, 102.0];
        let less = |second| row(Better::Less, first, second).verdict(1);
        assert_eq!(less([104.0, 105.0, 105.0, 106.0]), Verdict::Loses);
        assert_eq!(less([99.0, 105.0, 105.0, 106.0]), Verdict::LosesWithinNoise);
        assert_eq!(less([101.0, 102.0, 102.0, 103.0]), Verdict::Even);
        assert_eq!(less([50.0, 51.0, 51.0, 52.0]), Verdict::Wins);
        assert_eq!(
            row(Better::More, first, [50.0, 51.0, 51.0, 52.0]).verdict(1),
            Verdict::Loses
        );
        assert_eq!(
            row(Better::Neither, first, [1.0; 4]).verdict(1),
            Verdict::Even
        );
    }
}
