//! The handover between SSTables of RocksDB or LevelDB, block by block.
//!
//! Keys are compared in the order in which the output has them. Its own keys tell it, whatever its
//! comparator is called. Where they leave two orders, an input that contradicts the first one is taken over
//! in the second. A wrong order warms wrong pages, and does nothing else.

mod attribution;
mod contents;

pub use attribution::READ_HEAT;
pub use contents::Contents;

use crate::piece::{HeatAt, PAGE_BYTES, Piece};
use attribution::{Attribution, HotBlock};
use coldstream_sstable::memory::{self, TryVec};
use coldstream_sstable::rocksdb::{Blocks, Order, Orders, SsTable};
use coldstream_sstable::{Error, Result};
use std::ops::{Bound, Range};

/// Most memory for an output's index, in bytes. It is enough for some GiB of SSTable in blocks of
/// 4 KiB, and for ten times more in large blocks.
const INDEX_BYTES_MAX: usize = 64 << 20;

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

/// Most bytes of index and filters that are warmed. An SSTable of some hundred MiB has as many.
const METADATA_BYTES_MAX: u64 = 4 << 20;

/// A finished output: its blocks, and their expected heat.
///
/// It holds the separators of the index. They take about a hundredth of the SSTable, at most 64 MiB.
pub struct Output {
    /// The first user key. `None` if it could not be read.
    first_key: Option<Vec<u8>>,
    /// The orders that its keys fit.
    orders: Orders,
    /// The name of its comparator.
    comparator: Option<Vec<u8>>,
    /// All separators, concatenated.
    separators: Vec<u8>,
    blocks: Vec<Block>,
    attribution: Attribution,
    /// Number of keys that were looked up.
    keys: usize,
    /// Number of inputs that were taken over.
    inputs: usize,
    /// Its keys, if they are known.
    contents: Option<Contents>,
    /// Where its index and filters end, in bytes from the beginning of the file.
    metadata_end: u64,
    /// The highest heat of the inputs' indexes and filters.
    metadata_heat: u8,
}

