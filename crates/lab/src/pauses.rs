//! What the virtual machine's own pauses do to reads, told apart from what the disk does.
//!
//! While a virtual machine collects garbage no request is served, and those that have come
//! meanwhile wait in a queue after it. At a steady rate a pause of 35 ms every 4 s is in more than
//! one read of a hundred, so that it *is* the p99, whatever becomes of the page cache. The reads
//! that no pause has touched show what is left.

use coldstream_nodes::Pause;

/// A shorter pause is not told apart from the rest of what a read waits for.
const PAUSE_NS_MIN: u64 = 1_000_000;

/// Pauses of a run, each with the time that its queue takes to dissolve: as long again, since a
/// node that can serve twice its load needs so long. Times are of the monotonic clock, in
/// nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    /// By their begin.
    pauses: Vec<Settling>,
}

#[derive(Clone, Copy, Debug)]
struct Settling {
    pause: Pause,
    /// When the queues of this one and of all before it are dissolved.
    settled_ns: u64,
}

/// Pauses in a part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct PauseRates {
    /// Of at least a millisecond.
    pub per_second: f64,
    /// Time in them.
    pub ms_per_second: f64,
    /// The longest, ms.
    pub longest_ms: f64,
}

impl Pauses {
    /// Of all of a run.
    pub fn new(pauses: impl IntoIterator<Item = Pause>) -> Self {
        let mut pauses: Vec<_> = pauses
            .into_iter()
            .filter(|pause| pause.duration_ns() >= PAUSE_NS_MIN)
            .collect();
        pauses.sort_unstable_by_key(|pause| pause.begin_ns);
        let mut settled_ns = 0;
        let pauses = pauses.into_iter().map(|pause| {
            settled_ns = settled_ns.max(pause.end_ns + pause.duration_ns());
            Settling { pause, settled_ns }
        });
        Self {
            pauses: pauses.collect(),
        }
    }

    /// Whether anything of a read from `begin_ns` to `end_ns` lies in a pause or its queue.
    pub fn touch(&self, begin_ns: u64, end_ns: u64) -> bool {
        let begun = self
            .pauses
            .partition_point(|settling| settling.pause.begin_ns <= end_ns);
        let last = begun.checked_sub(1).map(|last| self.pauses[last]);
        last.is_some_and(|last| last.settled_ns >= begin_ns)
    }

    /// Those that begin in a part of the run.
    pub fn rates(&self, begin_ns: u64, end_ns: u64) -> PauseRates {
        let seconds = end_ns.saturating_sub(begin_ns).max(1) as f64 / 1e9;
        let ms = self
            .pauses
            .iter()
            .map(|settling| settling.pause)
            .filter(|pause| (begin_ns..end_ns).contains(&pause.begin_ns))
            .map(|pause| pause.duration_ns() as f64 / 1e6);
        let (mut count, mut sum_ms, mut longest_ms) = (0.0, 0.0, 0.0_f64);
        for ms in ms {
            count += 1.0;
            sum_ms += ms;
            longest_ms = longest_ms.max(ms);
        }
        PauseRates {
            per_second: count / seconds,
            ms_per_second: sum_ms / seconds,
            longest_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pauses<const N: usize>(pauses: [(u64, u64); N]) -> Pauses {
        Pauses::new(pauses.map(|(begin_ns, end_ns)| Pause { begin_ns, end_ns }))
    }

    #[test]
    fn a_read_is_touched_by_a_pause_and_by_its_queue() {
        let pauses = pauses([(100 * MS, 110 * MS), (300 * MS, 300 * MS + MS / 2)]);
        for (begin, end, touched) in [
            (90, 99, false),
            (90, 100, true),
            (105, 106, true),
            (119, 125, true),
            (121, 125, false),
            (50, 200, true),
            // Too short to count.
            (300, 301, false),
        ] {
            assert_eq!(pauses.touch(begin * MS, end * MS), touched, "{begin}–{end}");
        }
        assert!(!Pauses::default().touch(0, u64::MAX));
    }

    #[test]
    fn a_short_pause_in_the_queue_of_a_long_one_does_not_hide_it() {
        let pauses = pauses([(130 * MS, 131 * MS), (100 * MS, 120 * MS)]);
        assert!(pauses.touch(136 * MS, 137 * MS));
        assert!(!pauses.touch(141 * MS, 142 * MS));
    }

    #[test]
    fn rates_are_those_of_the_part() {
        let pauses = pauses([
            (100 * MS, 110 * MS),
            (900 * MS, 930 * MS),
            (2100 * MS, 2200 * MS),
        ]);
        let rates = pauses.rates(0, 2000 * MS);
        assert_eq!(
            (rates.per_second, rates.ms_per_second, rates.longest_ms),
            (1.0, 20.0, 30.0)
        );
        assert_eq!(pauses.rates(3000 * MS, 4000 * MS), PauseRates::default());
    }
}
