//! Sampled foreground reads of SSTables, apart for the time in which compactions run and the time in which they rest:
//! words of the page between the counters and [`crate::declined`].
//!
//! Two things are counted, since a compaction costs readers both:
//!
//! - reads that miss the page cache, of reads that stand for all. Their part is the miss rate.
//! - the latency of those that came from the device. The reads behind one from the device are timed as well, so there
//!   are more of these than of the misses above.
//!
//! A library without these words leaves them zero.

use coldstream_policy::background::{LATENCY_BUCKETS, latency_range_ns};

use crate::declined;
use crate::page::PageView;

/// What background threads do while the foreground reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum Phase {
    /// A compaction, a validation or streaming has read or written SSTables within the last half second.
    Compaction = 0,
    /// For two seconds there was none. A flush does not count.
    Rest = 1,
}

impl Phase {
    /// Both, in the order of the page.
    pub const ALL: [Self; 2] = [Self::Compaction, Self::Rest];

    /// The name in labels and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The words of a phase: samples, missed samples, and the reads in each bucket.
const SAMPLES: usize = 0;
const MISSED: usize = 1;
const BUCKETS: usize = 2;
const PHASE_WORDS: usize = BUCKETS + LATENCY_BUCKETS;
const FIRST_WORD: usize = declined::FIRST_WORD - Phase::ALL.len() * PHASE_WORDS;

const _: () = assert!(crate::page::COUNTERS_END <= FIRST_WORD);

fn word_of(phase: Phase, word: usize) -> usize {
    FIRST_WORD + phase as usize * PHASE_WORDS + word
}

impl PageView<'_> {
    /// Counts a read that stands for all, and whether it missed the page cache.
    pub fn record_sampled_read(&self, phase: Phase, is_missed: bool) {
        self.add_to_word(word_of(phase, SAMPLES));
        if is_missed {
            self.add_to_word(word_of(phase, MISSED));
        }
    }

    /// Counts a read from the device in a bucket of `coldstream_policy::background::latency_bucket`.
    pub fn record_device_read(&self, phase: Phase, bucket: usize) {
        self.add_to_word(word_of(phase, BUCKETS + bucket.min(LATENCY_BUCKETS - 1)));
    }

    /// The reads that stand for all, and how many of them missed the page cache, in all phases.
    #[must_use]
    pub fn sampled_reads(&self) -> (u64, u64) {
        let all = |word| {
            let of = Phase::ALL.map(|phase| self.load(word_of(phase, word)));
            of.into_iter().fold(0, u64::saturating_add)
        };
        (all(SAMPLES), all(MISSED))
    }

    pub(crate) fn phase_reads(&self, phase: Phase) -> PhaseReads {
        let count = |word| self.load(word_of(phase, word));
        PhaseReads {
            sampled: count(SAMPLES),
            missed: count(MISSED),
            by_latency: std::array::from_fn(|bucket| count(BUCKETS + bucket)),
        }
    }
}

/// The sampled foreground reads of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseReads {
    /// Reads that stand for all.
    pub sampled: u64,
    /// The part of them that missed the page cache.
    pub missed: u64,
    by_latency: [u64; LATENCY_BUCKETS],
}

impl Default for PhaseReads {
    fn default() -> Self {
        Self {
            sampled: 0,
            missed: 0,
            by_latency: [0; LATENCY_BUCKETS],
        }
    }
}

/// An estimate of a percentile, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile {
    /// The estimate.
    pub ns: u64,
    /// With a confidence of 95 % the true value lies between this ...
    pub low_ns: u64,
    /// ... and this.
    pub high_ns: u64,
}

impl PhaseReads {
    /// p99 is estimated from this many device reads on. With fewer, the slowest read is no upper bound of it with a
    /// confidence of 95 %.
    pub const READS_MIN: u64 = 400;

    /// Reads from the device.
    #[must_use]
    pub fn device_reads(&self) -> u64 {
        (self.by_latency.iter()).fold(0, |sum, reads| sum.saturating_add(*reads))
    }

    /// Reads from the device that surely took at least `ns`: those of the buckets above it.
    #[must_use]
    pub fn device_reads_from(&self, ns: u64) -> u64 {
        let buckets = self.by_latency.iter().enumerate();
        let above = buckets.filter(|(bucket, _)| latency_range_ns(*bucket).start >= ns);
        above.fold(0, |sum, (_, reads)| sum.saturating_add(*reads))
    }

    /// Reads from the device that took less than each bound, with the bound in nanoseconds; ascending. One bound a
    /// doubling.
    pub fn below(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut below = 0_u64;
        let limited = LATENCY_BUCKETS - 1;
        (self.by_latency.iter().enumerate().take(limited)).filter_map(move |(bucket, reads)| {
            below = below.saturating_add(*reads);
            (bucket % 4 == 3).then(|| (latency_range_ns(bucket).end, below))
        })
    }

    /// The part of the sampled reads that missed the page cache, in percent; `None` without samples.
    #[must_use]
    pub fn missed_percent(&self) -> Option<f64> {
        (self.sampled > 0).then(|| 100.0 * self.missed as f64 / self.sampled as f64)
    }

