//! Samples of a thread's foreground reads: which are timed, and how many pages they have read.

use coldstream_io::alignment::PAGE_BYTES;
use std::cell::Cell;

/// A thread flushes its count of read pages every 256 pages. The shared counter is contended.
const PAGES_A_FLUSH: u32 = 256;
/// One read counts as at most this many pages, as in [`coldstream_policy::heat`].
const READ_PAGES_MAX: u64 = 4096;

/// One foreground read in 16 may be timed: a clock costs as much as all else that is done for a read.
const TIMED_EVERY: u32 = 16;
/// One read in 64 is timed for statistics. It is chosen by the number of reads alone, so that it stands for all.
pub const READS_A_SAMPLE_OF_ALL: u32 = 64;
/// The four reads after one that came from the device are timed. A clock costs nothing beside them.
const TIMED_AFTER: u32 = 4;

pub(super) struct Samples {
    /// Pages that foreground reads have read since the last flush of this count.
    foreground_pages: Cell<u32>,
    /// Foreground reads until the next sample.
    reads_left: Cell<u32>,
    /// How many of the next reads are all samples.
    reads_to_time: Cell<u32>,
    /// Reads since the last one that stands for all.
    reads_since_sample: Cell<u32>,
}

/// The turn of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The count of read pages, if it is large enough to be flushed.
    pub pages: Option<u64>,
    /// The read is to be timed even if only statistics want its latency.
    pub is_timed_at_rest: bool,
    /// The read stands for all: its number chose it, and not a read before it.
    pub stands_for_all: bool,
}

impl Samples {
    pub(super) const fn none() -> Self {
        Self {
            foreground_pages: Cell::new(0),
            reads_left: Cell::new(TIMED_EVERY),
            reads_to_time: Cell::new(0),
            reads_since_sample: Cell::new(0),
        }
    }

    /// Counts a foreground read. Returns whether it is a sample.
    #[inline]
    pub(super) fn count_read(&self, length_bytes: u64) -> bool {
        let pages = (length_bytes / PAGE_BYTES).clamp(1, READ_PAGES_MAX) as u32;
        let pages_before = self.foreground_pages.get();
        self.foreground_pages.set(pages_before.wrapping_add(pages));
        let left = self.reads_left.get().wrapping_sub(1);
        self.reads_left.set(left);
        left == 0
    }

    /// Ends the turn of a sample, and sets the next one.
    pub(super) fn take_turn(&self) -> Turn {
        let pages = self.foreground_pages.get();
        let is_enough = pages >= PAGES_A_FLUSH;
        self.foreground_pages.set(if is_enough { 0 } else { pages });
        let to_time = self.reads_to_time.get();
        let reads = self.reads_since_sample.get() + reads_between(to_time);
        let stands_for_all = reads >= READS_A_SAMPLE_OF_ALL;
        let reads_since_sample = if stands_for_all { 0 } else { reads };
        self.reads_since_sample.set(reads_since_sample);
        self.time_next(to_time.saturating_sub(1));
        Turn {
            pages: is_enough.then_some(u64::from(pages)),
            is_timed_at_rest: to_time > 0 || stands_for_all,
            stands_for_all,
        }
    }

    /// The read that was timed came from the device.
    pub(super) fn time_next_reads(&self) {
        self.time_next(TIMED_AFTER);
    }

    fn time_next(&self, to_time: u32) {
        self.reads_to_time.set(to_time);
        self.reads_left.set(reads_between(to_time));
    }
}

/// Reads until the next sample, itself included.
fn reads_between(to_time: u32) -> u32 {
    if to_time > 0 { 1 } else { TIMED_EVERY }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the timed reads, and the flushed pages. `is_of_device` tells which reads are slow.
    fn timed(
        samples: &Samples,
        is_paced: bool,
        reads: u32,
        is_of_device: impl Fn(u32) -> bool,
    ) -> (Vec<u32>, u64) {
        let mut timed = Vec::new();
        let mut flushed = 0;
        for number in 1..=reads {
            if samples.count_read(4000) {
                let turn = samples.take_turn();
                flushed += turn.pages.unwrap_or(0);
                if is_paced || turn.is_timed_at_rest {
                    timed.push(number);
                }
                if is_of_device(number) {
                    samples.time_next_reads();
                }
            }
        }
        (timed, flushed)
    }

    #[test]
    fn one_read_in_sixteen_is_timed_and_those_behind_one_of_the_device() {
        let samples = Samples::none();
        let (numbers, flushed) = timed(&samples, true, 512, |_| false);
        assert_eq!(numbers.len(), 32);
        assert!(numbers.iter().all(|number| number % 16 == 0));
        assert_eq!(flushed, 512, "in lots");
        let (numbers, _) = timed(&samples, true, 100, |number| number == 32);
        assert_eq!(numbers, [16, 32, 33, 34, 35, 36, 52, 68, 84, 100]);
        let (numbers, flushed) = timed(&samples, true, 1000, |_| true);
        assert!(numbers.len() > 980, "{}", numbers.len());
        assert!((700..=1100).contains(&flushed), "{flushed}");
    }

    #[test]
    fn one_read_in_sixty_four_stands_for_all_wherever_reads_come_from() {
        for (device, samples_min) in [(1, 156), (2, 156), (100, 120), (u32::MAX, 156)] {
            let samples = Samples::none();
            let mut of_all = 0;
            for number in 1..=10_000 {
                if samples.count_read(4096) {
                    let turn = samples.take_turn();
                    of_all += u32::from(turn.stands_for_all);
                    assert!(turn.is_timed_at_rest || !turn.stands_for_all);
                    if turn.is_timed_at_rest && number % device == 0 {
                        samples.time_next_reads();
                    }
                }
            }
            assert!((samples_min..=156).contains(&of_all), "{device}: {of_all}");
        }
    }

    #[test]
    fn for_statistics_alone_one_read_in_sixty_four_is_timed() {
        let samples = Samples::none();
        let (numbers, flushed) = timed(&samples, false, 512, |_| false);
        assert_eq!(numbers, [64, 128, 192, 256, 320, 384, 448, 512]);
        assert_eq!(flushed, 512);
        let (numbers, _) = timed(&samples, false, 130, |number| number == 64);
        assert_eq!(numbers, [64, 65, 66, 67, 68]);
    }
}
