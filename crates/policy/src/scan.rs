//! Recognises range scans among reads at random offsets.

use std::cell::Cell;
use std::ops::Range;

/// Reads in sequence are a scan from this number of bytes on. A single row of several blocks takes a few
/// blocks less.
const SCAN_BYTES_MIN: u64 = 32 << 10;
/// Reads in sequence are a scan from this number of reads on, however long they are. A row at the end of
/// one of Cassandra's chunks (16 KiB by default) goes on in the next chunk.
const SCAN_READS_MIN: u32 = 4;
/// The most that is read ahead of a scan that may be short: twice the kernel's default (`VM_READAHEAD_PAGES`),
/// since half of it is requested at a time. A shorter scan gets as much as it has read: when it ends there, it
/// wastes no more than it used.
const AHEAD_BYTES_SHORT: u64 = 256 << 10;
/// The most that is read ahead of any scan. A longer readahead was no faster (Linux 6.18, virtio disk).
pub const AHEAD_BYTES_MAX: u64 = 1 << 20;
/// A scan that has read more than this many times [`AHEAD_BYTES_SHORT`] gets this part of what it has read.
const AHEAD_PART: u64 = 2;
/// From this number of bytes on the kernel's own readahead may take a scan over. What it reads behind the end of a
/// shorter one would be too much.
pub const LONG_SCAN_BYTES_MIN: u64 = 1 << 20;
/// A scan that the kernel reads ahead of is looked at each time that it has read this much. If the kernel has
/// stopped, at most as much is read without readahead.
const LOOK_BYTES: u64 = 128 << 10;
/// The distance that the next read of a scan may have from the end of the one before, in both directions.
/// Checksums are not read, and reads are rounded to pages.
const GAP_BYTES: u64 = 4096;

/// What a scan needs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// This range is to be read ahead.
    Range(Range<u64>),
    /// As [`Need::Range`]. From there on the kernel may read ahead of the scan, if it can.
    LongRange(Range<u64>),
    /// The kernel reads ahead of this scan. The thread reads this range: it should be in the page cache.
    Look(Range<u64>),
}

/// Who reads ahead of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ahead {
    /// Coldstream.
    #[default]
    Own,
    /// The kernel.
    Kernel,
    /// Coldstream: the kernel was asked, and reads less far ahead.
    OwnForGood,
}

/// The latest reads of one descriptor by one thread. All-zero memory is a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The offset at which the last read ended.
    end: u64,
    /// Bytes that were read in sequence, and the number of reads.
    bytes: u64,
    reads: u32,
    ahead: Ahead,
    /// The offset up to which readahead was requested. Of a scan that the kernel reads ahead of, the offset of the
    /// next look.
    requested_until: u64,
}

impl Sequence {
    /// A new one.
    pub const NEW: Self = Self {
        end: 0,
        bytes: 0,
        reads: 0,
        ahead: Ahead::Own,
        requested_until: 0,
    };

    /// Whether the last read was part of a scan, and not one of its first reads.
    #[inline]
    pub fn is_scan(&self) -> bool {
        self.bytes >= SCAN_BYTES_MIN && self.reads >= SCAN_READS_MIN
    }

    /// How far to read ahead. It grows with the scan: short scans waste little, and long ones seldom wait.
    fn ahead_bytes(&self) -> u64 {
        let of_a_long_scan = (self.bytes / AHEAD_PART).min(AHEAD_BYTES_MAX);
        self.bytes.min(AHEAD_BYTES_SHORT).max(of_a_long_scan)
    }

    /// Records a read of `length_bytes` at `offset`. Returns what the scan needs now.
    #[inline]
    pub fn record(&mut self, offset: u64, length_bytes: u64) -> Option<Need> {
        let end = offset.saturating_add(length_bytes);
        if self.bytes == 0 || offset.abs_diff(self.end) > GAP_BYTES || end <= self.end {
            *self = Self {
                end,
                bytes: length_bytes,
                reads: 1,
                ahead: Ahead::Own,
                requested_until: 0,
            };
            return None;
        }
        self.bytes = self.bytes.saturating_add(length_bytes);
        self.reads = self.reads.saturating_add(1);
        self.end = end;
        if self.ahead == Ahead::Kernel {
            let is_due = end >= self.requested_until;
            return is_due.then(|| {
                self.requested_until = end.saturating_add(LOOK_BYTES);
                Need::Look(offset..end)
            });
        }
        let ahead_bytes = self.ahead_bytes();
        if !self.is_scan() || end.saturating_add(ahead_bytes / 2) < self.requested_until {
            return None;
        }
        let start = self.requested_until.max(end);
        self.requested_until = end.saturating_add(ahead_bytes);
        let range = start..self.requested_until;
        let may_be_the_kernels = self.ahead == Ahead::Own && self.bytes >= LONG_SCAN_BYTES_MIN;
        (!range.is_empty()).then_some(match may_be_the_kernels {
            true => Need::LongRange(range),
            false => Need::Range(range),
        })
    }

