//! Walks the data blocks of an SSTable by its index alone.

use std::ops::Bound;

use super::index::{IndexBlockCursor, IndexValue, Separator};
use super::order::{Order, Orders};
use super::sstable::SsTable;
use crate::{Result, memory};

/// Where a data block lies, and which user keys it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataBlock<'b> {
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// Bytes, including the trailer of 5 bytes: compression type and checksum. Blocks never overlap.
    /// There may be padding between them.
    pub length: u64,
    /// Every user key of the block lies within this lower bound.
    ///
    /// - [`Bound::Excluded`]: the separator of the block before.
    /// - [`Bound::Included`]: the same, but this block may begin with older versions of that user key.
    /// - [`Bound::Unbounded`]: the first block of the SSTable.
    pub lower: Bound<&'b [u8]>,
    /// No user key of the block comes behind this. It need not be a key of the SSTable.
    pub separator: &'b [u8],
    /// The first user key of the block, if the index has it (`kBinarySearchWithFirstKey`).
    pub first_key: Option<&'b [u8]>,
}

/// The data blocks of an SSTable in the order of their keys. Their offsets have the same order.
///
/// It holds one block of the index in memory: at most 64 MiB, twice that during decompression.
///
/// Together the bounds of the blocks cover all keys that the SSTable may hold. A user key can be only
/// in blocks whose `lower` and `separator` admit it. Range deletions are not in data blocks, and not
/// covered.
pub struct Blocks<'t> {
    sstable: &'t SsTable<'t>,
    /// The partition whose entries are being read, with its number.
    loaded: Option<(usize, IndexBlockCursor)>,
    /// The partition to read when none is loaded, or when the loaded one ends.
    next_partition: usize,
    /// The separator before the next entry, as it is stored.
    lower: Option<Vec<u8>>,
    /// The orders that the walk may have.
    allowed: Orders,
    /// Those of them that all separators and first keys so far have fitted.
    orders: Orders,
    /// Where the block before the next entry ends, in bytes from the beginning of the file.
    end: u64,
    /// An entry that was read but not returned yet.
    pending: Option<IndexValue>,
}

impl SsTable<'_> {
    /// The data blocks in the order of their keys. Their offsets have the same order.
    #[must_use]
    pub fn blocks(&self) -> Blocks<'_> {
        self.blocks_in(Orders::ALL)
    }

    /// As [`Self::blocks`]. It is an error if the keys have none of these orders.
    #[must_use]
    pub fn blocks_in(&self, orders: Orders) -> Blocks<'_> {
        Blocks::new(self, self.orders.and(orders))
    }
}

impl<'t> Blocks<'t> {
    fn new(sstable: &'t SsTable<'t>, orders: Orders) -> Self {
        Self {
            sstable,
            loaded: None,
            next_partition: 0,
            lower: None,
            allowed: orders,
            orders,
            end: 0,
            pending: None,
        }
    }

    /// The orders that fit all blocks so far. None behind an error because of the order.
    #[must_use]
    pub fn orders(&self) -> Orders {
        self.orders
    }

