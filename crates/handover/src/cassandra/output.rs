//! Transfers the inputs' heat to an output of a compaction by the output's index.

use super::growing::Growing;
use super::input::Input;
use crate::piece::Piece;
use coldstream_sstable::cassandra::{GrowingIndex, IndexCursor, Key, SsTable};
use coldstream_sstable::memory::TryVec;
use coldstream_sstable::{ReadAt, Result};
use std::ops::Range;

/// Smallest share of the written data that the index of an unfinished SSTable must cover. Less means
/// that the chunk length differs from that of the inputs.
const AGREEMENT_MIN: f64 = 0.6;
/// Bytes of data that may always be missing in the index. It is written in pieces of its own. A piece
/// has the entries of some megabytes of data.
const INDEX_LAG_BYTES: u64 = 64 << 20;
/// Bytes by which the index may be ahead of the data, which is written in pieces too.
const INDEX_LEAD_BYTES: u64 = 1 << 20;
/// Partitions between two checks of the deadline.
const PARTITIONS_A_CHECK: u32 = 1024;

/// Most hot pieces of one part: 4 GiB in chunks of 4 KiB. They take 24 MB. Further ones stay cold.
const PIECES_MAX: usize = 1 << 20;

/// The heat of a part of an output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartHeat {
    /// The hot pieces, in the order of the file except in very large partitions.
    pub pieces: Vec<Piece>,
    /// Where the next part begins.
    pub cursor: IndexCursor,
    /// Where the next part begins, as a position in the uncompressed data, in bytes.
    pub position: u64,
    /// Key of the last partition of the part, if the output's index was used.
    pub last_key: Option<Key>,
}

impl PartHeat {
    /// Adds heat to the range `stored` of the file.
    pub(super) fn add(&mut self, stored: &Range<u64>, heat: f32) -> Result<()> {
        let length = stored.end - stored.start;
        let has_room = self.pieces.len() < PIECES_MAX;
        match self.pieces.last_mut() {
            Some(last) if last.offset == stored.start && last.length == length => last.heat += heat,
            _ if has_room => self.pieces.try_push(Piece {
                offset: stored.start,
                length,
                heat,
                is_one_of_few: false,
            })?,
            _ => {}
        }
        Ok(())
    }
}

impl Growing<'_> {
    /// Transfers the inputs' heat to the part of a BIG SSTable that has been written since `from`.
    ///
    /// It stops when `is_over` returns true. `None` if `index` and `data` do not agree: then the
    /// compression differs from that of the inputs.
    ///
    /// # Errors
    /// Those of the index and the data.
    pub fn transfer_by_index<R: ReadAt>(
        &self,
        index: &R,
        data: &R,
        from: IndexCursor,
        inputs: &mut [Input<'_, R>],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<PartHeat>> {
        let written = self.written();
        let mut heat = PartHeat {
            cursor: from,
            ..PartHeat::default()
        };
        let mut index = GrowingIndex::new(index, from)?;
        let mut current = Key::default();
        let mut start = None;
        let (mut last, mut entries, mut is_whole) = (0, 0_u32, true);
        while let Some(entry) = index.next_complete()? {
            last = entry.position;
            entries = entries.wrapping_add(1);
            if entries.is_multiple_of(PARTITIONS_A_CHECK) && is_over() {
                is_whole = false;
                break;
            }
            // The data of this partition is not written yet. Its position only shows whether index
            // and data agree.
            if last > written {
                continue;
            }
            if let Some(start) = start {
                let range = start..last.max(start);
                for input in &mut *inputs {
                    input.transfer(&current, &range, is_over, &mut |part, part_heat| match self
                        .file_range(&part)
                    {
                        Some(stored) => heat.add(&stored, part_heat),
                        None => Ok(()),
                    })?;
                }
            }
            current.copy_from(entry.key)?;
            start = Some(last);
            heat.cursor = entry.cursor;
            heat.position = last;
        }
        let lead = INDEX_LEAD_BYTES.max(2 * self.chunk_length());
        let lags = is_whole
            && written.saturating_sub(last) > INDEX_LAG_BYTES
            && (last as f64) < written as f64 * AGREEMENT_MIN;
        let agrees = last <= written + lead && !lags;
        heat.last_key = start.map(|_| current);
        let before = (heat.position / self.chunk_length()).checked_sub(1);
        let is_as_expected = match before.filter(|_| agrees && !heat.pieces.is_empty()) {
            Some(chunk) => self.is_chunk_plausible(data, chunk)?,
            None => agrees,
        };
        Ok(is_as_expected.then_some(heat))
    }
}

