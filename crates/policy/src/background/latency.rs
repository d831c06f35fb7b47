//! A compact histogram of latencies.

use std::ops::Range;

/// A read that takes less comes from memory, and is no device read; in nanoseconds. A cached block takes 1
/// to 10 µs, a block of a fast device 30 µs and more (28 µs were measured).
pub const MEMORY_NS: u64 = 16_384;

/// The number of buckets: four for each doubling, from [`MEMORY_NS`] to about one second.
pub const LATENCY_BUCKETS: usize = 64;

const FIRST_POWER: u32 = MEMORY_NS.ilog2();

/// The bucket of a latency in nanoseconds; `None` if it is no device read.
#[must_use]
pub fn latency_bucket(ns: u64) -> Option<usize> {
    if ns < MEMORY_NS {
        return None;
    }
    let power = ns.ilog2();
    let quarter = (ns >> (power - 2) & 3) as usize;
    let bucket = (power - FIRST_POWER) as usize * 4 + quarter;
    Some(bucket.min(LATENCY_BUCKETS - 1))
}

/// The latencies of a bucket, in nanoseconds. The last bucket has all longer ones, too.
#[must_use]
pub fn latency_range_ns(bucket: usize) -> Range<u64> {
    let bucket = bucket.min(LATENCY_BUCKETS - 1) as u64;
    let quarter_ns = (MEMORY_NS / 4) << (bucket / 4);
    let start_ns = quarter_ns * (4 + bucket % 4);
    start_ns..start_ns + quarter_ns
}

/// The middle of a bucket, in nanoseconds.
fn middle_ns(bucket: usize) -> u64 {
    let range = latency_range_ns(bucket);
    range.start.midpoint(range.end)
}

/// A histogram of latencies of device reads. All-zero memory is an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Latencies {
    counts: [u32; LATENCY_BUCKETS],
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            counts: [0; LATENCY_BUCKETS],
        }
    }
}

impl Latencies {
    /// Records one read. A latency below [`MEMORY_NS`] is left out.
    pub fn record(&mut self, ns: u64) {
        if let Some(bucket) = latency_bucket(ns) {
            self.add(bucket, 1);
        }
    }

    /// Adds reads to a bucket of [`latency_bucket`].
    pub fn add(&mut self, bucket: usize, reads: u32) {
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(reads);
        }
    }

    /// Adds the reads of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// Removes all reads.
    pub fn clear(&mut self) {
        self.counts = [0; LATENCY_BUCKETS];
    }

    /// The number of reads.
    #[must_use]
    pub fn count(&self) -> u32 {
        let sum: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        u32::try_from(sum).unwrap_or(u32::MAX)
    }

    /// The mean latency in nanoseconds, where each counts as `cut_off_ns` at most; 0 without reads.
    #[must_use]
    pub fn mean_ns(&self, cut_off_ns: u64) -> u64 {
        let mut reads = 0;
        let mut sum_ns = 0_u128;
        for (bucket, count) in self.counts.iter().enumerate() {
            reads += u128::from(*count);
            sum_ns += u128::from(*count) * u128::from(middle_ns(bucket).min(cut_off_ns));
        }
        let mean_ns = sum_ns.checked_div(reads).unwrap_or(0);
        u64::try_from(mean_ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_from_memory_are_left_out() {
        let mut latencies = Latencies::default();
        latencies.record(MEMORY_NS - 1);
        assert_eq!((latencies.count(), latencies.mean_ns(u64::MAX)), (0, 0));
        latencies.record(MEMORY_NS);
        latencies.record(u64::MAX);
        assert_eq!(latencies.count(), 2);
        latencies.clear();
        assert_eq!(latencies, Latencies::default());
    }

    #[test]
    fn a_mean_is_cut_off() {
        let mut latencies = Latencies::default();
        latencies.add(latency_bucket(100_000).unwrap(), 9);
        latencies.record(50_000_000);
        assert!((4_500_000..5_500_000).contains(&latencies.mean_ns(u64::MAX)));
        let cut = latencies.mean_ns(800_000);
        assert!((160_000..190_000).contains(&cut), "{cut}");
    }

    proptest! {
        #[test]
        fn buckets_are_in_order_and_their_middles_near(ns in MEMORY_NS..1_000_000_000, more in 0_u64..1 << 40) {
            let bucket = latency_bucket(ns).unwrap();
            prop_assert!(latency_bucket(ns + more).unwrap() >= bucket);
            prop_assert!(latency_range_ns(bucket).contains(&ns));
            let middle = middle_ns(bucket);
            prop_assert_eq!(latency_bucket(middle), Some(bucket));
            prop_assert!(middle.abs_diff(ns) * 8 <= ns, "{} {}", ns, middle);
        }
    }
}
