//! Samples of a thread's foreground reads: which are timed, and how many pages they have read.

use coldstream_io::alignment::PAGE_BYTES;
use std::cell::Cell;

/// A thread flushes its count of read pages every 256 pages. The shared counter is contended.
const PAGES_A_FLUSH: u32 = 256;
/// One read counts as at most this many pages, as in [`coldstream_policy::heat`].
const READ_PAGES_MAX: u64 = 4096;

/// One foreground read in 16 may be timed: a clock costs as much as all else that is done for a read.
const TIMED_EVERY: u32 = 16;
/// The four reads after one that came from the device are timed. A clock costs nothing beside them.
const TIMED_AFTER: u32 = 4;

pub(super) struct Samples {
    /// Pages that foreground reads have read since the last flush of this count.
    foreground_pages: Cell<u32>,
    /// Foreground reads until the next sample.
    reads_left: Cell<u32>,
    /// How many of the next reads are all samples.
    reads_to_time: Cell<u32>,
}

impl Samples {
    pub(super) const fn none() -> Self {
        Self {
            foreground_pages: Cell::new(0),
            reads_left: Cell::new(TIMED_EVERY),
            reads_to_time: Cell::new(0),
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

    /// Ends the turn of a sample, and sets the next one. Returns the count of read pages, if it is large
    /// enough to be flushed.
    pub(super) fn take_turn(&self) -> Option<u64> {
        let pages = self.foreground_pages.get();
        let is_enough = pages >= PAGES_A_FLUSH;
        self.foreground_pages.set(if is_enough { 0 } else { pages });
        self.time_next(self.reads_to_time.get().saturating_sub(1));
        is_enough.then_some(u64::from(pages))
    }

    /// The read that was timed came from the device.
    pub(super) fn time_next_reads(&self) {
        self.time_next(TIMED_AFTER);
    }

    fn time_next(&self, to_time: u32) {
        let between = if to_time > 0 { 1 } else { TIMED_EVERY };
        self.reads_to_time.set(to_time);
        self.reads_left.set(between);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the timed reads, and the flushed pages. `is_of_device` tells which reads are slow.
    fn timed(samples: &Samples, reads: u32, is_of_device: impl Fn(u32) -> bool) -> (Vec<u32>, u64) {
        let mut timed = Vec::new();
        let mut flushed = 0;
        for number in 1..=reads {
            if samples.count_read(4000) {
                flushed += samples.take_turn().unwrap_or(0);
                timed.push(number);
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
        let (numbers, flushed) = timed(&samples, 512, |_| false);
        assert_eq!(numbers.len(), 32);
        assert!(numbers.iter().all(|number| number % 16 == 0));
        assert_eq!(flushed, 512, "in lots");
        let (numbers, _) = timed(&samples, 100, |number| number == 32);
        assert_eq!(numbers, [16, 32, 33, 34, 35, 36, 52, 68, 84, 100]);
        let (numbers, flushed) = timed(&samples, 1000, |_| true);
        assert!(numbers.len() > 980, "{}", numbers.len());
        assert!((700..=1100).contains(&flushed), "{flushed}");
    }
}
