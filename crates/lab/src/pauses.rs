//! Separates reads that a pause of the virtual machine delayed from all others.
//!
//! While a virtual machine collects garbage, it serves no request. Requests that arrive meanwhile
//! wait in a queue after the pause. At a steady rate, a pause of 35 ms every 4 s delays more than
//! one read in a hundred. The p99 is then the pause, whatever the page cache does. The other reads
//! show what the page cache and the device do.

use coldstream_nodes::Pause;

/// A shorter pause is not distinguished from other waits.
const PAUSE_NS_MIN: u64 = 1_000_000;

/// Pauses of a run, each with the time that its queue takes to drain. That is the duration of the
/// pause again: a node that can serve twice its load needs this long. Times are of the monotonic
/// clock, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    /// In the order of their begin.
    pauses: Vec<PauseAndQueue>,
}

#[derive(Clone, Copy, Debug)]
struct PauseAndQueue {
    pause: Pause,
    /// End of the queues of this pause and of all before it.
    queue_end_ns: u64,
}

/// Pauses in a part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PauseRates {
    /// Pauses of at least a millisecond.
    pub per_second: f64,
    /// Time in them.
    pub ms_per_second: f64,
    /// The longest, ms.
    pub longest_ms: f64,
}

impl Pauses {
    /// All pauses of a run, in any order.
    pub fn new(pauses: impl IntoIterator<Item = Pause>) -> Self {
        let mut pauses: Vec<_> = pauses
            .into_iter()
            .filter(|pause| pause.duration_ns() >= PAUSE_NS_MIN)
            .collect();
        pauses.sort_unstable_by_key(|pause| pause.begin_ns);
        let mut queue_end_ns = 0;
        let pauses = pauses.into_iter().map(|pause| {
            queue_end_ns = queue_end_ns.max(pause.end_ns + pause.duration_ns());
            PauseAndQueue {
                pause,
                queue_end_ns,
            }
        });
        Self {
            pauses: pauses.collect(),
        }
    }

    /// Whether a read from `begin_ns` to `end_ns` overlaps a pause or its queue.
    pub fn delay(&self, begin_ns: u64, end_ns: u64) -> bool {
        let begun = self
            .pauses
            .partition_point(|it| it.pause.begin_ns <= end_ns);
        let last = begun.checked_sub(1).map(|last| self.pauses[last]);
        last.is_some_and(|last| last.queue_end_ns >= begin_ns)
    }

    /// Rates of the pauses that begin in a part of the run.
    pub fn rates(&self, begin_ns: u64, end_ns: u64) -> PauseRates {
        let seconds = end_ns.saturating_sub(begin_ns).max(1) as f64 / 1e9;
        let ms = self
            .pauses
            .iter()
            .map(|it| it.pause)
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
    fn a_pause_and_its_queue_delay_a_read() {
        let pauses = pauses([(100 * MS, 110 * MS), (300 * MS, 300 * MS + MS / 2)]);
        for (begin, end, delayed) in [
            (90, 99, false),
            (90, 100, true),
            (105, 106, true),
            (119, 125, true),
            (121, 125, false),
            (50, 200, true),
            // Too short to count.
            (300, 301, false),
        ] {
            assert_eq!(pauses.delay(begin * MS, end * MS), delayed, "{begin}–{end}");
        }
        assert!(!Pauses::default().delay(0, u64::MAX));
    }

    #[test]
    fn a_short_pause_in_the_queue_of_a_long_one_does_not_hide_it() {
        let pauses = pauses([(130 * MS, 131 * MS), (100 * MS, 120 * MS)]);
        assert!(pauses.delay(136 * MS, 137 * MS));
        assert!(!pauses.delay(141 * MS, 142 * MS));
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
