//! Merges the partitions of all inputs, as a compaction does: each once, in order.

use super::input::Input;
use coldstream_sstable::cassandra::Key;
use coldstream_sstable::memory::TryVec;
use coldstream_sstable::{ReadAt, Result};
use std::ops::Range;

/// Most partitions that are merged for one part of an output. With short keys they take about 15 MB.
///
/// A part of 50 MiB has this number of partitions of 400 bytes each. If they are smaller, most are
/// handed over when the SSTable is finished.
const PARTITIONS_MAX: usize = 1 << 17;
/// Most bytes of keys.
const KEY_BYTES_MAX: usize = 32 << 20;
/// Most hot parts of one partition.
const PARTS_MAX: usize = 1 << 16;
/// Partitions between two checks of the deadline.
const PARTITIONS_A_CHECK: usize = 1024;
/// How far a key may be from its sorted position. The order of a key and its prefix is not known.
const DISORDER: usize = 8;

/// The partitions of all inputs from a key on.
#[derive(Debug, Default)]
pub(super) struct Merged {
    keys: Vec<Key>,
    key_bytes: usize,
    /// Bytes in all inputs before each partition. The last element is the total.
    before: Vec<u64>,
    /// The partitions with heat.
    pub(super) hot: Vec<Hot>,
}

/// A partition that is hot in an input.
#[derive(Debug)]
pub(super) struct Hot {
    /// Its number.
    pub(super) number: usize,
    /// Parts of the partition, and their heat. Offsets count from the partition's beginning, as if
    /// the output had all bytes of all inputs.
    pub(super) parts: Vec<(Range<u64>, f32)>,
}

impl Merged {
    /// Merges further partitions until they have `goal` bytes in the inputs, or `is_over` returns
    /// true. Returns whether there may be more.
    pub(super) fn extend<R: ReadAt>(
        &mut self,
        inputs: &mut [Input<'_, R>],
        goal: u64,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool> {
        while self.bytes() < goal {
            let is_full = self.keys.len() >= PARTITIONS_MAX || self.key_bytes >= KEY_BYTES_MAX;
            let must_check = self.keys.len() % PARTITIONS_A_CHECK == PARTITIONS_A_CHECK - 1;
            if is_full || (must_check && is_over()) || !self.take_next(inputs)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The keys in order. Each is complete, or a prefix of the partition's key.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Bytes in all inputs from the beginning of partition `from` to that of partition `to`.
    pub(super) fn bytes_between(&self, from: usize, to: usize) -> u64 {
        let before = |number: usize| self.before.get(number).copied().unwrap_or(0);
        before(to).saturating_sub(before(from))
    }

    /// The number of the partition with this key.
    pub(super) fn number_of(&self, key: &Key) -> Option<usize> {
        let near = self.keys.partition_point(|own| own.compare(key).is_lt());
        let first = near.saturating_sub(DISORDER);
        let mut near = self.keys.get(first..)?.iter().take(3 * DISORDER);
        near.position(|own| own.matches(key))
            .map(|offset| first + offset)
    }

    /// Whether the order of two partitions is known.
    pub(super) fn is_order_certain(&self, one: usize, other: usize) -> bool {
        match (self.keys.get(one), self.keys.get(other)) {
            (Some(one), Some(other)) => one.compare(other).is_ne(),
            _ => true,
        }
    }

    /// The last partition that begins at least `bytes` before partition `number`. The first one if
    /// none does.
    pub(super) fn number_before(&self, number: usize, bytes: u64) -> usize {
        let end = self.before.get(number).copied().unwrap_or(0);
        let limit = end.saturating_sub(bytes);
        let after = self.before.partition_point(|before| *before <= limit);
        after.saturating_sub(1)
    }

    /// Bytes of all merged partitions in all inputs.
    fn bytes(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// Merges the next partition. Returns false if the inputs have none.
    fn take_next<R: ReadAt>(&mut self, inputs: &mut [Input<'_, R>]) -> Result<bool> {
        let mut next: Option<Key> = None;
        for input in &mut *inputs {
            if let Some(partition) = input.peek()?
                && (next.as_ref()).is_none_or(|next| partition.key.compare(next).is_lt())
            {
                next.get_or_insert_default().copy_from(partition.key)?;
            }
        }
        let Some(mut key) = next else {
            return Ok(false);
        };
        let mut length = 0;
        let mut holders = Vec::new();
        for (number, input) in inputs.iter_mut().enumerate() {
            let Some(partition) = input.peek()?.filter(|it| it.key.matches(&key)) else {
                continue;
            };
            if partition.key.bytes().len() > key.bytes().len() {
                key.copy_from(partition.key)?;
            }
            length += partition.uncompressed.end - partition.uncompressed.start;
            holders.try_push((number, partition.uncompressed))?;
        }
        let mut parts = Vec::new();
        for (number, own) in holders {
            if let Some(input) = inputs.get_mut(number) {
                input.transfer_range(&own, &(0..length), &mut |part, heat| {
                    if parts.len() < PARTS_MAX {
                        parts.try_push((part, heat))?;
                    }
                    Ok(())
                })?;
                input.pass()?;
            }
        }
        if !parts.is_empty() {
            let number = self.keys.len();
            self.hot.try_push(Hot { number, parts })?;
        }
        if self.before.is_empty() {
            self.before.try_push(0)?;
        }
        self.before.try_push(self.bytes() + length)?;
        self.key_bytes += key.bytes().len();
        self.keys.try_push(key)?;
        Ok(true)
    }
}
