//! The handover between SSTables of RocksDB or LevelDB, block by block.
//!
//! Keys are compared in the order in which the output has them. Its own keys tell it, whatever its
//! comparator is called. Where they leave two orders, an input that contradicts the first one is taken over
//! in the second. A wrong order warms wrong pages, and does nothing else.

mod attribution;
mod contents;
mod keys_seen;
mod metadata;
mod output_index;
mod sorted_keys;

pub use attribution::READ_HEAT;
pub use contents::Contents;

use crate::piece::{HeatAt, PAGE_BYTES, Piece};
use attribution::{Attribution, HotBlock};
use coldstream_sstable::memory::{self, TryVec};
use coldstream_sstable::rocksdb::{Blocks, Order, Orders, SsTable};
use coldstream_sstable::{Error, Result};
use keys_seen::KeysSeen;
use metadata::Metadata;
use output_index::OutputIndex;
use std::ops::Range;

/// Most keys of hot blocks that are looked up in the output. They take 32 MiB. Further hot blocks
/// share their heat among all blocks that they overlap.
const KEYS_MAX: usize = 4 << 20;

/// Most separators of an input that are read to find out in which of several orders it is.
const SEPARATORS_SEEN_MAX: usize = 64;

/// Where the output has no more keys than this in the range of an input's hot block, the block is not read for
/// its own keys.
const KEYS_FEW: usize = 4;

/// Blocks between two checks of the deadline.
const BLOCKS_A_CHECK: usize = 1024;

/// A finished output: its blocks, and their expected heat.
///
/// It holds the separators of the index. They take about a hundredth of the SSTable, at most 64 MiB.
pub struct Output {
    index: OutputIndex,
    /// The orders that its keys fit.
    orders: Orders,
    /// The name of its comparator.
    comparator: Option<Vec<u8>>,
    attribution: Attribution,
    /// Number of keys that were looked up.
    keys: usize,
    /// Number of inputs that were taken over.
    inputs: usize,
    /// Its keys, if they are known.
    contents: Option<Contents>,
    metadata: Metadata,
}

impl Output {
    /// Reads the index of a finished SSTable.
    ///
    /// It stops when `is_over` returns true. The keys behind that point get no heat.
    ///
    /// # Errors
    /// Those of the index. [`Error::Unsupported`] if the index takes more than 64 MiB. The same error if the
    /// keys are neither in bytewise nor in reverse bytewise order.
    pub fn read(sstable: &SsTable<'_>, is_over: &dyn Fn() -> bool) -> Result<Self> {
        let (mut index, orders) = OutputIndex::read(sstable, is_over)?;
        let orders = index.read_first_key(sstable, orders)?;
        Ok(Self {
            index,
            orders,
            comparator: sstable.comparator().map(memory::copied).transpose()?,
            attribution: Attribution::default(),
            keys: 0,
            inputs: 0,
            contents: None,
            metadata: Metadata::of_output(sstable),
        })
    }

    /// Whether `input` has the same comparator, as every input of this output has. Another SSTable may be of
    /// another column family.
    #[must_use]
    pub fn has_comparator_of(&self, input: &SsTable<'_>) -> bool {
        self.comparator.as_deref() == input.comparator()
    }

    /// From now on only keys that the output has get heat.
    pub fn know_contents(&mut self, contents: Contents) {
        self.contents = Some(contents);
    }

