//! A table that was compacted: what its partitions' heat is.

use super::{PAGE_BYTES, WHOLE_CHUNKS_MAX};
use crate::HeatAt;
use coldstream_sstable::cassandra::{ChunkCursor, Key, Partitions, Place, Table};
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
}

impl<'a, R: ReadAt> Input<'a, R> {
    /// The input from `place` on, which was told by [`Self::place`] of the same table.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn new(table: &'a Table<R>, place: Place, heat: HeatAt<'a>) -> Result<Self> {
        Ok(Self {
            partitions: table.partitions_from(place)?,
            chunks: table.chunks(),
            chunk_length: table.chunk_length().unwrap_or(PAGE_BYTES),
            heat,
            failed: false,
        })
    }

    /// Where a later part of the same output, or a later output, goes on; `None` if the input has
    /// no partition behind those that were asked for, or has failed.
    pub fn place(&mut self) -> Option<Place> {
        if self.failed || self.partitions.is_at_end().unwrap_or(true) {
            return None;
        }
        self.partitions.place().ok()
    }

    /// Calls `give` with the heat of the partition of `key`, if it is here and has any, and with the
    /// part of `output`, where the partition lies there, that the heat belongs to.
    pub(super) fn give(
        &mut self,
        key: &Key,
        output: &Range<u64>,
        give: &mut impl FnMut(Range<u64>, f32),
    ) {
        if !self.failed && self.try_give(key, output, give).is_err() {
            self.failed = true;
        }
    }

    fn try_give(
        &mut self,
        key: &Key,
        output: &Range<u64>,
        give: &mut impl FnMut(Range<u64>, f32),
    ) -> Result<()> {
        let Some(own) = self.partitions.find(key)? else {
            return Ok(());
        };
        let length = (own.end - own.start).max(1);
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
            let share = (length as f32 / self.chunk_length as f32).min(1.0);
            give(output.clone(), f32::from(heat) * share);
            return Ok(());
        }
        let scale = (output.end - output.start) as f64 / length as f64;
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
                f32::from(heat) * share,
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
