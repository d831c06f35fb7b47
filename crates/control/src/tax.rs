//! The tax of device reads: how much slower the foreground's reads from the device are while compactions run.
//!
//! It is a part of the compaction tax, which is about whole requests. The other part is the miss rate: a compaction also
//! makes more reads go to the device. So both are always said together.

use serde::{Deserialize, Serialize};

use crate::phase::{Percentile, PhaseReads};

/// The tax of device reads, over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceReadTax {
    /// p99 of device reads in compaction, divided by p99 at rest. None if one of both has too few reads.
    pub ratio: Option<RatioEstimate>,
    /// Reads while compactions ran.
    pub in_compaction: PhaseFigures,
    /// Reads while they rested.
    pub at_rest: PhaseFigures,
}

/// An estimate of the ratio of two percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioEstimate {
    /// The estimate.
    pub estimate: f64,
    /// The lowest ratio that fits to the 95 % intervals of both percentiles.
    pub low: f64,
    /// The highest one.
    pub high: f64,
}

/// Figures of one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseFigures {
    /// Timed reads that came from the device.
    pub device_reads: u64,
    /// 99 of 100 of them took less; none if there are too few.
    pub p99_ns: Option<u64>,
    /// Reads that stand for all.
    pub sampled_reads: u64,
    /// The percentage of these that missed the page cache; none without any.
    pub missed_percent: Option<f64>,
}

impl DeviceReadTax {
    /// The tax of these reads.
    #[must_use]
    pub fn of(in_compaction: &PhaseReads, at_rest: &PhaseReads) -> Self {
        Self {
            ratio: RatioEstimate::of(in_compaction.p99(), at_rest.p99()),
            in_compaction: PhaseFigures::of(in_compaction),
            at_rest: PhaseFigures::of(at_rest),
        }
    }

    /// Whether no read was sampled at all: an older library, or no read yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let reads = |figures: &PhaseFigures| figures.device_reads | figures.sampled_reads;
        reads(&self.in_compaction) | reads(&self.at_rest) == 0
    }
}

impl RatioEstimate {
    /// The ratio of two percentiles; `None` if one is missing.
    #[must_use]
    pub fn of(above: Option<Percentile>, below: Option<Percentile>) -> Option<Self> {
        let (above, below) = above.zip(below)?;
        let ratio = |above_ns: u64, below_ns: u64| above_ns as f64 / below_ns.max(1) as f64;
        Some(Self {
            estimate: ratio(above.ns, below.ns),
            low: ratio(above.low_ns, below.high_ns),
            high: ratio(above.high_ns, below.low_ns),
        })
    }
}

impl PhaseFigures {
    /// The figures of these reads.
    #[must_use]
    pub fn of(reads: &PhaseReads) -> Self {
        Self {
            device_reads: reads.device_reads(),
            p99_ns: reads.p99().map(|p99| p99.ns),
            sampled_reads: reads.sampled,
            missed_percent: reads.missed_percent(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::tests::reads;

    #[test]
    fn slower_reads_and_more_misses_are_both_said() {
        let rest = reads(1000, 10, &[(100, 1000)]);
        let compaction = reads(1000, 30, &[(100, 900), (420, 100)]);
        let tax = DeviceReadTax::of(&compaction, &rest);
        let ratio = tax.ratio.unwrap();
        assert!((3.0..5.0).contains(&ratio.estimate), "{ratio:?}");
        assert!(ratio.low <= ratio.estimate && ratio.estimate <= ratio.high);
        assert_eq!(tax.in_compaction.missed_percent, Some(3.0));
        assert_eq!(tax.at_rest.missed_percent, Some(1.0));
        assert!(!tax.is_empty());
    }

    #[test]
    fn too_few_reads_are_no_ratio() {
        let many = reads(1000, 0, &[(100, 1000)]);
        let few = reads(7, 1, &[(100, 7)]);
        let tax = DeviceReadTax::of(&few, &many);
        assert_eq!((tax.ratio, tax.in_compaction.p99_ns), (None, None));
        assert_eq!(tax.in_compaction.device_reads, 7);
        let none = reads(0, 0, &[]);
        assert!(DeviceReadTax::of(&none, &none).is_empty());
    }
}
