//! A mode that buys its latency: its p99 in compaction is better, and user writes or compaction pay.
//!
//! - The gain and each price are beyond the noise: see [`Change`]. So less than four runs name none.
//! - A price is more than [`SHARE_MIN`] of the first mode's figure, and more than a margin of its own.
//!   Otherwise a second stalled write would be a price.

use super::figures::arrow;
use crate::phase::Phase;
use crate::run_report::{BacklogReport, RunReport};
use crate::summary::{Better, Certainty, Change, Spread};
use Better::{Less, More};

/// A smaller share of the first mode's figure is no price.
const SHARE_MIN: f64 = 0.05;

/// What a mode pays for a better p99.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Trade {
    /// The mode: its place in `Report::modes`.
    pub mode: usize,
    /// `buys its latency with writes: user writes 99.3 → 30.1 MiB/s`.
    pub text: String,
    /// What it pays; never empty.
    pub prices: Vec<Price>,
}

/// A figure that became worse.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Price {
    /// Name of the figure.
    pub name: &'static str,
    /// Its unit; empty for a number of things.
    pub unit: &'static str,
    /// The first mode's figure.
    pub first: Spread,
    /// This mode's figure.
    pub this: Spread,
}

/// A figure that can pay.
struct Currency {
    name: &'static str,
    unit: &'static str,
    /// Who pays: the word of the sentence.
    payer: &'static str,
    better: Better,
    value: fn(&RunReport) -> f64,
    /// The smallest difference that is a price, by the first mode's runs.
    margin: fn(&[RunReport]) -> f64,
}

const WRITES: &str = "writes";
const COMPACTION: &str = "compaction";

const CURRENCIES: [Currency; 7] = [
    Currency {
        name: "user writes",
        unit: "MiB/s",
        payer: WRITES,
        better: More,
        value: |run| run.user_writes_mib_per_second,
        margin: |_| 0.0,
    },
    Currency {
        name: "compaction",
        unit: "MiB/s",
        payer: COMPACTION,
        better: More,
        value: |run| run.compaction_mib_per_second,
        margin: |_| 0.0,
    },
    Currency {
        name: "write stalls",
        unit: "% of the time",
        payer: WRITES,
        better: Less,
        value: |run| run.write_stall_percent,
        margin: |_| 1.0,
    },
    Currency {
        name: "level-0 files",
        unit: "",
        payer: COMPACTION,
        better: Less,
        value: |run| backlog(run).level0_files.mean,
        margin: |_| 1.0,
    },
    Currency {
        name: "SSTables",
        unit: "",
        payer: COMPACTION,
        better: Less,
        value: |run| backlog(run).sstables.mean,
        margin: |_| 1.0,
    },
    Currency {
        name: "pending compactions",
        unit: "",
        payer: COMPACTION,
        better: Less,
        value: |run| backlog(run).pending_compactions.mean,
        margin: |_| 1.0,
    },
    Currency {
        name: "compaction debt",
        unit: "MiB",
        payer: COMPACTION,
        better: Less,
        value: |run| backlog(run).debt_mib.mean,
        // What the first mode compacts in a second.
        margin: |first| spread(first, |run| run.compaction_mib_per_second).median,
    },
];

fn backlog(run: &RunReport) -> BacklogReport {
    let phase = run.phase(Phase::Compaction);
    phase.map_or_else(BacklogReport::default, |phase| phase.backlog)
}

fn p99_us(run: &RunReport) -> f64 {
    let phase = run.phase(Phase::Compaction);
    phase.map_or(0.0, |phase| phase.service_us.p99)
}

fn reads_per_second(run: &RunReport) -> f64 {
    let phase = run.phase(Phase::Compaction);
    phase.map_or(0.0, |phase| phase.reads_per_second)
}

fn spread(runs: &[RunReport], value: impl Fn(&RunReport) -> f64) -> Spread {
    Spread::of(runs.iter().map(value))
}

