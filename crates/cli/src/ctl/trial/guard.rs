//! The guard of a trial: ends it when device reads without Coldstream are too slow. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use coldstream_control::PhaseReads;

/// The guard looks at the reads of this time: a long turn with a good beginning is no excuse.
const WINDOW: Duration = Duration::from_secs(5);
/// So many slow reads are no chance.
const SLOW_READS_MIN: u64 = 10;

/// The guard of one turn.
pub struct Guard {
    bound_ns: u64,
    /// What was counted at earlier moments of this turn; the oldest first.
    moments: VecDeque<(Instant, PhaseReads)>,
}

impl Guard {
    /// A turn begins, and so much was counted before.
    pub fn of_turn(bound_ns: u64, now: Instant, counted: PhaseReads) -> Self {
        Self {
            bound_ns,
            moments: [(now, counted)].into(),
        }
    }

    /// Whether p99 of the last seconds has passed the bound: more than one read in 100 took longer, and at least ten.
    pub fn is_passed(&mut self, now: Instant, counted: &PhaseReads) -> bool {
        while let [_, (next, _), ..] = self.moments.make_contiguous()
            && now.saturating_duration_since(*next) >= WINDOW
        {
            self.moments.pop_front();
        }
        let lately = match self.moments.front() {
            Some((_, earlier)) => counted.since(earlier),
            None => PhaseReads::default(),
        };
        self.moments.push_back((now, counted.clone()));
        let slow = lately.device_reads_from(self.bound_ns);
        slow >= SLOW_READS_MIN && slow.saturating_mul(100) > lately.device_reads()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use coldstream_control::{PAGE_WORDS, PageView, Phase};
    use coldstream_policy::background::latency_bucket;

    use super::*;
    use crate::ctl::trial::result::tests::empty_page;

    #[test]
    fn slow_reads_of_the_last_seconds_pass_the_bound_and_few_do_not() {
        let words: Vec<AtomicU64> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = PageView::new(&words).unwrap();
        empty_page(&page);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let add = |reads: u64, ns: u64| {
            for _ in 0..reads {
                page.record_device_read(Phase::Rest, latency_bucket(ns).unwrap());
            }
            page.snapshot().unwrap().phase_reads(Phase::Rest).clone()
        };
        let mut guard = Guard::of_turn(1_000_000, start, PhaseReads::default());
        assert!(!guard.is_passed(at(1), &add(9, 5_000_000)), "too few");
        assert!(!guard.is_passed(at(2), &add(2000, 100_000)));
        assert!(!guard.is_passed(at(3), &add(10, 5_000_000)), "19 of 2019");
        assert!(guard.is_passed(at(4), &add(3, 5_000_000)), "22 of 2022");
        let mut guard = Guard::of_turn(1_000_000, start, add(100_000, 100_000));
        assert!(!guard.is_passed(at(6), &add(0, 100_000)));
        assert!(!guard.is_passed(at(12), &add(0, 100_000)));
        assert!(
            guard.is_passed(at(13), &add(10, 2_000_000)),
            "ten of ten lately"
        );
    }
}
