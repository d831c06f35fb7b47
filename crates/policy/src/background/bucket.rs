//! Makes all threads together keep to a rate.

use super::observed::SECOND_NS;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time over which unused rate may be used later, in nanoseconds. So a thread that works in bursts
/// reaches its rate.
pub const BURST_NS: u64 = 20_000_000;

/// The longest wait, however much was taken at once.
const AHEAD_NS_MAX: u64 = SECOND_NS;

/// The moment from which more bytes may be moved. A thread waits after it has moved bytes, when their number
/// is known. All-zero memory is a new one. Any number of threads may use it at once.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Bucket {
    free_ns: AtomicU64,
}

impl Bucket {
    /// Takes the bytes that were moved at `now_ns`. `bytes_per_second` is the limit; 0 is none.
    pub fn take(&self, bytes: u64, bytes_per_second: u64, now_ns: u64) {
        if bytes_per_second == 0 {
            return;
        }
        let cost_ns = u128::from(bytes) * u128::from(SECOND_NS) / u128::from(bytes_per_second);
        let cost_ns = u64::try_from(cost_ns).unwrap_or(u64::MAX);
        let least_ns = now_ns.saturating_sub(BURST_NS);
        let most_ns = now_ns.saturating_add(AHEAD_NS_MAX);
        let later = |free_ns: u64| Some(free_ns.max(least_ns).saturating_add(cost_ns).min(most_ns));
        // This never fails: `later` always returns a value.
        let _ = self
            .free_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// The time to wait before more bytes may be moved, in nanoseconds.
    #[must_use]
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        let free_ns = self.free_ns.load(Ordering::Relaxed);
        // After a fork or a change of the clock the moment may be far away.
        free_ns.saturating_sub(now_ns).min(AHEAD_NS_MAX)
    }

    /// Ends all waits.
    pub fn open(&self) {
        self.free_ns.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each request loses less than a nanosecond to rounding, which is four bytes at 4 GiB/s.
    const ROUNDED: u128 = 200 * 5;

    proptest! {
        /// A thread that waits moves as many bytes as the rate allows: no more, except for the burst and the
        /// last request, and no less.
        #[test]
        fn a_rate_is_kept(
            rate in 1_u64 << 20..1 << 32, sizes in proptest::collection::vec(4096_u64..1 << 20, 50..200),
            start in 0_u64..1 << 50,
        ) {
            let bucket = Bucket::default();
            let mut now = start;
            let mut moved = 0;
            for size in &sizes {
                now += bucket.wait_ns(now);
                bucket.take(*size, rate, now);
                moved += size;
            }
            let elapsed = u128::from(now - start);
            let may = u128::from(rate) * (elapsed + u128::from(BURST_NS)) / 1_000_000_000;
            let moved = u128::from(moved);
            prop_assert!(moved <= may + (1 << 20) + ROUNDED, "{} of {}", moved, may);
            let must = u128::from(rate) * elapsed / 1_000_000_000;
            prop_assert!(moved + ROUNDED >= must, "{} of {}", moved, must);
        }

        #[test]
        fn no_wait_is_for_ever(
            takes in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..20),
        ) {
            let bucket = Bucket::default();
            for (bytes, rate, now) in takes {
                bucket.take(bytes, rate, now);
                prop_assert!(bucket.wait_ns(now) <= 1_000_000_000);
            }
            bucket.open();
            prop_assert_eq!(bucket.wait_ns(0), 0);
        }
    }
}