    /// p99 of the device reads; `None` if there are fewer than [`Self::READS_MIN`].
    #[must_use]
    pub fn p99(&self) -> Option<Percentile> {
        const SHARE: f64 = 0.99;
        /// Standard deviations of a confidence of 95 %.
        const DEVIATIONS: f64 = 1.96;
        let reads = self.device_reads();
        if reads < Self::READS_MIN {
            return None;
        }
        let reads = reads as f64;
        // The number of reads below p99 is binomially distributed, and nearly normally with so many reads.
        let spread = DEVIATIONS * (reads * SHARE * (1.0 - SHARE)).sqrt();
        let rank = reads * SHARE;
        Some(Percentile {
            ns: self.of_rank_ns(rank),
            low_ns: self.of_rank_ns(rank - spread),
            high_ns: self.of_rank_ns(rank + spread),
        })
    }

    /// The latency below which this many reads are. Reads of a bucket are taken to be spread evenly in it.
    fn of_rank_ns(&self, rank: f64) -> u64 {
        let mut before = 0.0;
        let mut last_ns = 0;
        for (bucket, reads) in self.by_latency.iter().enumerate() {
            if *reads == 0 {
                continue;
            }
            let range = latency_range_ns(bucket);
            let reads = *reads as f64;
            if before + reads >= rank {
                let part = ((rank - before) / reads).clamp(0.0, 1.0);
                return range.start + ((range.end - range.start) as f64 * part) as u64;
            }
            before += reads;
            last_ns = range.end;
        }
        last_ns
    }

    /// What was counted since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        // Figures of a forged page may fall.
        Self {
            sampled: self.sampled.saturating_sub(earlier.sampled),
            missed: self.missed.saturating_sub(earlier.missed),
            by_latency: self.combined(earlier, u64::saturating_sub),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            sampled: self.sampled.saturating_add(other.sampled),
            missed: self.missed.saturating_add(other.missed),
            by_latency: self.combined(other, u64::saturating_add),
        }
    }

    fn combined(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> [u64; LATENCY_BUCKETS] {
        let mut result = self.by_latency;
        for (reads, others) in result.iter_mut().zip(other.by_latency) {
            *reads = with(*reads, others);
        }
        result
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use coldstream_policy::background::latency_bucket;

    use super::*;
    use crate::page::PAGE_WORDS;

    /// Reads of these latencies in µs: latency and number.
    pub(crate) fn reads(sampled: u64, missed: u64, latencies: &[(u64, u64)]) -> PhaseReads {
        let mut reads = PhaseReads {
            sampled,
            missed,
            ..PhaseReads::default()
        };
        for (us, number) in latencies {
            reads.by_latency[latency_bucket(us * 1000).unwrap()] += number;
        }
        reads
    }

    #[test]
    fn the_layout_is_pinned() {
        let memory: Vec<_> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = PageView::new(&memory).unwrap();
        page.record_sampled_read(Phase::Compaction, true);
        page.record_sampled_read(Phase::Compaction, false);
        page.record_device_read(Phase::Compaction, 0);
        page.record_sampled_read(Phase::Rest, true);
        page.record_device_read(Phase::Rest, usize::MAX);
        let found: Vec<_> = (memory.iter().enumerate())
            .map(|(place, word)| (place, word.load(Ordering::Relaxed)))
            .filter(|(_, value)| *value != 0)
            .collect();
        assert_eq!(
            found,
            [(228, 2), (229, 1), (230, 1), (294, 1), (295, 1), (359, 1)]
        );
        let rest = page.phase_reads(Phase::Rest);
        assert_eq!((rest.sampled, rest.missed, rest.device_reads()), (1, 1, 1));
    }

    #[test]
    fn p99_needs_enough_reads_and_is_found_within_its_bounds() {
        let few = reads(0, 0, &[(100, PhaseReads::READS_MIN - 1)]);
        assert_eq!(few.p99(), None);
        let some = reads(0, 0, &[(100, 9800), (900, 150), (5000, 50)]);
        let p99 = some.p99().unwrap();
        assert!((850_000..=1_000_000).contains(&p99.ns), "{p99:?}");
        assert!(p99.low_ns <= p99.ns && p99.ns <= p99.high_ns, "{p99:?}");
        let even = reads(0, 0, &[(100, PhaseReads::READS_MIN)]).p99().unwrap();
        assert!((80_000..130_000).contains(&even.ns), "{even:?}");
    }

    #[test]
    fn bounds_are_doublings_and_leave_out_what_has_none() {
        let reads = reads(0, 0, &[(20, 1), (30, 2), (40, 4), (60_000_000, 8)]);
        let below: Vec<_> = reads.below().collect();
        assert_eq!(below[..2], [(32_768, 3), (65_536, 7)]);
        assert_eq!(below.last().unwrap().1, 7);
        assert_eq!(below.len(), LATENCY_BUCKETS / 4 - 1);
        assert_eq!(reads.device_reads_from(32_768), 12);
        assert_eq!(reads.device_reads_from(32_769), 8);
        assert_eq!(reads.device_reads_from(u64::MAX), 0);
    }

    #[test]
    fn forged_numbers_do_not_overflow() {
        let forged = PhaseReads {
            sampled: u64::MAX,
            missed: 1,
            by_latency: [u64::MAX; LATENCY_BUCKETS],
        };
        assert_eq!(forged.device_reads(), u64::MAX);
        assert!(forged.p99().is_some());
        assert_eq!(
            forged.plus(&forged),
            PhaseReads {
                missed: 2,
                ..forged.clone()
            }
        );
        assert_eq!(PhaseReads::default().since(&forged), PhaseReads::default());
        assert!(forged.below().last().is_some());
    }
}
