//! How much processor time it takes to warm a page, as far as this process has seen.

use std::sync::atomic::{AtomicU64, Ordering};

/// The processor time to warm a page, in nanoseconds, before one was warmed: two system calls, and the copy of a page.
const AT_FIRST_NS: u64 = 5_000;

/// The mean of all handovers, the last ones before all. All-zero memory has seen none.
#[repr(C)]
pub(super) struct WarmingTime {
    /// In nanoseconds a page; 0 is unknown.
    mean_ns: AtomicU64,
}

impl WarmingTime {
    /// `pages` were warmed in `taken_ns`.
    pub(super) fn record(&self, pages: u64, taken_ns: i128) {
        let taken_ns = u64::try_from(taken_ns).unwrap_or(u64::MAX);
        if let Some(now) = taken_ns.checked_div(pages) {
            let mean = match self.mean_ns.load(Ordering::Relaxed) {
                0 => now,
                before => before - before / 4 + now / 4,
            };
            self.mean_ns.store(mean.max(1), Ordering::Relaxed);
        }
    }

    /// The number of pages that can be warmed in a time.
    pub(super) fn pages_in(&self, ns: i128) -> usize {
        let page_ns = match self.mean_ns.load(Ordering::Relaxed) {
            0 => AT_FIRST_NS,
            mean => mean,
        };
        usize::try_from(ns.max(0) / i128::from(page_ns)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_what_was_seen() {
        let time = WarmingTime {
            mean_ns: AtomicU64::new(0),
        };
        assert_eq!(time.pages_in(1_000_000), 200);
        time.record(0, 5_000_000);
        assert_eq!(time.pages_in(1_000_000), 200, "no page says nothing");
        time.record(10, 1_000_000);
        assert_eq!(time.pages_in(1_000_000), 10);
        time.record(10, 5_000_000);
        assert_eq!(time.pages_in(1_000_000), 5);
        assert_eq!(time.pages_in(-1), 0);
    }
}
