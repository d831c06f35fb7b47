//! The table that a compaction makes: where the heat of its inputs' partitions goes.

use super::Input;
use super::growing::Growing;
use crate::Piece;
use coldstream_sstable::cassandra::{GrowingIndex, Key, Place, Table};
use coldstream_sstable::{ReadAt, Result};
use std::ops::Range;

/// How far the index of a growing table may be from its chunks, in parts of the data that has been
/// written: anything else means that the chunks have another length than those of the inputs.
const AGREEMENT: Range<f64> = 0.6..1.05;
/// So many bytes of data may be missing in the index in any case: it is written in pieces of its
/// own, each of the entries of some megabytes of data.
const INDEX_LAG_BYTES: u64 = 64 << 20;

/// Hot places that are remembered of one part, in 24 MB: 4 GiB of chunks of 4 KiB. Further ones
/// stay cold.
const PIECES_MAX: usize = 1 << 20;

/// The heat that a part of an output has been given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// In the order of the file, except in very large partitions.
    pub pieces: Vec<Piece>,
    /// Where the next part begins.
    pub place: Place,
    /// Position of the uncompressed data at which the next part begins.
    pub position: u64,
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
    /// Hands the inputs' heat over to the part of a BIG table that has been written since `from`.
    /// `None` if index and data do not agree.
    ///
    /// # Errors
    /// Those of the index.
    pub fn carry<R: ReadAt>(
        &self,
        index: &R,
        from: Place,
        inputs: &mut [Input<'_, R>],
    ) -> Result<Option<Carried>> {
        let mut carried = Carried {
            place: from,
            ..Carried::default()
        };
        let mut index = GrowingIndex::new(index, from)?;
        let mut current = Key::default();
        let mut start = None;
        while let Some(written) = index.next_written()? {
            if let Some(start) = start {
                let range = start..written.position.max(start);
                if self.file_range(&range).is_none() {
                    break;
                }
                for input in &mut *inputs {
                    input.give(&current, &range, &mut |part, heat| {
                        if let Some(stored) = self.file_range(&part) {
                            carried.add(&stored, heat);
                        }
                    });
                }
            }
            written.key.clone_into(&mut current);
            start = Some(written.position);
            carried.place = written.place;
            carried.position = written.position;
        }
        let written = self.written();
        let part = carried.position as f64 / written.max(1) as f64;
        let lags = carried.position <= written && written - carried.position <= INDEX_LAG_BYTES;
        Ok((lags || AGREEMENT.contains(&part)).then_some(carried))
    }
}

/// Hands the inputs' heat over to the part of a finished table from `from` on.
///
/// # Errors
/// Those of the table's index.
pub fn carry_finished<R: ReadAt>(
    table: &Table<R>,
    from: Place,
    inputs: &mut [Input<'_, R>],
) -> Result<Carried> {
    let mut carried = Carried {
        place: from,
        ..Carried::default()
    };
    let mut chunks = table.chunks();
    let mut partitions = table.partitions_from(from)?;
    while let Some(partition) = partitions.next_partition()? {
        for input in &mut *inputs {
            let mut given: Vec<(Range<u64>, f32)> = Vec::new();
            input.give(partition.key, &partition.uncompressed, &mut |part, heat| {
                given.push((part, heat));
            });
            for (part, heat) in given {
                carried.add(&chunks.file_range(part)?, heat);
            }
        }
        carried.position = partition.uncompressed.end;
    }
    Ok(carried)
}
