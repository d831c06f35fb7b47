//! Whether handovers are of use to the foreground, and when they rest.
//!
//! A handover reads a page so that a reader need not. Where reads are spread over far more than memory holds, most
//! warmed pages are never read: each costs a read of the device, and readers wait for the device all the same. Two
//! shares tell, and only both together make handovers rest:
//!
//! - how many of the warmed ranges were read: what a spared read costs;
//! - how many reads of the device were spared, of those that were made and those that were spared. A hot set that is
//!   seldom read has a low share of the first kind. But without handovers all of its reads would miss.
//!
//! A warm range may be out of the page cache again before it is read. Which ones are is not known: as many of them as of
//! all reads.
//!
//! While they rest, one output in eight gets a handover, to notice when that changes.

/// Ranges that a window must have: the error of a share of a quarter is then 2 % (one standard deviation).
const RANGES_MIN: u64 = 512;
/// The part of an epoch of reads that a window must have. What was warmed has its reads within the next windows.
const WINDOWS_AN_EPOCH: u64 = 2;
/// Windows that are summed up before they are judged. The first of them is left out: reads of what was warmed before
/// would count in it.
const WINDOWS_MIN: u8 = 3;
/// While handovers rest, one output in this number gets one.
const OUTPUTS_A_PROBE: u64 = 8;

/// Handovers begin to rest below these shares.
const REST_BELOW: Shares = Shares {
    ranges: 4.0,
    reads: 8.0,
};
/// They go on from these shares on. They are larger: otherwise noise would switch them all the time.
const GO_ON_FROM: Shares = Shares {
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

    /// With another window. Older ones fade.
    fn and(self, next: Self) -> Self {
        Self {
            warmed: self.warmed / 2 + next.warmed,
            hit: self.hit / 2 + next.hit,
            reads: self.reads / 2 + next.reads,
            missed: self.missed / 2 + next.missed,
            pages: self.pages / 2 + next.pages,
        }
    }

    /// Whether both shares are lower. Each output stands for `outputs`.
    fn are_below(self, least: &Shares, outputs: u64) -> bool {
        let of_memory = self.reads.saturating_sub(self.missed) as f64;
        let hit = self.hit as f64 * of_memory / (self.reads as f64).max(1.0);
        let spared = hit * outputs as f64;
        hit * least.ranges < self.warmed as f64
            && spared * least.reads < spared + self.missed as f64
    }
}

/// Judges handovers by what became of those before. All-zero memory has seen none.
#[derive(Debug, Default)]
pub struct Usefulness {
    /// The beginning of the window.
    window: Totals,
    sum: Totals,
    /// Windows since handovers last began to rest or to go on.
    windows: u8,
    rests: bool,
}

impl Usefulness {
    /// A handover is about to begin. Returns whether handovers rest.
    ///
    /// `epoch_pages` is the number of pages that memory holds.
    pub fn judge(&mut self, now: Totals, epoch_pages: u64) -> bool {
        let passed = now.since(self.window);
        if passed.warmed == 0 {
            // Nothing that happened since says anything of handovers.
            self.window = now;
        } else if passed.warmed >= RANGES_MIN && passed.pages >= epoch_pages / WINDOWS_AN_EPOCH {
            self.window = now;
            self.windows = self.windows.saturating_add(1);
            if self.windows > 1 {
                self.sum = self.sum.and(passed);
            }
            if self.windows >= WINDOWS_MIN {
                self.decide();
            }
        }
        self.rests
    }

    fn decide(&mut self) {
        let rests = if self.rests {
            self.sum.are_below(&GO_ON_FROM, OUTPUTS_A_PROBE)
        } else {
            self.sum.are_below(&REST_BELOW, 1)
        };
        if rests != self.rests {
            self.rests = rests;
            self.windows = 0;
            self.sum = Totals::default();
        }
    }
}

/// Whether the output with this number gets a handover although they rest. All parts of an output are treated alike.
#[must_use]
pub fn is_probe(output: u64) -> bool {
    // Numbers of files follow each other: the upper bits of the product depend on all of them.
    let mixed = output.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    mixed.is_multiple_of(OUTPUTS_A_PROBE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH_PAGES: u64 = 10_000;

    /// A load that goes on alike.
    struct Load {
        /// Percent of the warmed ranges that are read.
        hit: u64,
        /// Reads while a handover warms 100 ranges.
        reads: u64,
        /// Those of them that come from the device.
        missed: u64,
    }

    /// What is counted for `load`, and how often it was resting.
    fn run(usefulness: &mut Usefulness, now: &mut Totals, load: &Load, outputs: u64) -> u64 {
        let mut rested = 0;
        for output in 0..outputs {
            let rests = usefulness.judge(*now, EPOCH_PAGES);
            if rests && !is_probe(output) {
                rested += 1;
            } else {
                now.warmed += 100;
                now.hit += load.hit;
            }
            now.reads += load.reads;
            now.missed += load.missed;
            now.pages += 1000;
        }
        rested
    }

    #[test]
    fn handovers_whose_pages_nobody_reads_rest_but_for_probes() {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        let uniform = Load {
            hit: 9,
            reads: 2200,
            missed: 2000,
        };
        let rested = run(&mut usefulness, &mut now, &uniform, 1000);
        assert!((820..=880).contains(&rested), "{rested}");
    }

    #[test]
    fn they_go_on_when_that_changes_and_stay_so() {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        let uniform = Load {
            hit: 9,
            reads: 2200,
            missed: 2000,
        };
        run(&mut usefulness, &mut now, &uniform, 1000);
        let skewed = Load {
            hit: 60,
            reads: 500,
            missed: 5,
        };
        let rested = run(&mut usefulness, &mut now, &skewed, 2000);
        assert!(rested < 400, "{rested}");
        assert_eq!(run(&mut usefulness, &mut now, &skewed, 1000), 0);
    }

    #[test]
    fn a_hot_set_that_is_seldom_read_keeps_its_handovers() {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        // Seven of a hundred warmed ranges are read before the next compaction. Nearly all reads hit them.
        let seldom = Load {
            hit: 7,
            reads: 10,
            missed: 2,
        };
        assert_eq!(run(&mut usefulness, &mut now, &seldom, 1000), 0);
    }

    #[test]
    fn handovers_that_are_cheap_for_what_they_spare_go_on_beside_many_misses() {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        let half = Load {
            hit: 70,
            reads: 4000,
            missed: 2000,
        };
        assert_eq!(run(&mut usefulness, &mut now, &half, 1000), 0);
    }

    #[test]
    fn ranges_that_are_evicted_before_they_are_read_spare_nothing() {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        let evicted = Load {
            hit: 70,
            reads: 110,
            missed: 100,
        };
        assert!(run(&mut usefulness, &mut now, &evicted, 1000) > 800);
    }

    #[test]
    fn misses_before_the_first_handover_say_nothing() {
        let (mut usefulness, mut now) = (Usefulness::default(), Totals::default());
        now.missed = 1_000_000;
        now.pages = 100 * EPOCH_PAGES;
        let load = Load {
            hit: 7,
            reads: 10,
            missed: 2,
        };
        assert_eq!(run(&mut usefulness, &mut now, &load, 1000), 0);
    }

    #[test]
    fn one_output_in_eight_is_a_probe_whatever_its_numbers() {
        for step in [1, 2, 8, 64, 1 << 20] {
            let probes = (0..8000).filter(|number| is_probe(1000 + number * step));
            let count = probes.count();
            assert!((900..=1100).contains(&count), "{step}: {count}");
        }
    }
}
