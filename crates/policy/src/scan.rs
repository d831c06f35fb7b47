//! Telling a range scan from reads at random places.

use std::cell::Cell;
use std::ops::Range;

/// A scan is taken for one after so many bytes in sequence: a few blocks more than what a single
/// row of several blocks takes.
const SCAN_BYTES_MIN: u64 = 32 << 10;
/// And after so many reads, however long they are: a row at the end of one of Cassandra's chunks (of 16 KiB
/// by default) goes on in the next.
const SCAN_READS_MIN: u32 = 4;
/// What is read ahead of a scan at most: twice what the kernel does by default (`VM_READAHEAD_PAGES`),
/// since half of it is asked for at a time. Before that as much as the scan has read already: what ends
/// there wastes no more than it used.
pub const AHEAD_BYTES: u64 = 256 << 10;
/// The next read of a scan may begin so far behind the end of the one before, or before it:
/// checksums that are not read, reads that are rounded to pages.
const GAP_BYTES: u64 = 4096;

/// The reads of one descriptor by one thread. All zeros is one that has seen nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Where the last read ended.
    end: u64,
    /// Bytes read in sequence, and by how many reads.
    bytes: u64,
    reads: u32,
    /// Everything before this has been asked for.
    asked_until: u64,
}

impl Sequence {
    /// One that has seen nothing.
    pub const NEW: Self = Self {
        end: 0,
        bytes: 0,
        reads: 0,
        asked_until: 0,
    };

    /// Whether the last read was a scan's, and not one of its first.
    #[inline]
    pub fn is_scan(&self) -> bool {
        self.bytes >= SCAN_BYTES_MIN && self.reads >= SCAN_READS_MIN
    }

    /// A read of `length_bytes` at `offset`: the bytes of the file that should be read ahead now.
    #[inline]
    pub fn note(&mut self, offset: u64, length_bytes: u64) -> Option<Range<u64>> {
        let end = offset.saturating_add(length_bytes);
        if self.bytes == 0 || offset.abs_diff(self.end) > GAP_BYTES || end <= self.end {
            *self = Self {
                end,
                bytes: length_bytes,
                reads: 1,
                asked_until: 0,
            };
            return None;
        }
        self.bytes = self.bytes.saturating_add(length_bytes);
        self.reads = self.reads.saturating_add(1);
        self.end = end;
        let ahead_bytes = self.bytes.min(AHEAD_BYTES);
        if !self.is_scan() || end.saturating_add(ahead_bytes / 2) < self.asked_until {
            return None;
        }
        let start = self.asked_until.max(end);
        self.asked_until = end.saturating_add(ahead_bytes);
        (start < self.asked_until).then_some(start..self.asked_until)
    }
}

/// A range scan merges the tables of a whole level, and reads a little of each in turn. The tables of a set of
/// places are told by the lowest bits of their descriptors' numbers, so that a look-up stays short.
const SETS: usize = 8;
const WAYS: usize = 4;

/// How one thread has lately read: its last tables, 32 of them, or less where more than four of their
/// descriptors have the same remainder by eight.
#[derive(Debug)]
pub struct Sequences {
    sets: [Set; SETS],
}

#[derive(Debug)]
struct Set {
    ways: [Cell<(i32, Sequence)>; WAYS],
    /// Which of them is the next to be another descriptor's.
    next: Cell<usize>,
}

impl Sequences {
    /// Of a thread that has read nothing.
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

    /// The thread reads `length_bytes` at `offset` of a descriptor: what of it should be read ahead now, and
    /// whether the read is a scan's.
    #[inline]
    pub fn note(
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
        let ahead = sequence.note(offset, length_bytes);
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

    /// The tables of a scan that merges them, and the bytes that are read ahead of each.
    fn merged(descriptors: impl Iterator<Item = i32> + Clone) -> Vec<u64> {
        let sequences = Sequences::none();
        let mut ahead_bytes = vec![0; descriptors.clone().count()];
        for number in 0..200 {
            for (descriptor, bytes) in descriptors.clone().zip(&mut ahead_bytes) {
                let (ahead, _) = sequences.note(descriptor, number * 4096, 4096);
                *bytes += ahead.map_or(0, |range| range.end - range.start);
            }
        }
        ahead_bytes
    }

    #[test]
    fn every_table_of_a_merging_scan_is_read_ahead_of() {
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
            assert_eq!(sequences.note(descriptor, 0, 4096), (None, false));
        }
    }

    #[test]
    fn a_scan_is_read_ahead_of_and_nothing_twice() {
        let mut sequence = Sequence::default();
        let mut asked = Vec::new();
        for number in 0..200 {
            asked.extend(sequence.note(number * 4100, 4096));
        }
        assert_eq!(asked.first(), Some(&(32_796..32_796 + (32 << 10))));
        let longest = asked.iter().map(|range| range.end - range.start).max();
        assert!(longest >= Some(AHEAD_BYTES / 2), "{asked:?}");
        assert!(asked.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(asked.last().unwrap().end >= 200 * 4100);
        assert!(asked.len() <= 12, "in large pieces: {asked:?}");
    }

    #[test]
    fn a_row_of_a_few_blocks_is_no_scan() {
        let mut sequence = Sequence::default();
        for row in 0..50 {
            for block in 0..7 {
                let offset = (row * 7919 % 50) * 1_000_000 + block * 4096;
                assert_eq!(sequence.note(offset, 4096), None);
            }
        }
    }

    /// Cassandra's chunks of 16 and 64 KiB: each of these rows begins in one and ends in the next.
    #[test]
    fn a_row_that_goes_on_in_the_next_chunk_is_no_scan() {
        for chunk_bytes in [16 << 10, 64 << 10] {
            let mut sequence = Sequence::default();
            for row in 0..50 {
                let offset = (row * 7919 % 50) * 1_000_000;
                for chunk in 0..3 {
                    let offset = offset + chunk * chunk_bytes;
                    assert_eq!(sequence.note(offset, chunk_bytes), None);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_ahead_and_no_more_than_a_little(
            reads in proptest::collection::vec((0_u64..1 << 22, 0_u64..1 << 17), 0..200),
        ) {
            let mut sequence = Sequence::default();
            for (offset, length) in reads {
                if let Some(range) = sequence.note(offset, length) {
                    prop_assert!(range.start >= offset + length && range.start < range.end);
                    prop_assert!(range.end - (offset + length) <= AHEAD_BYTES);
                    prop_assert!(range.end - (offset + length) <= sequence.bytes);
                }
            }
        }
    }
}