impl Currency {
    /// The price that these runs pay in this currency, against the first mode's runs.
    fn price(&self, first_runs: &[RunReport], runs: &[RunReport]) -> Option<Price> {
        let (first, this) = (spread(first_runs, self.value), spread(runs, self.value));
        let difference = (this.median - first.median).abs();
        let change = Change::between(self.better, &first, &this);
        let is_price = change == Change::Worse(Certainty::BeyondNoise)
            && difference > first.median * SHARE_MIN
            && difference >= (self.margin)(first_runs);
        is_price.then_some(Price {
            name: self.name,
            unit: self.unit,
            first,
            this,
        })
    }
}

/// The modes that buy their latency, against the first one.
pub fn trades(modes: &[Vec<RunReport>]) -> Vec<Trade> {
    let Some((first, others)) = modes.split_first() else {
        return Vec::new();
    };
    (1..)
        .zip(others)
        .filter_map(|(mode, runs)| trade(mode, first, runs))
        .collect()
}

fn trade(mode: usize, first: &[RunReport], runs: &[RunReport]) -> Option<Trade> {
    let p99 = Change::between(Less, &spread(first, p99_us), &spread(runs, p99_us));
    if p99 != Change::Better(Certainty::BeyondNoise) {
        return None;
    }
    let paid = CURRENCIES.iter().filter_map(|currency| {
        let price = currency.price(first, runs)?;
        Some((currency.payer, price))
    });
    let (payers, prices): (Vec<&str>, Vec<Price>) = paid.unzip();
    if prices.is_empty() {
        return None;
    }
    let payers = [WRITES, COMPACTION]
        .into_iter()
        .filter(|payer| payers.contains(payer));
    let payers: Vec<&str> = payers.collect();
    let figures: Vec<String> = prices.iter().map(Price::text).collect();
    let mut text = format!(
        "buys its latency with {}: {}",
        payers.join(" and "),
        figures.join(", ")
    );
    let reads = [first, runs].map(|runs| spread(runs, reads_per_second));
    if (reads[1].median / reads[0].median.max(f64::MIN_POSITIVE) - 1.0).abs() > SHARE_MIN {
        // A closed loop: faster answers are more reads, which take processors and device, too.
        text.push_str(&format!("; reads/s {}", arrow(&reads[0], &reads[1])));
    }
    Some(Trade { mode, text, prices })
}

