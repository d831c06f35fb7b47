//! An input of a compaction: the heat of its partitions.

use super::chunks::{PAGE_BYTES, WHOLE_CHUNKS_MAX};
use crate::piece::HeatAt;
use coldstream_sstable::cassandra::{
    ChunkCursor, Compression, IndexCursor, Key, Partition, Partitions, SsTable,
};
use coldstream_sstable::{Error, ReadAt, Result};
use std::ops::Range;

/// An input, and its heat. Partitions are looked up in their order only.
pub struct Input<'a, R> {
    partitions: Partitions<'a, R>,
    chunks: ChunkCursor<'a, R>,
    chunk_length: u64,
    heat: HeatAt<'a>,
    /// The index could not be read. The input gives no more heat.
    has_failed: bool,
    /// The time was over during a lookup. The next part goes on from there.
    is_out_of_time: bool,
}

impl<'a, R: ReadAt> Input<'a, R> {
    /// The input from `cursor` on. `cursor` is the default, or from [`Self::cursor`] of the same
    /// SSTable.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn new(sstable: &'a SsTable<R>, cursor: IndexCursor, heat: HeatAt<'a>) -> Result<Self> {
        Ok(Self {
            partitions: sstable.partitions_from(cursor)?,
            chunks: sstable.chunks(),
            chunk_length: (sstable.compression()).map_or(PAGE_BYTES, Compression::chunk_length),
            heat,
            has_failed: false,
            is_out_of_time: false,
        })
    }

    /// Where a later part of the same output, or a later output, goes on. `None` if the index could
    /// not be read.
    pub fn cursor(&mut self) -> Option<IndexCursor> {
        let cursor = self.partitions.cursor().ok();
        cursor.filter(|_| !self.has_failed)
    }

    /// Calls `add` with the heat of the partition of `key`, if the input has any.
    ///
    /// `output` is where the partition lies in the output. `add` gets parts of it, each with its
    /// heat. Once `is_over` returns true, the input gives no more heat.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] alone. An input that cannot be read gives no more heat.
    pub(super) fn transfer(
        &mut self,
        key: &Key,
        output: &Range<u64>,
        is_over: &dyn Fn() -> bool,
        add: &mut impl FnMut(Range<u64>, f32) -> Result<()>,
    ) -> Result<()> {
        if self.has_failed || self.is_out_of_time {
            return Ok(());
        }
        match self.try_transfer(key, output, is_over, add) {
            Ok(()) => {}
            Err(Error::OutOfMemory) => return Err(Error::OutOfMemory),
            Err(_) => self.has_failed = true,
        }
        Ok(())
    }

    fn try_transfer(
        &mut self,
        key: &Key,
        output: &Range<u64>,
        is_over: &dyn Fn() -> bool,
        add: &mut impl FnMut(Range<u64>, f32) -> Result<()>,
    ) -> Result<()> {
        if !self.partitions.skip_to_key_within(key, is_over)? {
            self.is_out_of_time = true;
            return Ok(());
        }
        match self.partitions.find(key)? {
            Some(own) => self.transfer_range(&own, output, add),
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

    /// As [`Self::transfer`], for the partition at `own` of the uncompressed data.
    pub(super) fn transfer_range(
        &mut self,
        own: &Range<u64>,
        output: &Range<u64>,
        add: &mut impl FnMut(Range<u64>, f32) -> Result<()>,
    ) -> Result<()> {
        let length = (own.end - own.start).max(1);
        let output_length = (output.end - output.start).max(1);
        let chunks = own.start / self.chunk_length..own.end.div_ceil(self.chunk_length);
        if chunks.end - chunks.start <= WHOLE_CHUNKS_MAX {
            // The foreground reads it as a whole. If one of its chunks is cold, then the others were
            // read because of neighbouring partitions.
            let mut heat = u8::MAX;
            for chunk in chunks {
                heat = heat.min(self.heat_of(chunk)?);
                if heat == 0 {
                    return Ok(());
                }
            }
            let share = share_of_whole(length, output_length, self.chunk_length);
            add(output.clone(), f32::from(heat) * share)?;
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
            let in_output = |at: u64| output.start + ((at - own.start) as f64 * scale) as u64;
            let share = (end - start) as f32 / self.chunk_length as f32;
            add(
                in_output(start)..in_output(end).min(output.end),
                f32::from(heat) * share * spread(length, output_length),
            )?;
        }
        Ok(())
    }

    fn heat_of(&mut self, chunk: u64) -> Result<u8> {
        let position = chunk * self.chunk_length;
        let stored = self.chunks.file_range(position..position + 1)?;
        Ok((self.heat)(stored.start))
    }
}

/// The share of its heat that a byte of a large partition keeps.
///
/// An input's bytes are only a part of the partition in the output, and it is not known which part.
/// So their heat is spread over all of its bytes.
fn spread(length: u64, output_length: u64) -> f32 {
    (length as f32 / output_length as f32).min(1.0)
}

/// The share of its chunks' heat that a partition gets if it is read as a whole.
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
