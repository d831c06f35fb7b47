//! Whether what handovers warm is of use to the foreground. Where it is not, they are frugal.
//!
//! A handover reads a page so that a reader need not. Where reads are spread over far more than memory holds, most
//! warmed pages are never read: each costs a read of the device, and readers wait for the device all the same. Two
//! shares tell, and only both together make handovers frugal:
//!
//! - how many of the warmed ranges were read: what a spared read costs;
//! - how many reads of the device were spared, of those that were made and those that were spared. A hot set that is
//!   seldom read has a low share of the first kind. But without handovers all of its reads would miss.
//!
//! A warm range may be out of the page cache again before it is read. Which ones are is not known: as many of them as of
//! all reads.
//!
//! A frugal handover warms only what was read twice within an epoch. Spread reads hardly come back so soon, and the reads
//! of a hot set do. So a wrong judgement costs little, and it is taken back: what is warmed then has its reads.

/// Ranges that a window must have: the error of a share of a quarter is then 2 % (one standard deviation).
const RANGES_MIN: u64 = 512;
/// Reads that a window must have: 32 samples. Those between half a second and two seconds after a compaction are not
/// sampled.
const READS_MIN: u64 = 2048;
/// The part of an epoch of reads that a window must have. What was warmed has its reads within the next windows.
const WINDOWS_AN_EPOCH: u64 = 2;
/// So many windows in a row must say the same before handovers become frugal. In the first one reads may only begin.
const WINDOWS_MIN: u8 = 3;

/// Handovers become frugal below these shares.
const FRUGAL_BELOW: Shares = Shares {
    ranges: 4.0,
    reads: 8.0,
};
/// They warm everything again from one of these shares on. They are larger: otherwise noise would switch all the time.
const ALL_FROM: Shares = Shares {
    ranges: 3.0,
    reads: 6.0,
};

/// One warmed range of `ranges` was read, one device read of `reads` was spared.
struct Shares {
    ranges: f64,
    reads: f64,
}

/// What was counted since the process started, or within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Ranges that were warmed.
    pub warmed: u64,
    /// Those of them that the foreground read since.
    pub hit: u64,
    /// Foreground reads.
    pub reads: u64,
    /// Those of them that came from the device.
    pub missed: u64,
    /// Pages that the foreground read, from wherever they came.
    pub pages: u64,
}

impl Totals {
    fn since(self, before: Self) -> Self {
        Self {
            warmed: self.warmed.saturating_sub(before.warmed),
            hit: self.hit.saturating_sub(before.hit),
            reads: self.reads.saturating_sub(before.reads),
            missed: self.missed.saturating_sub(before.missed),
            pages: self.pages.saturating_sub(before.pages),
        }
    }

    /// Whether both shares are lower.
    fn are_below(self, least: &Shares) -> bool {
        let of_memory = self.reads.saturating_sub(self.missed) as f64;
        let spared = self.hit as f64 * of_memory / (self.reads as f64).max(1.0);
        spared * least.ranges < self.warmed as f64
            && spared * least.reads < spared + self.missed as f64
    }
}

/// Judges handovers by what became of those before. All-zero memory has seen none.
#[derive(Debug, Default)]
pub struct Usefulness {
    /// The beginning of the window.
    window: Totals,
    /// Windows in a row that say that handovers are of no use.
    useless_windows: u8,
    is_frugal: bool,
}

impl Usefulness {
    /// A handover is about to begin. Returns whether it is to be frugal.
    ///
    /// `epoch_pages` is the number of pages that memory holds.
    pub fn judge(&mut self, now: Totals, epoch_pages: u64) -> bool {
        let passed = now.since(self.window);
        if passed.warmed == 0 {
            // Nothing that happened since says anything of handovers.
            self.window = now;
        } else if passed.warmed >= RANGES_MIN
            && passed.reads >= READS_MIN
            && passed.pages >= epoch_pages / WINDOWS_AN_EPOCH
        {
            self.window = now;
            self.decide(passed);
        }
        self.is_frugal
    }

