//! What a snapshot says about the use of Coldstream for a process.

use crate::counter::Counter;
use crate::phase::PhaseReads;
use crate::snapshot::Snapshot;

/// Background reads before a verdict. Flushes leave their SSTables in the page cache, and the first compaction reads
/// nothing else: 256 MiB with RocksDB's defaults. A second one reads its output, too.
const BACKGROUND_BYTES_MIN: u64 = 512 << 20;
/// The least share of cached input. Where only flushes are cached, a compaction of level 0 finds half of its input cached:
/// level 1 is as large, and around the cache.
const CACHED_PERCENT_MIN: u64 = 75;
/// From so many sampled reads on the share that missed the page cache counts.
const SAMPLED_MIN: u64 = 100;
/// More of them miss only where the data does not fit.
const MISSED_PERCENT_MAX: u64 = 2;

impl Snapshot {
    /// One sentence for a process that has little to gain; `None` for all others.
    ///
    /// New SSTables must have stayed cached, too. Where memory is short they do not, and a young database compacts little
    /// but flushes. Nor may reads miss the page cache: what was just loaded is cached for a while.
    #[must_use]
    pub fn verdict(&self) -> Option<&'static str> {
        let read = self.get(Counter::BackgroundBytes);
        let cached = self.get(Counter::BytesFromCache);
        let PhaseReads {
            sampled, missed, ..
        } = self.all_reads();
        let misses = sampled >= SAMPLED_MIN && missed > sampled / 100 * MISSED_PERCENT_MAX;
        let fits = read >= BACKGROUND_BYTES_MIN
            && cached >= read / 100 * CACHED_PERCENT_MIN
            && self.get(Counter::KeptCached) >= self.get(Counter::StagedFiles)
            && !misses;
        fits.then_some(
            "Most inputs were cached so far. Unless the data was loaded just now, it fits in memory, and there is little to gain.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Phase;
    use crate::snapshot::tests::snapshot;

    #[test]
    fn little_is_to_gain_where_inputs_were_cached_and_outputs_stayed() {
        const GIB: u64 = 1 << 30;
        for (read, cached, kept, staged, has_verdict) in [
            (GIB, GIB, 20, 1, true),
            (GIB, GIB * 4 / 5, 20, 1, true),
            // Without staged writes nothing says where outputs stay.
            (GIB, GIB, 0, 0, true),
            (GIB, GIB / 2, 20, 1, false),
            (GIB, GIB, 1, 20, false),
            (GIB / 4, GIB / 4, 20, 1, false),
            (0, 0, 0, 0, false),
            (u64::MAX, u64::MAX, 20, 1, true),
        ] {
            let snapshot = snapshot(&[
                (Counter::BackgroundBytes, read),
                (Counter::BytesFromCache, cached),
                (Counter::KeptCached, kept),
                (Counter::StagedFiles, staged),
            ]);
            let verdict = snapshot.verdict();
            assert_eq!(
                verdict.is_some(),
                has_verdict,
                "{read} {cached} {kept} {staged}"
            );
        }
    }

    #[test]
    fn nothing_fits_where_reads_miss_the_page_cache() {
        let of = |sampled, missed| {
            let mut snapshot = snapshot(&[
                (Counter::BackgroundBytes, 1 << 30),
                (Counter::BytesFromCache, 1 << 30),
            ]);
            snapshot.phases[Phase::Rest as usize].sampled = sampled;
            snapshot.phases[Phase::Rest as usize].missed = missed;
            snapshot.verdict().is_some()
        };
        assert!(of(1000, 20) && of(99, 99));
        assert!(!of(1000, 21));
    }
}
