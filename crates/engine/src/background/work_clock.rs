//! When a background thread read or wrote an SSTable last, but for flushes. So a foreground read knows its phase:
//! whether a compaction ran.

use coldstream_control::Phase;
use coldstream_io::sys::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// A compaction runs until this time after its last read or write. With less than 2 MiB/s it may read or write only
/// this often.
const WORK_MILLISECONDS: u64 = 500;
/// It rests from this time on, as for the controller. Meanwhile its effects fade.
const REST_MILLISECONDS: u64 = 2000;
/// The time of the last work is not written more often: all background threads share it.
const WORK_STEP_MILLISECONDS: u64 = 16;

/// All-zero memory knows no work.
#[repr(C)]
pub(super) struct WorkClock {
    /// In milliseconds of the clock [`monotonic_ns`](process::monotonic_ns) plus one; 0 is never.
    last_milliseconds: AtomicU64,
}

impl WorkClock {
    /// There is work now.
    pub(super) fn record(&self) {
        let now = milliseconds(process::monotonic_ns());
        let last = self.last_milliseconds.load(Ordering::Relaxed);
        if now.saturating_sub(last) >= WORK_STEP_MILLISECONDS {
            self.last_milliseconds.store(now, Ordering::Relaxed);
        }
    }

    /// The phase in which a read ended at `ended_ns`. `None` between the two: what compactions left behind fades.
    pub(super) fn phase_at(&self, ended_ns: u64) -> Option<Phase> {
        let last = self.last_milliseconds.load(Ordering::Relaxed);
        match milliseconds(ended_ns).saturating_sub(last) {
            _ if last == 0 => Some(Phase::Rest),
            0..WORK_MILLISECONDS => Some(Phase::Compaction),
            WORK_MILLISECONDS..REST_MILLISECONDS => None,
            _ => Some(Phase::Rest),
        }
    }
}

/// A time, as the clock keeps it.
fn milliseconds(ns: u64) -> u64 {
    ns / 1_000_000 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(last_milliseconds: u64) -> WorkClock {
        WorkClock {
            last_milliseconds: AtomicU64::new(last_milliseconds),
        }
    }

    #[test]
    fn phases_are_told_by_the_time_since_the_last_work() {
        let at = |milliseconds: u64| clock(10_001).phase_at(milliseconds * 1_000_000);
        assert_eq!(
            clock(0).phase_at(0),
            Some(Phase::Rest),
            "there was never any"
        );
        assert_eq!(
            at(9_000),
            Some(Phase::Compaction),
            "work of another thread meanwhile"
        );
        assert_eq!(at(10_000), Some(Phase::Compaction));
        assert_eq!(at(10_499), Some(Phase::Compaction));
        assert_eq!(at(10_500), None);
        assert_eq!(at(11_999), None);
        assert_eq!(at(12_000), Some(Phase::Rest));
    }

    #[test]
    fn work_is_noted_in_steps() {
        let clock = clock(0);
        clock.record();
        let last = &clock.last_milliseconds;
        let first = last.load(Ordering::Relaxed);
        assert!(first > 0);
        last.store(first + 1000, Ordering::Relaxed);
        clock.record();
        let kept = last.load(Ordering::Relaxed);
        assert_eq!(kept, first + 1000, "a later one of another thread");
    }
}
