//! Several runs of one mode together: median and spread of a figure, and whether two modes differ
//! by more than the noise.

use crate::phase::Phase;

/// Median, smallest and largest of a figure over the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Spread {
    /// Median; of an even number, the mean of the middle two.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Spread {
    /// The spread of these values; all 0 if there is none.
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

    /// Whether every value is 0.
    pub fn is_zero(&self) -> bool {
        self.min == 0.0 && self.max == 0.0
    }

    fn is_apart_from(&self, other: &Self) -> bool {
        self.min > other.max || self.max < other.min
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
    /// Phase; none for figures of the whole run.
    pub phase: Option<Phase>,
    /// Name with its unit.
    pub name: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// What the figure means, in one sentence.
    pub explanation: &'static str,
    /// One spread a mode.
    pub modes: Vec<Spread>,
}

/// Fewer runs of each mode prove nothing: by chance, the spreads of more than a row or two of a
/// table lie apart.
pub const RUNS_MIN: usize = 4;

/// A smaller difference of the medians counts as none.
pub const TOLERANCE: f64 = 0.02;

/// How the figure of a mode differs from the first mode's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The median is better by more than [`TOLERANCE`].
    Better(Certainty),
    /// The median is worse by more than [`TOLERANCE`].
    Worse(Certainty),
    /// Neither.
    Even,
}

/// Whether a difference is more than chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// The spreads of at least [`RUNS_MIN`] runs do not overlap.
    BeyondNoise,
    /// The spreads overlap.
    WithinNoise,
    /// The spreads do not overlap, but there are fewer than [`RUNS_MIN`] runs.
    TooFewRuns,
}

impl Change {
    /// Compares `this` with `first`.
    pub fn between(better: Better, first: &Spread, this: &Spread) -> Self {
        let is_more = this.median > first.median * (1.0 + TOLERANCE);
        let is_less = this.median < first.median * (1.0 - TOLERANCE);
        let certainty = if !this.is_apart_from(first) {
            Certainty::WithinNoise
        } else if first.runs.min(this.runs) < RUNS_MIN {
            Certainty::TooFewRuns
        } else {
            Certainty::BeyondNoise
        };
        match (better, is_less, is_more) {
            (Better::Less, true, _) | (Better::More, _, true) => Self::Better(certainty),
            (Better::Less, _, true) | (Better::More, true, _) => Self::Worse(certainty),
            _ => Self::Even,
        }
    }
}

impl Row {
    /// How a mode differs from the first one in this row.
    pub fn change(&self, mode: usize) -> Change {
        match (self.modes.first(), self.modes.get(mode)) {
            (Some(first), Some(this)) => Change::between(self.better, first, this),
            _ => Change::Even,
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

    fn change<const N: usize>(better: Better, first: [f64; N], second: [f64; N]) -> Change {
        let row = Row {
            phase: None,
            name: "x",
            better,
            explanation: "",
            modes: vec![Spread::of(first), Spread::of(second)],
        };
        row.change(1)
    }

    #[test]
    fn a_loss_is_one_even_when_it_is_small() {
        let first = [100.0, 101.0, 101.0, 102.0];
        let less = |second| change(Better::Less, first, second);
        let beyond = Certainty::BeyondNoise;
        assert_eq!(less([104.0, 105.0, 105.0, 106.0]), Change::Worse(beyond));
        assert_eq!(
            less([99.0, 105.0, 105.0, 106.0]),
            Change::Worse(Certainty::WithinNoise)
        );
        assert_eq!(less([101.0, 102.0, 102.0, 103.0]), Change::Even);
        assert_eq!(less([50.0, 51.0, 51.0, 52.0]), Change::Better(beyond));
        assert_eq!(
            change(Better::More, first, [50.0, 51.0, 51.0, 52.0]),
            Change::Worse(beyond)
        );
        assert_eq!(change(Better::Neither, first, [1.0; 4]), Change::Even);
    }

    #[test]
    fn few_runs_prove_nothing() {
        assert_eq!(
            change(Better::Less, [100.0, 101.0], [50.0, 51.0]),
            Change::Better(Certainty::TooFewRuns)
        );
        assert_eq!(
            change(Better::Less, [100.0, 110.0], [104.0, 130.0]),
            Change::Worse(Certainty::WithinNoise)
        );
    }
}
