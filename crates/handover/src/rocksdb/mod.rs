//! The handover between SSTables of RocksDB or LevelDB, block by block.

mod attribution;

use crate::piece::{HeatAt, Piece};
use attribution::{Attribution, HotBlock};
use coldstream_sstable::memory::{self, TryVec};
use coldstream_sstable::rocksdb::SsTable;
use coldstream_sstable::{Error, Result};
use std::ops::{Bound, Range};

/// Most memory for an output's index, in bytes. It is enough for some GiB of SSTable in blocks of
/// 4 KiB, and for ten times more in large blocks.
const INDEX_BYTES_MAX: usize = 64 << 20;

/// Most keys of hot blocks that are looked up in the output. They take 32 MiB. Further hot blocks
/// share their heat among all blocks that they overlap.
const KEYS_MAX: usize = 4 << 20;

/// Blocks between two checks of the deadline.
const BLOCKS_A_CHECK: usize = 1024;

/// A finished output: its blocks, and their expected heat.
///
/// It holds the separators of the index. They take about a hundredth of the SSTable, at most 64 MiB.
pub struct Output {
    /// The least user key. Empty if it could not be read.
    first_key: Vec<u8>,
    /// All separators, concatenated.
    separators: Vec<u8>,
    blocks: Vec<Block>,
    attribution: Attribution,
    /// Number of keys that were looked up.
    keys: usize,
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
    /// Those of the index. [`Error::Unsupported`] if the index takes more than 64 MiB.
    pub fn read(sstable: &SsTable<'_>, is_over: &dyn Fn() -> bool) -> Result<Self> {
        let mut output = Self {
            first_key: Vec::new(),
            separators: Vec::new(),
            blocks: Vec::new(),
            attribution: Attribution::default(),
            keys: 0,
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
        if let Some(block) = output.blocks.first() {
            let mut first_key = None;
            // An error is no failure: heat of keys before the output then goes to its first block.
            let _ = sstable.user_keys(block.offset, block.length, |key| {
                first_key.get_or_insert_with(|| memory::copied(key));
            });
            output.first_key = first_key.transpose()?.unwrap_or_default();
        }
        Ok(output)
    }

    /// Adds the heat of an input's blocks whose keys this output may hold.
    ///
    /// It stops when `is_over` returns true. Returns whether the input ends within this output. Then
    /// no later output has keys of it.
    ///
    /// # Errors
    /// Those of the input's index. Heat that was added before stays.
    pub fn take_over(
        &mut self,
        input: &SsTable<'_>,
        heat: HeatAt<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let has_no_filter = input.properties().filter_bytes == Some(0);
        let mut blocks = input.blocks();
        blocks.seek(&self.first_key)?;
        let mut count = 0_usize;
        while let Some(block) = blocks.next()? {
            count += 1;
            if self.is_behind(block.lower) || count.is_multiple_of(BLOCKS_A_CHECK) && is_over() {
                return Ok(false);
            }
            let heat = f32::from(heat(block.offset));
            if heat == 0.0 {
                continue;
            }
            let candidates = self.blocks_between(block.lower, block.separator);
            // With several candidates the block is read for its keys. It is hot, hence in the page
            // cache.
            let key_blocks = match candidates.len() {
                0 | 1 => Vec::new(),
                _ if self.keys >= KEYS_MAX => Vec::new(),
                _ => self.blocks_of_keys(input, block.offset, block.length)?,
            };
            self.keys += key_blocks.len();
            self.attribution.record(HotBlock {
                candidates,
                key_blocks,
                heat,
                has_no_filter,
            })?;
        }
        Ok(true)
    }

    /// The blocks with heat, in the order of the file.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn pieces(self) -> Result<Vec<Piece>> {
        let heats = self.attribution.heats(self.blocks.len())?;
        let blocks = self.blocks.iter().zip(heats);
        let pieces = blocks
            .filter(|(_, heat)| *heat > 0.0)
            .map(|(block, heat)| Piece {
                offset: block.offset,
                length: block.length,
                heat,
            });
        Ok(memory::collected(pieces)?)
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

    /// Whether all keys above `lower` are behind this output.
    fn is_behind(&self, lower: Bound<&[u8]>) -> bool {
        let last = self.separator(self.blocks.len().saturating_sub(1));
        match lower {
            Bound::Unbounded => false,
            Bound::Included(lower) => lower > last,
            Bound::Excluded(lower) => lower >= last,
        }
    }

    /// The numbers of the blocks that may hold keys between `lower` and `separator`.
    fn blocks_between(&self, lower: Bound<&[u8]>, separator: &[u8]) -> Range<usize> {
        let first = match lower {
            Bound::Unbounded => 0,
            Bound::Included(lower) => self.first_not(|at| at < lower),
            Bound::Excluded(lower) => self.first_not(|at| at <= lower),
        };
        let last = self.first_not(|at| at < separator);
        first..(last + 1).min(self.blocks.len())
    }

    /// The number of the output's block for each key of an input's block. Empty if the block cannot
    /// be read.
    fn blocks_of_keys(&self, input: &SsTable<'_>, offset: u64, length: u64) -> Result<Vec<usize>> {
        let mut blocks = Vec::new();
        let mut added = Ok(());
        let read = input.user_keys(offset, length, |key| {
            if *key >= *self.first_key && added.is_ok() {
                added = blocks.try_push(self.first_not(|at| at < key));
            }
        });
        added?;
        match read {
            Ok(()) => Ok(blocks),
            Err(Error::OutOfMemory) => Err(Error::OutOfMemory),
            Err(_) => Ok(Vec::new()),
        }
    }
}