    /// The end of the data blocks, in bytes from the beginning of the file.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.index.data_bytes()
    }

    /// Whether an SSTable may share keys with the output, by its first and last separators. Keys of its first
    /// block do not count.
    #[must_use]
    pub fn may_share_keys(&self, first_separator: &[u8], last_separator: &[u8]) -> bool {
        let Some(order) = self.orders.first().filter(|_| self.orders.is_one()) else {
            return true;
        };
        self.index.is_not_before(last_separator, order) && self.index.covers(first_separator, order)
    }

    /// Adds the heat of an input's blocks whose keys this output may hold.
    ///
    /// It stops when `is_over` returns true. Returns whether the input ends within this output. Then
    /// no later output has keys of it.
    ///
    /// # Errors
    /// Those of the input's index. [`Error::Unsupported`] if its keys have another order. Heat of other inputs
    /// stays.
    pub fn take_over(
        &mut self,
        input: &SsTable<'_>,
        heat: HeatAt<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool> {
        self.metadata.see_input(input, heat);
        let mut orders = self.orders_of(input)?;
        // Then the output has one key, and so has the input.
        let is_undecided = orders.have_both_directions();
        let (recorded, keys) = (self.attribution.recorded(), self.keys);
        loop {
            let Some(order) = orders.first() else {
                return Err(input.in_no_known_order());
            };
            let mut walk = Walk {
                blocks: input.blocks_in(Orders::only(order)),
                order,
                is_undecided,
                is_contradicted: false,
            };
            let taken = self.take_over_in_order(input, &mut walk, heat, is_over);
            if !walk.is_contradicted && !walk.blocks.orders().is_empty() {
                self.orders = orders;
                return taken;
            }
            self.attribution.forget_behind(recorded);
            self.keys = keys;
            orders = orders.without(order);
            // The error names what was seen in the last order.
            if orders.is_empty() && taken.is_err() {
                return taken;
            }
        }
    }

    /// Index and filters, if those of an input are hot. Which of their partitions are hot is not known, but all of them
    /// are some hundredth of the SSTable. `None` if they are more than 4 MiB.
    #[must_use]
    pub fn metadata(&self) -> Option<Piece> {
        self.metadata.piece(self.data_bytes())
    }

    /// The orders of this output that the first keys of `input` fit. A search in a wrong order could pass by
    /// keys that this output has.
    fn orders_of(&self, input: &SsTable<'_>) -> Result<Orders> {
        let mut blocks = input.blocks_in(self.orders);
        let mut first = None;
        let mut count = 0;
        while !blocks.orders().is_one() && count < SEPARATORS_SEEN_MAX {
            let Some(block) = blocks.next()? else {
                break;
            };
            first.get_or_insert((block.offset, block.length));
            count += 1;
        }
        match first {
            Some((offset, length)) if !blocks.orders().is_one() => {
                Ok(KeysSeen::in_block(input, offset, length, blocks.orders())?.orders)
            }
            _ => Ok(blocks.orders()),
        }
    }

    /// Adds the heat of an input's blocks, as long as the input's keys fit the order of the walk.
    fn take_over_in_order(
        &mut self,
        input: &SsTable<'_>,
        walk: &mut Walk<'_>,
        heat: HeatAt<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let has_no_filter = input.properties().filter_bytes == Some(0);
        let order = walk.order;
        if let Some(start) = self.index.start().filter(|_| !walk.is_undecided) {
            walk.blocks.seek(start)?;
        }
        self.inputs += 1;
        let mut count = 0_usize;
        let mut ends_within = true;
        let mut page_before = None;
        while let Some(block) = walk.blocks.next()? {
            count += 1;
            ends_within = self.index.covers(block.separator, order);
            if self.index.is_behind(block.lower, order)
                || count.is_multiple_of(BLOCKS_A_CHECK) && is_over()
            {
                return Ok(false);
            }
            let heat = f32::from(heat(block.offset));
            if heat == 0.0 {
                continue;
            }
            let page = block.offset / PAGE_BYTES;
            let is_doubtful = page_before.replace(page) == Some(page);
            if is_doubtful {
                self.attribution.doubt_last();
            }
            let candidates = self
                .index
                .blocks_between(block.lower, block.separator, order);
            // With several candidates the block is read for its keys. It is hot, hence in the page
            // cache.
            let between = (self.contents.as_ref())
                .map(|contents| contents.between(block.lower, block.separator, order));
            let key_blocks = match (candidates.len(), between) {
                (0, _) | (1, None) => KeyBlocks::default(),
                _ if self.keys >= KEYS_MAX => KeyBlocks::default(),
                // It has older versions of these keys, but for few.
                (_, Some(keys)) if keys.len() <= KEYS_FEW => self.blocks_of_known(keys)?,
                _ => {
                    let (offset, length) = (block.offset, block.length);
                    let Some(key_blocks) = self.blocks_of_keys(input, offset, length, order)?
                    else {
                        walk.is_contradicted = true;
                        return Ok(false);
                    };
                    key_blocks
                }
            };
            if key_blocks.are_elsewhere {
                continue;
            }
            let key_blocks = key_blocks.numbers;
            self.keys += key_blocks.len();
            self.attribution.record(HotBlock {
                input: self.inputs,
                candidates,
                key_blocks,
                heat,
                has_no_filter,
                is_doubtful,
            })?;
        }
        Ok(ends_within && !walk.is_undecided)
    }

    /// The blocks with heat, in the order of the file.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn pieces(self) -> Result<Vec<Piece>> {
        let heats = self.attribution.heats(self.index.len())?;
        let blocks = self.index.ranges().zip(heats);
        let pieces = blocks
            .filter(|(_, own)| own.heat > 0.0)
            .map(|((offset, length), own)| Piece {
                offset,
                length,
                heat: own.heat,
                is_one_of_few: own.is_one_of_few,
            });
        Ok(memory::collected(pieces)?)
    }

    /// The number of the output's block for each of its keys.
    fn blocks_of_known(&self, keys: Range<usize>) -> Result<KeyBlocks> {
        let contents = self.contents.iter();
        Ok(KeyBlocks {
            are_elsewhere: keys.is_empty(),
            numbers: memory::collected(contents.flat_map(|it| it.blocks(keys.clone())))?,
        })
    }

    /// The number of the output's block for each key of an input's block that the output has. `None` if the keys
    /// are in another order.
    fn blocks_of_keys(
        &self,
        input: &SsTable<'_>,
        offset: u64,
        length: u64,
        order: Order,
    ) -> Result<Option<KeyBlocks>> {
        let mut blocks = Vec::new();
        let mut added = Ok(());
        let mut previous: Option<Vec<u8>> = None;
        let mut is_ordered = true;
        let read = input.user_keys(offset, length, |key| {
            if added.is_err() || !is_ordered {
                return;
            }
            is_ordered = match &previous {
                Some(previous) => order.compare(previous, key).is_le(),
                None => true,
            };
            added = memory::copy(key, previous.get_or_insert_default());
            if added.is_ok()
                && self.index.is_not_before(key, order)
                && (self.contents.as_ref()).is_none_or(|contents| contents.has(key, order))
            {
                added = blocks.try_push(self.index.block_of(key, order));
            }
        });
        added?;
        match read {
            Ok(()) => Ok(is_ordered.then_some(KeyBlocks {
                are_elsewhere: self.contents.is_some() && blocks.is_empty(),
                numbers: blocks,
            })),
            Err(Error::OutOfMemory) => Err(Error::OutOfMemory),
            Err(_) => Ok(Some(KeyBlocks::default())),
        }
    }
}

/// Where the output has the keys of an input's block.
#[derive(Default)]
struct KeyBlocks {
    /// The number of the output's block for each key. Empty if the block could not be read.
    numbers: Vec<usize>,
    /// The output has none of the keys.
    are_elsewhere: bool,
}

/// The walk through an input in one order.
struct Walk<'t> {
    blocks: Blocks<'t>,
    order: Order,
    /// The keys may as well have the opposite order.
    is_undecided: bool,
    /// The keys of a block have another order.
    is_contradicted: bool,
}
