//! The keys that an output has.
//!
//! An SSTable beside the inputs may be hot for keys that the output does not have. A compaction's input is
//! never: all its keys are in some output.

use super::sorted_keys::SortedKeys;
use coldstream_sstable::memory::{self, TryVec};
use coldstream_sstable::rocksdb::{Order, SsTable};
use coldstream_sstable::{Error, Result};
use std::cmp::Ordering;
use std::ops::{Bound, Range};

/// Most bytes of keys that are remembered.
const BYTES_MAX: usize = 8 << 20;

/// The user keys of an SSTable, in its order.
#[derive(Debug, Default)]
pub struct Contents {
    /// All keys, concatenated.
    bytes: Vec<u8>,
    keys: Vec<Key>,
    versions: u64,
    sequences: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Key {
    /// Where it ends in [`Contents::bytes`].
    end: usize,
    /// The number of its data block.
    block: usize,
}

impl SortedKeys for Contents {
    fn count(&self) -> usize {
        self.keys.len()
    }

    fn key(&self, number: usize) -> &[u8] {
        let end_of = |number: usize| self.keys.get(number).map_or(0, |key| key.end);
        let start = number.checked_sub(1).map_or(0, end_of);
        self.bytes.get(start..end_of(number)).unwrap_or_default()
    }
}

impl Contents {
    /// Reads all data blocks. `None` if there are too many keys, or `is_over` returns true, or a block cannot be
    /// read.
    ///
    /// # Errors
    /// Those of the index, and [`Error::OutOfMemory`].
    pub fn read(sstable: &SsTable<'_>, is_over: &dyn Fn() -> bool) -> Result<Option<Self>> {
        let mut contents = Self::default();
        let mut blocks = sstable.blocks();
        let mut number = 0;
        while let Some(block) = blocks.next()? {
            let read = sstable.versions(block.offset, block.length, |key, sequence| {
                contents.add(key, sequence, number)
            });
            match read {
                Ok(()) => {}
                Err(Error::OutOfMemory) => return Err(Error::OutOfMemory),
                Err(_) => return Ok(None),
            }
            number += 1;
            if contents.bytes.len() > BYTES_MAX || is_over() {
                return Ok(None);
            }
        }
        Ok(Some(contents))
    }

    fn add(&mut self, key: &[u8], sequence: u64, block: usize) -> Result<()> {
        self.versions += 1;
        let (least, most) = self.sequences.unwrap_or((sequence, sequence));
        self.sequences = Some((least.min(sequence), most.max(sequence)));
        if self.keys.last().is_some() && self.key(self.keys.len() - 1) == key {
            return Ok(());
        }
        memory::append(key, &mut self.bytes)?;
        let end = self.bytes.len();
        Ok(self.keys.try_push(Key { end, block })?)
    }

    /// The numbers of the keys above `lower` and not above `separator`.
    pub(super) fn between(
        &self,
        lower: Bound<&[u8]>,
        separator: &[u8],
        order: Order,
    ) -> Range<usize> {
        let first = self.first_from(lower, order);
        first..self.first_not(|key| order.compare(key, separator).is_le())
    }

    /// The data blocks of these keys.
    pub(super) fn blocks(&self, keys: Range<usize>) -> impl Iterator<Item = usize> {
        let keys = self.keys.get(keys).unwrap_or_default();
        keys.iter().map(|key| key.block)
    }

    /// Whether the output has this user key.
    pub(super) fn has(&self, key: &[u8], order: Order) -> bool {
        let place = self.first_not(|at| order.compare(at, key) == Ordering::Less);
        place < self.keys.len() && self.key(place) == key
    }

    /// Whether this may be a memtable: it has every write of a time, and no older one. A compaction keeps some
    /// writes of each time only.
    #[must_use]
    pub fn may_be_a_memtable(&self) -> bool {
        self.sequences
            .is_some_and(|(least, most)| most - least + 1 == self.versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keys: &[(&str, u64)]) -> Contents {
        let mut contents = Contents::default();
        for (number, (key, sequence)) in keys.iter().enumerate() {
            contents.add(key.as_bytes(), *sequence, number / 2).unwrap();
        }
        contents
    }

    #[test]
    fn a_memtable_has_every_write_of_a_time() {
        assert!(of(&[("a", 7), ("b", 5), ("b", 6)]).may_be_a_memtable());
        assert!(!of(&[("a", 7), ("b", 5)]).may_be_a_memtable());
        assert!(!of(&[]).may_be_a_memtable());
        assert!(!of(&[("a", 0), ("b", 0)]).may_be_a_memtable());
    }

    #[test]
    fn keys_and_their_blocks() {
        let contents = of(&[("b", 9), ("b", 2), ("d", 1), ("f", 7), ("h", 8)]);
        let order = Order::Bytewise;
        assert!(contents.has(b"d", order) && !contents.has(b"c", order));
        assert!(!contents.has(b"i", order));
        let blocks = |lower, separator: &str| {
            let keys = contents.between(lower, separator.as_bytes(), order);
            contents.blocks(keys).collect::<Vec<_>>()
        };
        assert_eq!(blocks(Bound::Unbounded, "d"), [0, 1]);
        assert_eq!(blocks(Bound::Excluded(b"d"), "g"), [1]);
        assert_eq!(blocks(Bound::Included(b"d"), "z"), [1, 1, 2]);
        assert!(blocks(Bound::Excluded(b"f"), "g").is_empty());
    }
}