    /// Says who reads ahead of the scan from now on. The kernel is not asked again after it read less far ahead.
    fn set_ahead(&mut self, ahead: Ahead) {
        match (self.ahead, ahead) {
            (Ahead::OwnForGood, _) => return,
            (Ahead::Own, Ahead::Kernel) => {
                self.requested_until = self.end.saturating_add(LOOK_BYTES);
            }
            // How far the kernel has read is not known: the next read asks for what is behind it.
            (Ahead::Kernel, Ahead::Own | Ahead::OwnForGood) => self.requested_until = 0,
            _ => {}
        }
        self.ahead = ahead;
    }
}

/// A range scan merges the SSTables of a whole level, and reads a little of each in turn. The lowest bits
/// of a descriptor's number choose its set, so that a look-up stays short.
const SETS: usize = 8;
const WAYS: usize = 4;

/// The latest reads of one thread, for its last 32 descriptors. It has fewer if more than four of them
/// have the same remainder by eight.
#[derive(Debug)]
pub struct Sequences {
    sets: [Set; SETS],
}

#[derive(Debug)]
struct Set {
    ways: [Cell<(i32, Sequence)>; WAYS],
    /// The way that the next new descriptor gets.
    next: Cell<usize>,
}

impl Sequences {
    /// Those of a thread that has read nothing.
    pub const fn none() -> Self {
        Self {
            sets: [const {
                Set {
                    ways: [const { Cell::new((-1, Sequence::NEW)) }; WAYS],
                    next: Cell::new(0),
                }
            }; SETS],
        }
    }

    /// Records a read of `length_bytes` at `offset` of a descriptor. If the read is part of a scan that needs
    /// something, `give` gets it, and returns who reads ahead of the scan from now on. Returns whether the read is
    /// part of a scan.
    #[inline]
    pub fn record(
        &self,
        descriptor: i32,
        offset: u64,
        length_bytes: u64,
        give: impl FnOnce(Need) -> Ahead,
    ) -> bool {
        let Some(way) = self.set(descriptor).and_then(|set| set.way(descriptor)) else {
            return false;
        };
        let (_, mut sequence) = way.get();
        if let Some(need) = sequence.record(offset, length_bytes) {
            sequence.set_ahead(give(need));
        }
        way.set((descriptor, sequence));
        sequence.is_scan()
    }

    /// As [`Self::record`], for a read that needs nothing. Returns how many reads in sequence end with it.
    pub fn count(&self, descriptor: i32, offset: u64, length_bytes: u64) -> u32 {
        self.record(descriptor, offset, length_bytes, |_| Ahead::Own);
        self.reads_of(descriptor)
    }

    /// How many reads in sequence the thread has made of a descriptor last.
    pub fn reads_of(&self, descriptor: i32) -> u32 {
        let way = self.set(descriptor).and_then(|set| set.known(descriptor));
        way.map_or(0, |way| way.get().1.reads)
    }

    #[inline]
    fn set(&self, descriptor: i32) -> Option<&Set> {
        self.sets.get(descriptor.cast_unsigned() as usize % SETS)
    }
}

impl Set {
    #[inline]
    fn known(&self, descriptor: i32) -> Option<&Cell<(i32, Sequence)>> {
        self.ways.iter().find(|way| way.get().0 == descriptor)
    }