impl Price {
    fn text(&self) -> String {
        let text = format!(
            "{} {} {}",
            self.name,
            arrow(&self.first, &self.this),
            self.unit
        );
        text.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::run_report::Level;

    /// What a mode of these tests does in compaction.
    #[derive(Clone, Copy)]
    struct Shape {
        p99_us: f64,
        compaction_mib: f64,
        user_mib: f64,
        stall_percent: f64,
        level0_files: f64,
        debt_mib: f64,
        reads: f64,
    }

    const STOCK: Shape = Shape {
        p99_us: 9000.0,
        compaction_mib: 235.0,
        user_mib: 99.3,
        stall_percent: 50.0,
        level0_files: 8.0,
        debt_mib: 900.0,
        reads: 6011.0,
    };

    /// Two modes of four runs each. The runs of a mode differ by a few thousandths.
    fn runs_of(shapes: [Shape; 2], runs: u32) -> Vec<Vec<RunReport>> {
        let figures = shapes.map(|shape| (67.0, shape.p99_us, shape.compaction_mib));
        let mut modes = fixture::case(&figures, runs).runs;
        for (mode, shape) in modes.iter_mut().zip(shapes) {
            for (number, run) in (0_u32..).zip(mode) {
                let scale = 1.0 + f64::from(number) / 1000.0;
                run.user_writes_mib_per_second = shape.user_mib * scale;
                run.write_stall_percent = shape.stall_percent * scale;
                let phase = &mut run.phases[1];
                phase.reads_per_second = shape.reads * scale;
                let level = |value: f64| Level {
                    mean: value * scale,
                    peak: value * 2.0,
                };
                phase.backlog.level0_files = level(shape.level0_files);
                phase.backlog.debt_mib = level(shape.debt_mib);
            }
        }
        modes
    }

    fn text(shape: Shape) -> Option<String> {
        let trades = trades(&runs_of([STOCK, shape], 4));
        assert!(trades.iter().all(|trade| trade.mode == 1));
        trades.into_iter().next().map(|trade| trade.text)
    }

    const FASTER: Shape = Shape {
        p99_us: 4200.0,
        ..STOCK
    };

    #[test]
    fn a_mode_that_starves_writes_and_compaction_is_named() {
        let starving = Shape {
            compaction_mib: 41.0,
            user_mib: 30.0,
            stall_percent: 80.0,
            level0_files: 19.0,
            debt_mib: 4000.0,
            reads: 19_675.0,
            ..FASTER
        };
        assert_eq!(
            text(starving).unwrap(),
            "buys its latency with writes and compaction: user writes 99.4 → 30.0 MiB/s, \
             compaction 235 → 41.0 MiB/s, write stalls 50.1 → 80.1 % of the time, level-0 files \
             8.01 → 19.0, compaction debt 901 → 4006 MiB; reads/s 6020 → 19705"
        );
    }

    #[test]
    fn one_price_is_enough() {
        let fewer_writes = Shape {
            user_mib: 90.0,
            ..FASTER
        };
        assert_eq!(
            text(fewer_writes).unwrap(),
            "buys its latency with writes: user writes 99.4 → 90.1 MiB/s"
        );
        let slower = Shape {
            compaction_mib: 200.0,
            ..FASTER
        };
        assert_eq!(
            text(slower).unwrap(),
            "buys its latency with compaction: compaction 235 → 200 MiB/s"
        );
        let more_debt = Shape {
            debt_mib: 1200.0,
            ..FASTER
        };
        assert_eq!(
            text(more_debt).unwrap(),
            "buys its latency with compaction: compaction debt 901 → 1202 MiB"
        );
        // Stalls where there was none before.
        let mut runs = runs_of([STOCK, FASTER], 4);
        (runs[0].iter_mut()).for_each(|run| run.write_stall_percent = 0.0);
        assert_eq!(
            trades(&runs)[0].text,
            "buys its latency with writes: write stalls 0.00 → 50.1 % of the time"
        );
    }

    #[test]
    fn a_mode_that_gains_without_a_price_buys_nothing() {
        assert_eq!(text(FASTER), None);
        let better_in_all = Shape {
            compaction_mib: 300.0,
            user_mib: 120.0,
            stall_percent: 10.0,
            level0_files: 4.0,
            debt_mib: 100.0,
            ..FASTER
        };
        assert_eq!(text(better_in_all), None);
    }

    #[test]
    fn a_mode_that_gains_nothing_buys_nothing() {
        let worse_in_all = Shape {
            p99_us: 9500.0,
            user_mib: 30.0,
            ..STOCK
        };
        assert_eq!(text(worse_in_all), None);
        let as_good = Shape {
            user_mib: 30.0,
            ..STOCK
        };
        assert_eq!(text(as_good), None);
    }

    #[test]
    fn a_small_difference_is_no_price_even_beyond_the_noise() {
        let little = Shape {
            user_mib: 95.0,
            compaction_mib: 226.0,
            level0_files: 8.9,
            stall_percent: 50.9,
            debt_mib: 1100.0,
            ..FASTER
        };
        assert_eq!(text(little), None);
    }

    #[test]
    fn what_is_within_the_noise_is_no_price_and_no_gain() {
        let starving = Shape {
            user_mib: 30.0,
            ..FASTER
        };
        let mut runs = runs_of([STOCK, starving], 4);
        runs[1][3].user_writes_mib_per_second = 100.0;
        assert!(trades(&runs).is_empty(), "a price within the noise");
        let mut runs = runs_of([STOCK, starving], 4);
        runs[1][3].phases[1].service_us.p99 = 9100.0;
        assert!(trades(&runs).is_empty(), "a gain within the noise");
        assert!(
            trades(&runs_of([STOCK, starving], 3)).is_empty(),
            "few runs"
        );
        assert_eq!(trades(&runs_of([STOCK, starving], 4)).len(), 1);
    }
}