struct Block {
    /// Where its separator ends in `separators`.
    separator_end: usize,
    offset: u64,
    length: u64,
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
        let mut output = Self {
            first_key: None,
            orders: Orders::NONE,
            comparator: sstable.comparator().map(memory::copied).transpose()?,
            separators: Vec::new(),
            blocks: Vec::new(),
            attribution: Attribution::default(),
            keys: 0,
            inputs: 0,
            contents: None,
            metadata_end: sstable.footer_offset(),
            metadata_heat: 0,
        };
        let mut blocks = sstable.blocks();
        while let Some(block) = blocks.next()? {
            memory::append(block.separator, &mut output.separators)?;
            output.blocks.try_push(Block {
                separator_end: output.separators.len(),
                offset: block.offset,
                length: block.length,
            })?;
            let bytes = output.separators.len() + output.blocks.len() * size_of::<Block>();
            if bytes > INDEX_BYTES_MAX {
                let what = memory::formatted(format_args!("an index above 64 MiB"));
                return Err(what.map_or(Error::OutOfMemory, Error::Unsupported));
            }
            if output.blocks.len().is_multiple_of(BLOCKS_A_CHECK) && is_over() {
                break;
            }
        }
        output.orders = blocks.orders();
        output.read_first_block(sstable)?;
        Ok(output)
    }

    /// Finds the first key, and the orders that the keys of the first block fit.
    fn read_first_block(&mut self, sstable: &SsTable<'_>) -> Result<()> {
        if let Some(block) = self.blocks.first() {
            let (offset, length) = (block.offset, block.length);
            let seen = KeysSeen::in_block(sstable, offset, length, self.orders)?;
            self.orders = seen.orders;
            self.first_key = seen.first;
            if self.orders.is_empty() {
                return Err(sstable.in_no_known_order());
            }
        }
        Ok(())
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
        let last = self.blocks.last();
        last.map_or(0, |last| last.offset.saturating_add(last.length))
    }

    /// Whether an SSTable may share keys with the output, by its first and last separators. Keys of its first
    /// block do not count.
    #[must_use]
    pub fn may_share_keys(&self, first_separator: &[u8], last_separator: &[u8]) -> bool {
        let Some(order) = self.orders.first().filter(|_| self.orders.is_one()) else {
            return true;
        };
        let first_key = self.first_key.as_deref();
        first_key.is_none_or(|first| order.compare(last_separator, first).is_ge())
            && self.covers(first_separator, order)
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
        self.see_metadata(input, heat);
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

    /// Notes whether readers go to the input's index and filters: to their partitions, or to all of them where the
    /// engine's block cache is small. The page that the last data block shares does not count.
    fn see_metadata(&mut self, input: &SsTable<'_>, heat: HeatAt<'_>) {
        let Some(data_bytes) = input.properties().data_bytes else {
            return;
        };
        let start = data_bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES;
        let end = (input.footer_offset()).min(start.saturating_add(METADATA_BYTES_MAX));
        let pages = (start..end).step_by(PAGE_BYTES as usize);
        let hottest = pages.map(heat).max().unwrap_or(0);
        self.metadata_heat = self.metadata_heat.max(hottest);
    }

    /// Index and filters, if those of an input are hot. Which of their partitions are hot is not known, but all of them
    /// are some hundredth of the SSTable. `None` if they are more than 4 MiB.
    #[must_use]
    pub fn metadata(&self) -> Option<Piece> {
        let offset = self.data_bytes();
        let length = self.metadata_end.saturating_sub(offset);
        let is_hot = self.metadata_heat > 0 && (1..=METADATA_BYTES_MAX).contains(&length);
        is_hot.then(|| Piece {
            offset,
            length,
            heat: self.metadata_heat.into(),
            is_one_of_few: true,
        })
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
        if let Some(start) = self.start().filter(|_| !walk.is_undecided) {
            walk.blocks.seek(start)?;
        }
        self.inputs += 1;
        let mut count = 0_usize;
        let mut ends_within = true;
        let mut page_before = None;
        while let Some(block) = walk.blocks.next()? {
            count += 1;
            ends_within = self.covers(block.separator, order);
            if self.is_behind(block.lower, order)
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
            let candidates = self.blocks_between(block.lower, block.separator, order);
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
        let heats = self.attribution.heats(self.blocks.len())?;
        let blocks = self.blocks.iter().zip(heats);
        let pieces = blocks
            .filter(|(_, own)| own.heat > 0.0)
            .map(|(block, own)| Piece {
                offset: block.offset,
                length: block.length,
                heat: own.heat,
                is_one_of_few: own.is_one_of_few,
            });
        Ok(memory::collected(pieces)?)
    }

    /// Where the search in an input begins: at the first key. Where that could not be read, it begins at the end of the
    /// first block. Otherwise this block would get the heat of all keys before the output.
    fn start(&self) -> Option<&[u8]> {
        let first_key = self.first_key.as_deref();
        first_key.or_else(|| self.blocks.first().map(|_| self.separator(0)))
    }

    fn separator(&self, number: usize) -> &[u8] {
        let end = self
            .blocks
            .get(number)
            .map_or(0, |block| block.separator_end);
        let before = number
            .checked_sub(1)
            .and_then(|number| self.blocks.get(number));
        let start = before.map_or(0, |block| block.separator_end);
        self.separators.get(start..end).unwrap_or_default()
    }

    /// The number of the first block whose separator is not `before`, by binary search.
    fn first_not(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.blocks.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.separator(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Whether no key up to `separator` is behind this output.
    fn covers(&self, separator: &[u8], order: Order) -> bool {
        let last = self.blocks.len().checked_sub(1);
        last.is_some_and(|last| order.compare(separator, self.separator(last)).is_le())
    }

    /// Whether all keys above `lower` are behind this output.
    fn is_behind(&self, lower: Bound<&[u8]>, order: Order) -> bool {
        let Some(last) = self.blocks.len().checked_sub(1) else {
            return true;
        };
        let compared = |lower| order.compare(lower, self.separator(last));
        match lower {
            Bound::Unbounded => false,
            Bound::Included(lower) => compared(lower).is_gt(),
            Bound::Excluded(lower) => compared(lower).is_ge(),
        }
    }

    /// The numbers of the blocks that may hold keys between `lower` and `separator`.
    fn blocks_between(&self, lower: Bound<&[u8]>, separator: &[u8], order: Order) -> Range<usize> {
        let first = match lower {
            Bound::Unbounded => 0,
            Bound::Included(lower) => self.first_not(|at| order.compare(at, lower).is_lt()),
            Bound::Excluded(lower) => self.first_not(|at| order.compare(at, lower).is_le()),
        };
        let last = self.first_not(|at| order.compare(at, separator).is_lt());
        first..(last + 1).min(self.blocks.len())
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
            let first_key = self.first_key.as_deref();
            if added.is_ok()
                && first_key.is_none_or(|first| order.compare(key, first).is_ge())
                && (self.contents.as_ref()).is_none_or(|contents| contents.has(key, order))
            {
                added = blocks.try_push(self.first_not(|at| order.compare(at, key).is_lt()));
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

/// What the keys of a data block show.
struct KeysSeen {
    /// `None` if the block could not be read.
    first: Option<Vec<u8>>,
    orders: Orders,
}

impl KeysSeen {
    /// Reads a block, unless that is not possible, and finds those of `orders` that fit its keys.
    fn in_block(sstable: &SsTable<'_>, offset: u64, length: u64, orders: Orders) -> Result<Self> {
        let (mut first, mut previous) = (None, Vec::new());
        let mut seen = Ok(orders);
        let read = sstable.user_keys(offset, length, |key| {
            if let Ok(orders) = &seen {
                let orders = match &first {
                    Some(_) => orders.seen(&previous, key),
                    None => *orders,
                };
                seen = memory::copy(key, &mut previous).map(|()| orders);
                first.get_or_insert_with(|| memory::copied(key));
            }
        });
        match read {
            Err(Error::OutOfMemory) => Err(Error::OutOfMemory),
            Ok(()) | Err(_) => Ok(Self {
                orders: seen?,
                first: first.transpose()?,
            }),
        }
    }
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