/// Transfers the inputs' heat to a finished SSTable, from `from` on.
///
/// It stops when `is_over` returns true.
///
/// # Errors
/// Those of the output's index. An input that cannot be read gives no heat, and is no error.
pub fn transfer_to_finished<R: ReadAt>(
    output: &SsTable<R>,
    from: IndexCursor,
    inputs: &mut [Input<'_, R>],
    is_over: &dyn Fn() -> bool,
) -> Result<PartHeat> {
    let mut heat = PartHeat {
        cursor: from,
        ..PartHeat::default()
    };
    let mut chunks = output.chunks();
    let mut partitions = output.partitions_from(from)?;
    let (mut last, mut count) = (Key::default(), 0_u32);
    while let Some(partition) = partitions.next_partition()? {
        count = count.wrapping_add(1);
        if count.is_multiple_of(PARTITIONS_A_CHECK) && is_over() {
            break;
        }
        for input in &mut *inputs {
            let mut parts: Vec<(Range<u64>, f32)> = Vec::new();
            let mut add = |part, part_heat| Ok(parts.try_push((part, part_heat))?);
            input.transfer(partition.key, &partition.uncompressed, is_over, &mut add)?;
            for (part, part_heat) in parts {
                heat.add(&chunks.file_range(part)?, part_heat)?;
            }
        }
        heat.position = partition.uncompressed.end;
        last.copy_from(partition.key)?;
    }
    heat.last_key = (count > 0).then_some(last);
    Ok(heat)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Index.db` of partitions of 1,000 bytes: key, position, no index of rows
    /// (`io/sstable/format/big/RowIndexEntry.java`).
    fn index(partitions: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..partitions {
            bytes.extend([0, 8]);
            bytes.extend(number.to_be_bytes());
            // A number of variable length: the leading ones count the bytes that follow.
            let position = (number * 1000) as u32;
            bytes.push(0xF0);
            bytes.extend(position.to_be_bytes());
            bytes.push(0);
        }
        bytes
    }

    /// Transfers to a part until the deadline has been checked `checks_max` times.
    fn transfer(
        written: u64,
        partitions: u64,
        from: IndexCursor,
        checks_max: u32,
    ) -> Option<PartHeat> {
        let index = index(partitions);
        let checks = std::cell::Cell::new(0);
        let is_over = || {
            checks.set(checks.get() + 1);
            checks.get() >= checks_max
        };
        let none: &mut [Input<'_, &[u8]>] = &mut [];
        let growing = Growing::Plain(written);
        growing
            .transfer_by_index(&&index[..], &&[][..], from, none, &is_over)
            .unwrap()
    }

    #[test]
    fn an_index_that_is_ahead_of_its_data_is_of_other_chunks() {
        let whole =
            |written, partitions| transfer(written, partitions, IndexCursor::default(), u32::MAX);
        assert_eq!(whole(500_500, 500).unwrap().position, 499_000);
        // A piece of the data has not been written yet.
        assert_eq!(whole(400_500, 500).unwrap().position, 400_000);
        assert_eq!(whole(12_500_000, 50_000), None);
        // A piece of the index has not been written yet.
        assert!(whole(50_000_000, 5_000).is_some());
        assert_eq!(whole(500_000_000, 50_000), None);
    }

    #[test]
    fn what_takes_too_long_goes_on_with_the_next_part() {
        let first = transfer(50_000_000, 50_000, IndexCursor::default(), 3).unwrap();
        assert_eq!(first.position, 3070 * 1000, "the third check ends it");
        let next = transfer(50_000_000, 50_000, first.cursor, u32::MAX).unwrap();
        assert_eq!(next.position, 49_999_000);
    }
}