    #[inline]
    fn way(&self, descriptor: i32) -> Option<&Cell<(i32, Sequence)>> {
        self.known(descriptor).or_else(|| {
            let next = self.next.get();
            self.next.set((next + 1) % WAYS);
            let way = self.ways.get(next)?;
            way.set((descriptor, Sequence::NEW));
            Some(way)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The range that is to be read ahead.
    fn range_of(need: Need) -> Range<u64> {
        match need {
            Need::Range(range) | Need::LongRange(range) => range,
            Need::Look(_) => panic!("the kernel reads ahead"),
        }
    }

    fn length_of(need: &Need) -> u64 {
        let range = range_of(need.clone());
        range.end - range.start
    }

    /// The bytes that are read ahead of each SSTable of a merging scan.
    fn merged(descriptors: impl Iterator<Item = i32> + Clone) -> Vec<u64> {
        let sequences = Sequences::none();
        let mut ahead_bytes = vec![0; descriptors.clone().count()];
        for number in 0..200 {
            for (descriptor, bytes) in descriptors.clone().zip(&mut ahead_bytes) {
                sequences.record(descriptor, number * 4096, 4096, |need| {
                    *bytes += length_of(&need);
                    Ahead::Own
                });
            }
        }
        ahead_bytes
    }

    #[test]
    fn every_sstable_of_a_merging_scan_gets_readahead() {
        let alone = merged(7..8);
        assert!(alone[0] > 190 * 4096, "{alone:?}");
        assert_eq!(merged(100..132), vec![alone[0]; 32]);
        // All of one set.
        assert_eq!(
            merged((0..4).map(|number| 3 + 8 * number)),
            vec![alone[0]; 4]
        );
        assert_eq!(merged((0..5).map(|number| 3 + 8 * number)), [0; 5]);
    }

    #[test]
    fn reads_in_sequence_are_counted() {
        let sequences = Sequences::none();
        assert_eq!(sequences.reads_of(9), 0);
        assert_eq!(sequences.count(9, 4096, 4096), 1);
        assert_eq!(sequences.count(17, 4096, 4096), 1, "another one of its set");
        assert_eq!(sequences.count(9, 8192, 4096), 2);
        assert_eq!(sequences.count(9, 90_000, 4096), 1, "elsewhere");
        assert_eq!((sequences.reads_of(9), sequences.reads_of(17)), (1, 1));
    }

    #[test]
    fn no_descriptor_is_out_of_bounds() {
        let sequences = Sequences::none();
        for descriptor in [i32::MIN, -1, 0, i32::MAX] {
            assert!(!sequences.record(descriptor, 0, 4096, |need| panic!("{need:?}")));
        }
    }

    #[test]
    fn a_scan_gets_readahead_and_nothing_twice() {
        let mut sequence = Sequence::default();
        let mut requested = Vec::new();
        for number in 0..200 {
            requested.extend(sequence.record(number * 4100, 4096).map(range_of));
        }
        assert_eq!(requested.first(), Some(&(32_796..32_796 + (32 << 10))));
        let longest = requested.iter().map(|range| range.end - range.start).max();
        assert!(longest >= Some(AHEAD_BYTES_SHORT / 2), "{requested:?}");
        assert!(
            requested
                .windows(2)
                .all(|pair| pair[0].end == pair[1].start)
        );
        assert!(requested.last().unwrap().end >= 200 * 4100);
        assert!(requested.len() <= 12, "in large pieces: {requested:?}");
    }

    /// The range that is read ahead of a scan of this length, in bytes behind its end.
    fn reach_after(scan_bytes: u64) -> u64 {
        let mut sequence = Sequence::default();
        let mut reach = 0;
        for number in 0..scan_bytes / 4096 {
            if let Some(range) = sequence.record(number * 4096, 4096).map(range_of) {
                reach = range.end - (number + 1) * 4096;
            }
        }
        reach
    }

    #[test]
    fn a_long_scan_gets_more_and_a_short_one_as_little_as_before() {
        for scan_bytes in [64 << 10, 128 << 10, 512 << 10] {
            assert!(reach_after(scan_bytes) <= AHEAD_BYTES_SHORT);
            assert!(reach_after(scan_bytes) <= scan_bytes);
        }
        assert!(reach_after(1 << 20) > AHEAD_BYTES_SHORT);
        assert!(reach_after(1 << 20) <= 512 << 10);
        assert_eq!(reach_after(8 << 20), AHEAD_BYTES_MAX);
    }

    #[test]
    fn a_row_of_a_few_blocks_is_no_scan() {
        let mut sequence = Sequence::default();
        for row in 0..50 {
            for block in 0..7 {
                let offset = (row * 7919 % 50) * 1_000_000 + block * 4096;
                assert_eq!(sequence.record(offset, 4096), None);
            }
        }
    }

    /// Cassandra's chunks of 16 and 64 KiB: each of these rows begins in one chunk and ends in the next.
    #[test]
    fn a_row_that_goes_on_in_the_next_chunk_is_no_scan() {
        for chunk_bytes in [16 << 10, 64 << 10] {
            let mut sequence = Sequence::default();
            for row in 0..50 {
                let offset = (row * 7919 % 50) * 1_000_000;
                for chunk in 0..3 {
                    let offset = offset + chunk * chunk_bytes;
                    assert_eq!(sequence.record(offset, chunk_bytes), None);
                }
            }
        }
    }

    /// A scan of 4 KiB a read up to `scan_bytes`. `give` gets the offset behind each read that needs something, and
    /// the need.
    fn scan(scan_bytes: u64, mut give: impl FnMut(u64, Need) -> Ahead) {
        let sequences = Sequences::none();
        for end in (4096..=scan_bytes).step_by(4096) {
            sequences.record(3, end - 4096, 4096, |need| give(end, need));
        }
    }

    #[test]
    fn the_kernel_is_asked_once_if_it_reads_less_far_ahead() {
        let mut asked = Vec::new();
        scan(4 * LONG_SCAN_BYTES_MIN, |end, need| match need {
            Need::LongRange(range) => {
                asked.push(end);
                assert!(range.start >= end);
                Ahead::OwnForGood
            }
            Need::Range(_) => Ahead::Own,
            Need::Look(_) => panic!("{end}"),
        });
        assert_eq!(asked.len(), 1);
        assert!(asked[0] >= LONG_SCAN_BYTES_MIN && asked[0] < LONG_SCAN_BYTES_MIN + (1 << 20));
    }

    #[test]
    fn a_scan_that_the_kernel_reads_ahead_of_is_looked_at_until_it_stops() {
        let stops_at = 2 * LONG_SCAN_BYTES_MIN;
        let (mut looks, mut asked) = (Vec::new(), Vec::new());
        scan(4 * LONG_SCAN_BYTES_MIN, |end, need| match need {
            Need::Look(range) => {
                assert_eq!(range, end - 4096..end);
                looks.push(end);
                if end == stops_at || (end > stops_at && looks.len() < 40) {
                    Ahead::Own
                } else {
                    Ahead::Kernel
                }
            }
            Need::LongRange(range) => {
                asked.push(range.start);
                Ahead::Kernel
            }
            Need::Range(_) => Ahead::Own,
        });
        assert!(looks.windows(2).all(|two| two[1] - two[0] >= LOOK_BYTES));
        assert!(
            looks.len() as u64 > 2 * LONG_SCAN_BYTES_MIN / LOOK_BYTES,
            "{looks:?}"
        );
        assert!(asked.len() > 1, "asked again when it stopped: {asked:?}");
    }

    #[test]
    fn a_jump_ends_what_the_kernel_does() {
        let sequences = Sequences::none();
        let mut last = Ahead::Own;
        let mut read = |offset: u64| {
            sequences.record(3, offset, 65_536, |need| {
                last = match need {
                    Need::Range(_) => Ahead::Own,
                    Need::LongRange(_) | Need::Look(_) => Ahead::Kernel,
                };
                last
            })
        };
        for number in 0..100 {
            read(number << 16);
        }
        assert!(!read(1 << 30), "no scan any more");
        for number in 1..10 {
            read((1 << 30) + (number << 16));
        }
        assert_eq!(last, Ahead::Own);
    }

    proptest! {
        #[test]
        fn readahead_is_ahead_and_bounded(
            reads in proptest::collection::vec((0_u64..1 << 22, 0_u64..1 << 17), 0..200),
        ) {
            let mut sequence = Sequence::default();
            for (offset, length) in reads {
                if let Some(range) = sequence.record(offset, length).map(range_of) {
                    prop_assert!(range.start >= offset + length && range.start < range.end);
                    prop_assert!(range.end - (offset + length) <= AHEAD_BYTES_MAX);
                    prop_assert!(range.end - (offset + length) <= sequence.bytes);
                }
            }
        }
    }
}
