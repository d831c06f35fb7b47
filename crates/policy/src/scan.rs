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
/// The distance that the next read of a scan may have from the end of the one before, in both directions.
/// Checksums are not read, and reads are rounded to pages.
const GAP_BYTES: u64 = 4096;

/// The latest reads of one descriptor by one thread. All-zero memory is a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The offset at which the last read ended.
    end: u64,
    /// Bytes that were read in sequence, and the number of reads.
    bytes: u64,
    reads: u32,
    /// The offset up to which readahead was requested.
    requested_until: u64,
}

impl Sequence {
    /// A new one.
    pub const NEW: Self = Self {
        end: 0,
        bytes: 0,
        reads: 0,
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

    /// Records a read of `length_bytes` at `offset`. Returns the range to read ahead now.
    #[inline]
    pub fn record(&mut self, offset: u64, length_bytes: u64) -> Option<Range<u64>> {
        let end = offset.saturating_add(length_bytes);
        if self.bytes == 0 || offset.abs_diff(self.end) > GAP_BYTES || end <= self.end {
            *self = Self {
                end,
                bytes: length_bytes,
                reads: 1,
                requested_until: 0,
            };
            return None;
        }
        self.bytes = self.bytes.saturating_add(length_bytes);
        self.reads = self.reads.saturating_add(1);
        self.end = end;
        let ahead_bytes = self.ahead_bytes();
        if !self.is_scan() || end.saturating_add(ahead_bytes / 2) < self.requested_until {
            return None;
        }
        let start = self.requested_until.max(end);
        self.requested_until = end.saturating_add(ahead_bytes);
        (start < self.requested_until).then_some(start..self.requested_until)
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

    /// Records a read of `length_bytes` at `offset` of a descriptor. Returns the range to read ahead now,
    /// and whether the read is part of a scan.
    #[inline]
    pub fn record(
        &self,
        descriptor: i32,
        offset: u64,
        length_bytes: u64,
    ) -> (Option<Range<u64>>, bool) {
        let number = descriptor.cast_unsigned() as usize % SETS;
        let Some(way) = self.sets.get(number).and_then(|set| set.way(descriptor)) else {
            return (None, false);
        };
        let (_, mut sequence) = way.get();
        let ahead = sequence.record(offset, length_bytes);
        way.set((descriptor, sequence));
        (ahead, sequence.is_scan())
    }
}

impl Set {
    #[inline]
    fn way(&self, descriptor: i32) -> Option<&Cell<(i32, Sequence)>> {
        let found = self.ways.iter().find(|way| way.get().0 == descriptor);
        found.or_else(|| {
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

    /// The bytes that are read ahead of each SSTable of a merging scan.
    fn merged(descriptors: impl Iterator<Item = i32> + Clone) -> Vec<u64> {
        let sequences = Sequences::none();
        let mut ahead_bytes = vec![0; descriptors.clone().count()];
        for number in 0..200 {
            for (descriptor, bytes) in descriptors.clone().zip(&mut ahead_bytes) {
                let (ahead, _) = sequences.record(descriptor, number * 4096, 4096);
                *bytes += ahead.map_or(0, |range| range.end - range.start);
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
    fn no_descriptor_is_out_of_bounds() {
        let sequences = Sequences::none();
        for descriptor in [i32::MIN, -1, 0, i32::MAX] {
            assert_eq!(sequences.record(descriptor, 0, 4096), (None, false));
        }
    }

    #[test]
    fn a_scan_gets_readahead_and_nothing_twice() {
        let mut sequence = Sequence::default();
        let mut requested = Vec::new();
        for number in 0..200 {
            requested.extend(sequence.record(number * 4100, 4096));
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
            if let Some(range) = sequence.record(number * 4096, 4096) {
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

    proptest! {
        #[test]
        fn readahead_is_ahead_and_bounded(
            reads in proptest::collection::vec((0_u64..1 << 22, 0_u64..1 << 17), 0..200),
        ) {
            let mut sequence = Sequence::default();
            for (offset, length) in reads {
                if let Some(range) = sequence.record(offset, length) {
                    prop_assert!(range.start >= offset + length && range.start < range.end);
                    prop_assert!(range.end - (offset + length) <= AHEAD_BYTES_MAX);
                    prop_assert!(range.end - (offset + length) <= sequence.bytes);
                }
            }
        }
    }
}
