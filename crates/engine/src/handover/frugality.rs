//! Whether handovers are frugal: most of what those before have warmed was of no use. Then only what was read twice is
//! hot.

use crate::core::Core;
use crate::heat::HeatMap;
use crate::thread::READS_A_SAMPLE_OF_ALL;
use coldstream_control::Counter;
use coldstream_io::lock::FutexLock;
use coldstream_policy::usefulness::{Totals, Usefulness};
use std::sync::atomic::{AtomicBool, Ordering};

/// All-zero memory is not frugal.
#[repr(C)]
pub(super) struct Frugality {
    usefulness: FutexLock<Usefulness>,
    /// What it said last.
    is_frugal: AtomicBool,
}

impl Frugality {
    /// Whether handovers are to be frugal from now on. Without a page nothing is counted, and none is.
    pub(super) fn judge(&self, core: &Core, heat: &HeatMap) -> bool {
        // Another thread judges just now: what was judged last is right as well.
        if let (Some(page), Some(mut usefulness)) = (core.page(), self.usefulness.try_lock()) {
            let (pages, epoch_pages) = heat.clock();
            let (sampled, missed) = page.sampled_reads();
            let all = |samples: u64| samples.saturating_mul(u64::from(READS_A_SAMPLE_OF_ALL));
            let totals = Totals {
                warmed: page.get(Counter::HandoverRangesWarmed),
                hit: page.get(Counter::HandoverRangesHit),
                reads: all(sampled),
                missed: all(missed),
                pages,
            };
            let is_frugal = usefulness.judge(totals, epoch_pages);
            self.is_frugal.store(is_frugal, Ordering::Relaxed);
        }
        self.last()
    }

    /// What was judged last.
    pub(super) fn last(&self) -> bool {
        self.is_frugal.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_is_counted_no_handover_is_frugal() {
        // SAFETY: all-zero memory is a valid one: a lock, numbers in it, and an atomic.
        let (frugality, heat): (Frugality, HeatMap) = unsafe { std::mem::zeroed() };
        let (core, _) = Core::with_file(3);
        assert!(!frugality.judge(&core, &heat) && !frugality.last());
        frugality.is_frugal.store(true, Ordering::Relaxed);
        assert!(frugality.judge(&core, &heat), "what was judged last stays");
    }
}
