//! The index of an output: which of its blocks may hold a key.

use super::keys_seen::KeysSeen;
use super::sorted_keys::SortedKeys;
use coldstream_sstable::memory::{self, TryVec};
use coldstream_sstable::rocksdb::{Order, Orders, SsTable};
use coldstream_sstable::{Error, Result};
use std::ops::{Bound, Range};

/// Most memory for an output's index, in bytes. It is enough for some GiB of SSTable in blocks of
/// 4 KiB, and for ten times more in large blocks.
const INDEX_BYTES_MAX: usize = 64 << 20;
/// Blocks between two checks of the deadline.
const BLOCKS_A_CHECK: usize = 1024;

/// The separators of an output's blocks. They take about a hundredth of the SSTable, at most 64 MiB.
#[derive(Default)]
pub(super) struct OutputIndex {
    /// The first user key. `None` if it could not be read.
    first_key: Option<Vec<u8>>,
    /// All separators, concatenated.
    separators: Vec<u8>,
    blocks: Vec<Block>,
}

struct Block {
    /// Where its separator ends in `separators`.
    separator_end: usize,
    offset: u64,
    length: u64,
}

/// Its separators.
impl SortedKeys for OutputIndex {
    fn count(&self) -> usize {
        self.blocks.len()
    }

    fn key(&self, number: usize) -> &[u8] {
        let end_of = |number: usize| (self.blocks.get(number)).map_or(0, |it| it.separator_end);
        let start = number.checked_sub(1).map_or(0, end_of);
        self.separators
            .get(start..end_of(number))
            .unwrap_or_default()
    }
}

impl OutputIndex {
    /// Reads the index of a finished SSTable, and finds the orders that its separators fit. It stops when `is_over`
    /// returns true.
    ///
    /// # Errors
    /// Those of the index. [`Error::Unsupported`] if it takes more than 64 MiB.
    pub(super) fn read(
        sstable: &SsTable<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(Self, Orders)> {
        let mut index = Self::default();
        let mut blocks = sstable.blocks();
        while let Some(block) = blocks.next()? {
            memory::append(block.separator, &mut index.separators)?;
            index.blocks.try_push(Block {
                separator_end: index.separators.len(),
                offset: block.offset,
                length: block.length,
            })?;
            let bytes = index.separators.len() + index.blocks.len() * size_of::<Block>();
            if bytes > INDEX_BYTES_MAX {
                let what = memory::formatted(format_args!("an index above 64 MiB"));
                return Err(what.map_or(Error::OutOfMemory, Error::Unsupported));
            }
            if index.blocks.len().is_multiple_of(BLOCKS_A_CHECK) && is_over() {
                break;
            }
        }
        Ok((index, blocks.orders()))
    }

    /// Finds the first key, and those of `orders` that the keys of the first block fit.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if they fit none.
    pub(super) fn read_first_key(
        &mut self,
        sstable: &SsTable<'_>,
        orders: Orders,
    ) -> Result<Orders> {
        let Some(block) = self.blocks.first() else {
            return Ok(orders);
        };
        let seen = KeysSeen::in_block(sstable, block.offset, block.length, orders)?;
        self.first_key = seen.first;
        if seen.orders.is_empty() {
            return Err(sstable.in_no_known_order());
        }
        Ok(seen.orders)
    }

    /// The number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Offset and length of each block, in the order of the file.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.blocks.iter().map(|block| (block.offset, block.length))
    }

    /// The end of the data blocks, in bytes from the beginning of the file.
    pub(super) fn data_bytes(&self) -> u64 {
        let last = self.blocks.last();
        last.map_or(0, |last| last.offset.saturating_add(last.length))
    }

    /// Whether a key is not before the first one, as far as that is known.
    pub(super) fn is_not_before(&self, key: &[u8], order: Order) -> bool {
        let first_key = self.first_key.as_deref();
        first_key.is_none_or(|first| order.compare(key, first).is_ge())
    }

    /// The number of the block that has `key`, if any has. It is [`Self::len`] if the key is behind the output.
    pub(super) fn block_of(&self, key: &[u8], order: Order) -> usize {
        self.first_not(|at| order.compare(at, key).is_lt())
    }

    /// Where the search in an input begins: at the first key. Where that could not be read, it begins at the end of the
    /// first block. Otherwise this block would get the heat of all keys before the output.
    pub(super) fn start(&self) -> Option<&[u8]> {
        let first_key = self.first_key.as_deref();
        first_key.or_else(|| self.blocks.first().map(|_| self.key(0)))
    }

    /// Whether no key up to `separator` is behind this output.
    pub(super) fn covers(&self, separator: &[u8], order: Order) -> bool {
        let last = self.blocks.len().checked_sub(1);
        last.is_some_and(|last| order.compare(separator, self.key(last)).is_le())
    }

    /// Whether all keys above `lower` are behind this output.
    pub(super) fn is_behind(&self, lower: Bound<&[u8]>, order: Order) -> bool {
        let Some(last) = self.blocks.len().checked_sub(1) else {
            return true;
        };
        let compared = |lower| order.compare(lower, self.key(last));
        match lower {
            Bound::Unbounded => false,
            Bound::Included(lower) => compared(lower).is_gt(),
            Bound::Excluded(lower) => compared(lower).is_ge(),
        }
    }

    /// The numbers of the blocks that may hold keys between `lower` and `separator`.
    pub(super) fn blocks_between(
        &self,
        lower: Bound<&[u8]>,
        separator: &[u8],
        order: Order,
    ) -> Range<usize> {
        let first = self.first_from(lower, order);
        let last = self.first_not(|at| order.compare(at, separator).is_lt());
        first..(last + 1).min(self.blocks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 100 bytes that end with the keys c, f and i. The first key is b.
    fn index() -> OutputIndex {
        let block = |number: usize| Block {
            separator_end: number,
            offset: number as u64 * 100,
            length: 100,
        };
        OutputIndex {
            first_key: Some(b"b".to_vec()),
            separators: b"cfi".to_vec(),
            blocks: [1, 2, 3].map(block).into(),
        }
    }

    fn order() -> Order {
        Orders::ALL.first().unwrap()
    }

    #[test]
    fn keys_are_found_by_their_separators() {
        let (index, order) = (index(), order());
        let block_of = |key: &[u8]| index.block_of(key, order);
        assert_eq!([&b"a"[..], b"c", b"d", b"i"].map(block_of), [0, 0, 1, 2]);
        assert_eq!(block_of(b"j"), index.len(), "behind the output");
        assert!(!index.is_not_before(b"a", order) && index.is_not_before(b"b", order));
        assert!(index.covers(b"i", order) && !index.covers(b"j", order));
        assert_eq!(index.data_bytes(), 400);
    }

    #[test]
    fn blocks_of_a_range_of_keys() {
        let (index, order) = (index(), order());
        let between = |lower, separator: &[u8]| index.blocks_between(lower, separator, order);
        assert_eq!(between(Bound::Unbounded, b"c"), 0..1);
        assert_eq!(between(Bound::Excluded(b"c"), b"e"), 1..2);
        assert_eq!(between(Bound::Included(b"c"), b"z"), 0..3);
        assert!(index.is_behind(Bound::Excluded(b"i"), order));
        assert!(!index.is_behind(Bound::Included(b"i"), order));
        assert!(OutputIndex::default().is_behind(Bound::Unbounded, order));
    }
}
