//! The table that a compaction makes: where the heat of its inputs' partitions goes.

use super::Input;
use super::growing::Growing;
use crate::Piece;
use coldstream_sstable::cassandra::{GrowingIndex, IndexCursor, Key, SsTable};
use coldstream_sstable::{ReadAt, Result};
use std::ops::Range;

/// How much of the data that has been written the index of a growing table must be of: less means that
/// the chunks have another length than those of the inputs.
const AGREEMENT_MIN: f64 = 0.6;
/// So many bytes of data may be missing in the index in any case: it is written in pieces of its
/// own, each of the entries of some megabytes of data.
const INDEX_LAG_BYTES: u64 = 64 << 20;
/// So far at most is the index ahead of the data, which is written in pieces of its own too.
const INDEX_LEAD_BYTES: u64 = 1 << 20;
/// Partitions between two looks at the time.
const PARTITIONS_A_LOOK: u32 = 1024;

/// Hot places that are remembered of one part, in 24 MB: 4 GiB of chunks of 4 KiB. Further ones
/// stay cold.
const PIECES_MAX: usize = 1 << 20;

/// The heat that a part of an output has been given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// In the order of the file, except in very large partitions.
    pub pieces: Vec<Piece>,
    /// Where the next part begins.
    pub cursor: IndexCursor,
    /// Position of the uncompressed data at which the next part begins.
    pub position: u64,
    /// Key of the last partition that was looked at, by the table's index.
    pub last: Option<Key>,
}

impl Carried {
    pub(super) fn add(&mut self, stored: &Range<u64>, heat: f32) {
        let length = stored.end - stored.start;
        let has_room = self.pieces.len() < PIECES_MAX;
        match self.pieces.last_mut() {
            Some(last) if last.offset == stored.start && last.length == length => last.heat += heat,
            _ if has_room => self.pieces.push(Piece {
                offset: stored.start,
                length,
                heat,
            }),
            _ => {}
        }
    }
}

impl Growing<'_> {
    /// Hands the inputs' heat over to the part of a BIG table that has been written since `from`, as far
    /// as it gets before it `is_over`. `None` if `index` and `data` do not agree: the table is not
    /// compressed as the inputs are.
    ///
    /// # Errors
    /// Those of the index and the data.
    pub fn carry<R: ReadAt>(
        &self,
        index: &R,
        data: &R,
        from: IndexCursor,
        inputs: &mut [Input<'_, R>],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Carried>> {
        let written = self.written();
        let mut carried = Carried {
            cursor: from,
            ..Carried::default()
        };
        let mut index = GrowingIndex::new(index, from)?;
        let mut current = Key::default();
        let mut start = None;
        let (mut last, mut seen, mut is_whole) = (0, 0_u32, true);
        while let Some(entry) = index.next_complete()? {
            last = entry.position;
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(PARTITIONS_A_LOOK) && is_over() {
                is_whole = false;
                break;
            }
            // What follows is not written yet, and tells only whether index and data agree.
            if last > written {
                continue;
            }
            if let Some(start) = start {
                let range = start..last.max(start);
                for input in &mut *inputs {
                    input.give(&current, &range, is_over, &mut |part, heat| {
                        if let Some(stored) = self.file_range(&part) {
                            carried.add(&stored, heat);
                        }
                    });
                }
            }
            entry.key.clone_into(&mut current);
            start = Some(last);
            carried.cursor = entry.cursor;
            carried.position = last;
        }
        let lead = INDEX_LEAD_BYTES.max(2 * self.chunk_length());
        let lags = is_whole
            && written.saturating_sub(last) > INDEX_LAG_BYTES
            && (last as f64) < written as f64 * AGREEMENT_MIN;
        let agrees = last <= written + lead && !lags;
        carried.last = start.map(|_| current);
        let before = (carried.position / self.chunk_length()).checked_sub(1);
        let is_as_expected = match before.filter(|_| agrees && !carried.pieces.is_empty()) {
            Some(chunk) => self.may_be_chunk(data, chunk)?,
            None => agrees,
        };
        Ok(is_as_expected.then_some(carried))
    }
}

/// Hands the inputs' heat over to the part of a finished table from `from` on, as far as it gets before
/// it `is_over`.
///
/// # Errors
/// Those of the table's index.
pub fn carry_finished<R: ReadAt>(
    table: &SsTable<R>,
    from: IndexCursor,
    inputs: &mut [Input<'_, R>],
    is_over: &dyn Fn() -> bool,
) -> Result<Carried> {
    let mut carried = Carried {
        cursor: from,
        ..Carried::default()
    };
    let mut chunks = table.chunks();
    let mut partitions = table.partitions_from(from)?;
    let (mut last, mut seen) = (Key::default(), 0_u32);
    while let Some(partition) = partitions.next_partition()? {
        seen = seen.wrapping_add(1);
        if seen.is_multiple_of(PARTITIONS_A_LOOK) && is_over() {
            break;
        }
        for input in &mut *inputs {
            let mut given: Vec<(Range<u64>, f32)> = Vec::new();
            let mut note = |part, heat| given.push((part, heat));
            input.give(partition.key, &partition.uncompressed, is_over, &mut note);
            for (part, heat) in given {
                carried.add(&chunks.file_range(part)?, heat);
            }
        }
        carried.position = partition.uncompressed.end;
        partition.key.clone_into(&mut last);
    }
    carried.last = (seen > 0).then_some(last);
    Ok(carried)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Partitions of 1,000 bytes, as `Index.db` has them: key, position, no promoted index
    /// (`io/sstable/format/big/RowIndexEntry.java`).
    fn index(partitions: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..partitions {
            bytes.extend([0, 8]);
            bytes.extend(number.to_be_bytes());
            // Of a variable length: as many bits as there are further bytes, then the number.
            let position = (number * 1000) as u32;
            bytes.push(0xF0);
            bytes.extend(position.to_be_bytes());
            bytes.push(0);
        }
        bytes
    }

    fn carry(written: u64, partitions: u64, from: IndexCursor, most: u32) -> Option<Carried> {
        let index = index(partitions);
        let looks = std::cell::Cell::new(0);
        let is_over = || {
            looks.set(looks.get() + 1);
            looks.get() >= most
        };
        let none: &mut [Input<'_, &[u8]>] = &mut [];
        let growing = Growing::Plain(written);
        growing
            .carry(&&index[..], &&[][..], from, none, &is_over)
            .unwrap()
    }

    #[test]
    fn an_index_that_is_ahead_of_its_data_is_of_other_chunks() {
        let whole =
            |written, partitions| carry(written, partitions, IndexCursor::default(), u32::MAX);
        assert_eq!(whole(500_500, 500).unwrap().position, 499_000);
        // A piece of the data is not there yet.
        assert_eq!(whole(400_500, 500).unwrap().position, 400_000);
        assert_eq!(whole(12_500_000, 50_000), None);
        // A piece of the index is not.
        assert!(whole(50_000_000, 5_000).is_some());
        assert_eq!(whole(500_000_000, 50_000), None);
    }

    #[test]
    fn what_takes_too_long_goes_on_with_the_next_part() {
        let first = carry(50_000_000, 50_000, IndexCursor::default(), 3).unwrap();
        assert_eq!(first.position, 3070 * 1000, "the third look ends it");
        let next = carry(50_000_000, 50_000, first.cursor, u32::MAX).unwrap();
        assert_eq!(next.position, 49_999_000);
    }
}
