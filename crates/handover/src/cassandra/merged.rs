//! What a compaction makes of its inputs: their partitions, each once, in their order.

use super::Input;
use coldstream_sstable::cassandra::Key;
use coldstream_sstable::{ReadAt, Result};
use std::ops::Range;

/// Partitions that are looked at for one part of an output: with short keys they take some 15 MB.
/// Parts of 50 MiB have as many if these have 400 bytes each; of smaller ones the most are handed over
/// when the table is finished.
const PARTITIONS_MAX: usize = 1 << 17;
/// Bytes of keys at most.
const KEY_BYTES_MAX: usize = 32 << 20;
/// Hot parts of one partition at most.
const PARTS_MAX: usize = 1 << 16;
/// Who takes partitions looks at the clock after so many.
const PARTITIONS_A_LOOK: usize = 1024;
/// How far from their place keys may be that are the beginnings of others, which leaves their order
/// open.
const DISORDER: usize = 8;

/// The partitions of all inputs from a key on.
#[derive(Debug, Default)]
pub(super) struct Merged {
    keys: Vec<Key>,
    key_bytes: usize,
    /// Bytes that the inputs have of the partitions before each one, and of all.
    before: Vec<u64>,
    /// The hot ones.
    pub(super) hot: Vec<Hot>,
}

/// A partition that is hot in an input.
#[derive(Debug)]
pub(super) struct Hot {
    /// Its number.
    pub(super) number: usize,
    /// The heat of its parts, in bytes from its beginning, if the output has as many as all inputs
    /// together.
    pub(super) parts: Vec<(Range<u64>, f32)>,
}

impl Merged {
    /// Takes further partitions until the inputs have `goal` bytes of them, or it `is_over`; whether
    /// there may be more.
    pub(super) fn extend<R: ReadAt>(
        &mut self,
        inputs: &mut [Input<'_, R>],
        goal: u64,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool> {
        while self.bytes() < goal {
            let is_full = self.keys.len() >= PARTITIONS_MAX || self.key_bytes >= KEY_BYTES_MAX;
            let is_to_look = self.keys.len() % PARTITIONS_A_LOOK == PARTITIONS_A_LOOK - 1;
            if is_full || (is_to_look && is_over()) || !self.take_next(inputs)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The keys in their order: each is the beginning of the partition's at least.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Bytes that the inputs have of what lies between two of the partitions, the first included.
    pub(super) fn bytes_between(&self, from: usize, to: usize) -> u64 {
        let before = |number: usize| self.before.get(number).copied().unwrap_or(0);
        before(to).saturating_sub(before(from))
    }

    /// The number of the partition that has this key.
    pub(super) fn number_of(&self, key: &Key) -> Option<usize> {
        let near = self.keys.partition_point(|own| own.compare(key).is_lt());
        let first = near.saturating_sub(DISORDER);
        let mut near = self.keys.get(first..)?.iter().take(3 * DISORDER);
        near.position(|own| own.matches(key))
            .map(|further| first + further)
    }

    /// Whether it is certain which of two partitions is before the other.
    pub(super) fn is_certain(&self, one: usize, other: usize) -> bool {
        match (self.keys.get(one), self.keys.get(other)) {
            (Some(one), Some(other)) => one.compare(other).is_ne(),
            _ => true,
        }
    }

    /// The last partition that begins at least so many bytes before another one; the first if none
    /// does.
    pub(super) fn number_before(&self, number: usize, bytes: u64) -> usize {
        let end = self.before.get(number).copied().unwrap_or(0);
        let most = end.saturating_sub(bytes);
        let behind = self.before.partition_point(|before| *before <= most);
        behind.saturating_sub(1)
    }

    fn bytes(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    fn take_next<R: ReadAt>(&mut self, inputs: &mut [Input<'_, R>]) -> Result<bool> {
        let mut next: Option<Key> = None;
        for input in &mut *inputs {
            if let Some(partition) = input.peek()?
                && (next.as_ref()).is_none_or(|next| partition.key.compare(next).is_lt())
            {
                next = Some(partition.key.clone());
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
                key.clone_from(partition.key);
            }
            length += partition.uncompressed.end - partition.uncompressed.start;
            holders.push((number, partition.uncompressed));
        }
        let mut parts = Vec::new();
        for (number, own) in holders {
            if let Some(input) = inputs.get_mut(number) {
                input.give_own(&own, &(0..length), &mut |part, heat| {
                    if parts.len() < PARTS_MAX {
                        parts.push((part, heat));
                    }
                })?;
                input.pass()?;
            }
        }
        if !parts.is_empty() {
            let number = self.keys.len();
            self.hot.push(Hot { number, parts });
        }
        if self.before.is_empty() {
            self.before.push(0);
        }
        self.before.push(self.bytes() + length);
        self.key_bytes += key.bytes().len();
        self.keys.push(key);
        Ok(true)
    }
}
