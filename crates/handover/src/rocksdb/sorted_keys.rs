//! Searches among keys that stand in their order: separators of blocks, or user keys.

use coldstream_sstable::rocksdb::Order;
use std::ops::Bound;

/// Keys in their order, by number.
pub(super) trait SortedKeys {
    /// How many there are.
    fn count(&self) -> usize;

    /// One of them.
    fn key(&self, number: usize) -> &[u8];

    /// The number of the first one that is not `before`, by binary search.
    fn first_not(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.key(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The number of the first one from `lower` on.
    fn first_from(&self, lower: Bound<&[u8]>, order: Order) -> usize {
        match lower {
            Bound::Unbounded => 0,
            Bound::Included(lower) => self.first_not(|key| order.compare(key, lower).is_lt()),
            Bound::Excluded(lower) => self.first_not(|key| order.compare(key, lower).is_le()),
        }
    }
}