    /// The next data block. `None` behind the last one. The next call ends its borrow.
    ///
    /// # Errors
    /// Those of reading the index. After an error there are no more blocks.
    #[expect(
        clippy::should_implement_trait,
        reason = "an Iterator cannot lend its items"
    )]
    pub fn next(&mut self) -> Result<Option<DataBlock<'_>>> {
        let value = match self.pending.take() {
            Some(value) => value,
            None => match self.fuse(Self::step)? {
                Some(value) => value,
                None => return Ok(None),
            },
        };
        let Some((_, cursor)) = &self.loaded else {
            return Ok(None);
        };
        Ok(Some(DataBlock {
            offset: value.handle.offset,
            length: self.end - value.handle.offset,
            lower: self.lower_bound(),
            separator: cursor.separator()?.user_key,
            first_key: value.first_key.map(|range| cursor.slice(range)),
        }))
    }

    /// Moves forward or back to the first block that may hold `user_key`.
    ///
    /// That is the first one whose separator does not come before it. If the key has several versions,
    /// blocks behind it may hold the key too: see their `lower`. Partitions between are not read.
    ///
    /// It takes the first of [`Self::orders`] for true. From here on the blocks must have that order.
    ///
    /// # Errors
    /// Those of reading the index. After an error there are no more blocks.
    pub fn seek(&mut self, user_key: &[u8]) -> Result<()> {
        let sstable = self.sstable;
        let Some(order) = self.orders.first().or(self.allowed.first()) else {
            return Err(sstable.in_no_known_order());
        };
        self.orders = Orders::only(order);
        let is_before = |key: &[u8]| order.compare(key, user_key).is_lt();
        let partition = sstable.partitions.partition_point(|partition| {
            separator_of(partition.last_key.as_deref(), sstable)
                .is_some_and(|last| is_before(last.user_key))
        });
        self.fuse(|blocks| {
            blocks.jump(partition)?;
            blocks.skip(|separator| is_before(separator.user_key))
        })
    }

    /// Moves before the first entry of `partition`, or to the end if there is no such partition.
    fn jump(&mut self, partition: usize) -> Result<()> {
        self.pending = None;
        self.end = 0;
        let before = partition
            .checked_sub(1)
            .and_then(|at| self.sstable.partitions.get(at));
        self.lower = before
            .and_then(|before| before.last_key.as_deref())
            .map(memory::copied)
            .transpose()?;
        match &mut self.loaded {
            Some((loaded, cursor)) if *loaded == partition => cursor.rewind(),
            _ => self.load(partition)?,
        }
        Ok(())
    }

    fn load(&mut self, partition: usize) -> Result<()> {
        self.loaded = None;
        self.next_partition = partition;
        if let Some(entry) = self.sstable.partitions.get(partition) {
            self.loaded = Some((partition, self.sstable.index_block(entry.handle)?));
            self.next_partition = partition + 1;
        }
        Ok(())
    }

    /// Moves from the beginning of a partition to the first entry that is not `before`. That entry
    /// becomes pending.
    fn skip(&mut self, before: impl Fn(&Separator<'_>) -> bool) -> Result<()> {
        if let Some((_, cursor)) = &mut self.loaded {
            cursor.skip(&before)?;
        }
        while let Some(value) = self.step()? {
            let Some((_, cursor)) = &self.loaded else {
                break;
            };
            if !before(&cursor.separator()?) {
                self.pending = Some(value);
                break;
            }
        }
        Ok(())
    }

    /// The next entry, checked against the one before.
    fn step(&mut self) -> Result<Option<IndexValue>> {
        loop {
            let Some((partition, cursor)) = &mut self.loaded else {
                if self.next_partition >= self.sstable.partitions.len() {
                    return Ok(None);
                }
                self.load(self.next_partition)?;
                continue;
            };
            if let Some(key) = cursor.stored_key() {
                memory::copy(key, self.lower.get_or_insert_default())?;
            }
            if let Some(value) = cursor.step()? {
                let lower = separator_of(self.lower.as_deref(), self.sstable);
                self.orders = fitting(self.orders, cursor, &value, lower)?;
                if self.orders.is_empty() {
                    return Err(self.sstable.out_of_order(cursor));
                }
                self.end = verified_end(self.sstable, cursor, &value, self.end)?;
                return Ok(Some(value));
            }
            let last_key = self.sstable.partitions[*partition].last_key.as_deref();
            if last_key.is_some_and(|last_key| cursor.stored_key() != Some(last_key)) {
                return Err(
                    cursor.malformed("a partition whose last key differs from the top level's")
                );
            }
            self.loaded = None;
        }
    }

    fn lower_bound(&self) -> Bound<&[u8]> {
        match separator_of(self.lower.as_deref(), self.sstable) {
            None => Bound::Unbounded,
            Some(lower) if lower.may_continue() => Bound::Included(lower.user_key),
            Some(lower) => Bound::Excluded(lower.user_key),
        }
    }

    /// Ends the walk if `work` fails.
    fn fuse<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let result = work(self);
        if result.is_err() {
            self.loaded = None;
            self.pending = None;
            self.next_partition = self.sstable.partitions.len();
        }
        result
    }
}

fn separator_of<'k>(stored_key: Option<&'k [u8]>, sstable: &SsTable<'_>) -> Option<Separator<'k>> {
    sstable.index.separator(stored_key?)
}

/// The orders that an entry fits: its separator, behind the one before, and its first key, between both.
fn fitting(
    orders: Orders,
    cursor: &IndexBlockCursor,
    value: &IndexValue,
    lower: Option<Separator<'_>>,
) -> Result<Orders> {
    let separator = cursor.separator()?;
    let mut orders = match lower {
        Some(lower) => lower.orders_before(separator, orders),
        None => orders.admitting(separator.user_key),
    };
    if let Some(first_key) = value.first_key.clone().map(|range| cursor.slice(range)) {
        orders = orders.admitting(first_key).that(|order| {
            order.compare(first_key, separator.user_key).is_le()
                && lower.is_none_or(|lower| is_above(first_key, lower, order))
        });
    }
    Ok(orders)
}

/// Whether a key may be in the block behind `lower`.
fn is_above(key: &[u8], lower: Separator<'_>, order: Order) -> bool {
    let compared = order.compare(key, lower.user_key);
    compared.is_gt() || compared.is_eq() && lower.may_continue()
}

/// Where the block of `value` ends, in bytes from the beginning of the file. Checks that blocks do not
/// overlap.
fn verified_end(
    sstable: &SsTable<'_>,
    cursor: &IndexBlockCursor,
    value: &IndexValue,
    previous_end: u64,
) -> Result<u64> {
    match value.handle.end() {
        Some(end)
            if value.handle.offset >= previous_end && end <= sstable.storage.footer.offset =>
        {
            Ok(end)
        }
        _ => Err(cursor.malformed("a data block that overlaps another or the footer")),
    }
}