    fn decide(&mut self, passed: Totals) {
        if self.is_frugal {
            self.is_frugal = passed.are_below(&ALL_FROM);
            self.useless_windows = 0;
        } else if passed.are_below(&FRUGAL_BELOW) {
            self.useless_windows += 1;
            self.is_frugal = self.useless_windows >= WINDOWS_MIN;
        } else {
            self.useless_windows = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH_PAGES: u64 = 10_000;

    /// A load that goes on alike.
    #[derive(Clone, Copy)]
    struct Load {
        /// Ranges that a handover warms, and that a frugal one warms.
        warmed: [u64; 2],
        /// Percent of the warmed ranges that are read.
        hit: u64,
        /// Reads until the next handover.
        reads: u64,
        /// Those of them that come from the device.
        missed: u64,
    }

    const UNIFORM: Load = Load {
        warmed: [200, 20],
        hit: 9,
        reads: 2200,
        missed: 2000,
    };
    /// Nearly all of it is read more than once.
    const SKEWED: Load = Load {
        warmed: [200, 180],
        hit: 60,
        reads: 2200,
        missed: 5,
    };

    /// Goes on with `load`. Returns how many handovers were frugal.
    fn run(usefulness: &mut Usefulness, now: &mut Totals, load: Load, outputs: u64) -> u64 {
        let mut frugal = 0;
        for _ in 0..outputs {
            let is_frugal = usefulness.judge(*now, EPOCH_PAGES);
            let warmed = load.warmed[usize::from(is_frugal)];
            frugal += u64::from(is_frugal);
            now.warmed += warmed;
            now.hit += warmed * load.hit / 100;
            now.reads += load.reads;
            now.missed += load.missed;
            now.pages += load.reads;
        }
        frugal
    }

    fn frugal_of_1000(load: Load) -> u64 {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        run(&mut usefulness, &mut now, load, 1000)
    }

    #[test]
    fn handovers_whose_pages_nobody_reads_are_frugal() {
        let frugal = frugal_of_1000(UNIFORM);
        assert!((980..1000).contains(&frugal), "{frugal}");
    }

    #[test]
    fn they_warm_everything_again_when_that_changes_and_stay_so() {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        run(&mut usefulness, &mut now, UNIFORM, 1000);
        let frugal = run(&mut usefulness, &mut now, SKEWED, 1000);
        assert!(frugal < 30, "{frugal}");
        assert_eq!(run(&mut usefulness, &mut now, SKEWED, 1000), 0);
    }

    #[test]
    fn a_hot_set_that_is_seldom_read_is_warmed_whole() {
        // Seven of a hundred warmed ranges are read before the next compaction. Nearly all reads hit them.
        let seldom = Load {
            hit: 7,
            reads: 20,
            missed: 2,
            ..SKEWED
        };
        assert_eq!(frugal_of_1000(seldom), 0);
    }

    #[test]
    fn what_is_cheap_for_what_it_spares_is_warmed_beside_many_misses() {
        let half = Load {
            hit: 70,
            reads: 4000,
            missed: 2000,
            ..SKEWED
        };
        assert_eq!(frugal_of_1000(half), 0);
    }

    #[test]
    fn ranges_that_are_evicted_before_they_are_read_spare_nothing() {
        let evicted = Load {
            hit: 70,
            reads: 1100,
            missed: 1000,
            ..UNIFORM
        };
        assert!(frugal_of_1000(evicted) > 900);
    }

    #[test]
    fn misses_before_the_first_handover_say_nothing() {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        (now.reads, now.missed, now.pages) = (1_000_000, 1_000_000, 100 * EPOCH_PAGES);
        assert_eq!(run(&mut usefulness, &mut now, SKEWED, 1000), 0);
    }

    /// A compaction whose readers come afterwards, again and again.
    #[test]
    fn windows_without_reads_in_turn_with_others_say_nothing() {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        let begun = Load { hit: 0, ..UNIFORM };
        let read = Load {
            hit: 90,
            missed: 0,
            ..UNIFORM
        };
        for _ in 0..100 {
            assert_eq!(run(&mut usefulness, &mut now, begun, 6), 0);
            assert_eq!(run(&mut usefulness, &mut now, read, 6), 0);
        }
    }
}
