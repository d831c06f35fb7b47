//! A table that was compacted: what its partitions' heat is.

use super::{PAGE_BYTES, WHOLE_CHUNKS_MAX};
use crate::HeatAt;
use coldstream_sstable::cassandra::{
    ChunkCursor, Compression, IndexCursor, Key, Partition, Partitions, SsTable,
};
use coldstream_sstable::{ReadAt, Result};
use std::ops::Range;

/// An input, from a place of its index on. It is asked for partitions in their order.
pub struct Input<'a, R> {
    partitions: Partitions<'a, R>,
    chunks: ChunkCursor<'a, R>,
    chunk_length: u64,
    heat: HeatAt<'a>,
    /// Its index turned out to be unreadable: it gives no heat any more.
    failed: bool,
    /// The time was over before a partition was found: the next part goes on from there.
    gave_up: bool,
}

impl<'a, R: ReadAt> Input<'a, R> {
    /// The input from `cursor` on, which was told by [`Self::cursor`] of the same table.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn new(table: &'a SsTable<R>, cursor: IndexCursor, heat: HeatAt<'a>) -> Result<Self> {
        Ok(Self {
            partitions: table.partitions_from(cursor)?,
            chunks: table.chunks(),
            chunk_length: (table.compression()).map_or(PAGE_BYTES, Compression::chunk_length),
            heat,
            failed: false,
            gave_up: false,
        })
    }

    /// Where a later part of the same output, or a later output, goes on; `None` if the input has
    /// failed.
    pub fn cursor(&mut self) -> Option<IndexCursor> {
        let cursor = self.partitions.cursor().ok();
        cursor.filter(|_| !self.failed)
    }

    /// Calls `give` with the heat of the partition of `key`, if it is here and has any, and with the
    /// part of `output`, where the partition lies there, that the heat belongs to. Gives up for good
    /// when it `is_over`.
    pub(super) fn give(
        &mut self,
        key: &Key,
        output: &Range<u64>,
        is_over: &dyn Fn() -> bool,
        give: &mut impl FnMut(Range<u64>, f32),
    ) {
        let is_ended = self.failed || self.gave_up;
        if !is_ended && self.try_give(key, output, is_over, give).is_err() {
            self.failed = true;
        }
    }

    fn try_give(
        &mut self,
        key: &Key,
        output: &Range<u64>,
        is_over: &dyn Fn() -> bool,
        give: &mut impl FnMut(Range<u64>, f32),
    ) -> Result<()> {
        if !self.partitions.skip_to_key_within(key, is_over)? {
            self.gave_up = true;
            return Ok(());
        }
        match self.partitions.find(key)? {
            Some(own) => self.give_own(&own, output, give),
            None => Ok(()),
        }
    }

    /// Passes over all partitions before the one of `key`.
    pub(super) fn skip_to(&mut self, key: &Key) -> Result<()> {
        self.partitions.skip_to_key(key)
    }

    /// The next partition.
    pub(super) fn peek(&mut self) -> Result<Option<Partition<'_>>> {
        self.partitions.peek()
    }

    /// Passes over the next partition.
    pub(super) fn pass(&mut self) -> Result<()> {
        self.partitions.next_partition().map(|_| ())
    }

    /// As [`Self::give`], of the partition that lies at `own` of the uncompressed data.
    pub(super) fn give_own(
        &mut self,
        own: &Range<u64>,
        output: &Range<u64>,
        give: &mut impl FnMut(Range<u64>, f32),
    ) -> Result<()> {
        let length = (own.end - own.start).max(1);
        let output_length = (output.end - output.start).max(1);
        let chunks = own.start / self.chunk_length..own.end.div_ceil(self.chunk_length);
        if chunks.end - chunks.start <= WHOLE_CHUNKS_MAX {
            // It is read as a whole: where one of its chunks is cold, the others were read for the
            // sake of its neighbours.
            let mut heat = u8::MAX;
            for chunk in chunks {
                heat = heat.min(self.heat_of(chunk)?);
                if heat == 0 {
                    return Ok(());
                }
            }
            let share = share_of_whole(length, output_length, self.chunk_length);
            give(output.clone(), f32::from(heat) * share);
            return Ok(());
        }
        let scale = output_length as f64 / length as f64;
        for chunk in chunks {
            let heat = self.heat_of(chunk)?;
            if heat == 0 {
                continue;
            }
            let start = (chunk * self.chunk_length).max(own.start);
            let end = ((chunk + 1) * self.chunk_length).min(own.end);
            let there = |at: u64| output.start + ((at - own.start) as f64 * scale) as u64;
            let share = (end - start) as f32 / self.chunk_length as f32;
            give(
                there(start)..there(end).min(output.end),
                f32::from(heat) * share * spread(length, output_length),
            );
        }
        Ok(())
    }

    fn heat_of(&mut self, chunk: u64) -> Result<u8> {
        let position = chunk * self.chunk_length;
        let stored = self.chunks.file_range(position..position + 1)?;
        Ok((self.heat)(stored.start))
    }
}

/// What each byte of a partition keeps of heat, whose bytes in one input become these of the output: what
/// an input has of a large partition is a part of it there, and nobody knows which.
fn spread(length: u64, output_length: u64) -> f32 {
    (length as f32 / output_length as f32).min(1.0)
}

/// The part of its chunks' heat that a partition gets which was read as a whole.
fn share_of_whole(length: u64, output_length: u64, chunk_length: u64) -> f32 {
    let of_chunk = (length as f32 / chunk_length as f32).min(1.0);
    if output_length.div_ceil(chunk_length) <= WHOLE_CHUNKS_MAX {
        return of_chunk;
    }
    of_chunk * spread(length, output_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_does_not_make_a_large_partition_hot() {
        const CHUNK: u64 = 16 << 10;
        assert_eq!(share_of_whole(1 << 10, 1 << 10, CHUNK), 1.0 / 16.0);
        assert_eq!(
            share_of_whole(CHUNK, 2 * CHUNK, CHUNK),
            1.0,
            "read as a whole there too"
        );
        assert_eq!(share_of_whole(CHUNK, 16 * CHUNK, CHUNK), 1.0 / 16.0);
        assert!(share_of_whole(CHUNK, 100 << 20, CHUNK) < 0.001);
        assert_eq!(spread(40 * CHUNK, 10 * CHUNK), 1.0, "overwritten");
    }
}
