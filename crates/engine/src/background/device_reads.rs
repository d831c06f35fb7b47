//! The foreground's device reads, counted by latency until the controller takes them.

use coldstream_policy::background::{LATENCY_BUCKETS, Latencies};
use std::sync::atomic::{AtomicU32, Ordering};

/// This many timed reads are remembered while no background thread works; then the older half fades.
const READS_REMEMBERED: u32 = 1024;
/// All-zero memory has none.
#[repr(C)]
pub(super) struct DeviceReads {
    counts: [AtomicU32; LATENCY_BUCKETS],
    /// Reads that nobody has taken yet.
    waiting: AtomicU32,
}

impl DeviceReads {
    /// Counts a read in its latency's bucket.
    pub(super) fn record(&self, bucket: usize) {
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= READS_REMEMBERED {
            self.waiting.store(READS_REMEMBERED / 2, Ordering::Relaxed);
            for count in &self.counts {
                // Another thread's read may get lost.
                count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }

    /// Takes all reads; `None` if there is none.
    pub(super) fn take(&self) -> Option<Latencies> {
        if self.waiting.swap(0, Ordering::Relaxed) == 0 {
            return None;
        }
        let mut latencies = Latencies::default();
        for (bucket, count) in self.counts.iter().enumerate() {
            latencies.add(bucket, count.swap(0, Ordering::Relaxed));
        }
        Some(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_policy::background::latency_bucket;

    #[test]
    fn many_reads_fade_while_nobody_looks() {
        // SAFETY: all-zero memory is a valid one.
        let reads: DeviceReads = unsafe { std::mem::zeroed() };
        let (old, new) = (
            latency_bucket(100_000).unwrap(),
            latency_bucket(900_000).unwrap(),
        );
        for _ in 0..READS_REMEMBERED {
            reads.record(old);
        }
        for _ in 0..4 * READS_REMEMBERED {
            reads.record(new);
        }
        let taken = reads.take().unwrap();
        assert!(taken.count() <= READS_REMEMBERED + 1, "{}", taken.count());
        assert!(taken.mean_ns(u64::MAX) > 800_000);
        assert!(reads.take().is_none());
    }
}
