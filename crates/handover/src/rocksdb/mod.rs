//! Tables of RocksDB and LevelDB: from blocks to blocks.

mod attribution;

use crate::{HeatAt, Piece};
use attribution::{Attribution, HotBlock};
use coldstream_sstable::rocksdb::SsTable;
use coldstream_sstable::{Error, Result};
use std::ops::{Bound, Range};

/// The most memory that an output's index may take here, in bytes: enough for some gigabytes of
/// table in blocks of 4 KiB, ten times as much in large ones.
const INDEX_BYTES_MAX: usize = 64 << 20;

/// Keys of hot blocks whose places are remembered, in 32 MiB; the heat of further blocks is shared by all
/// blocks that they overlap.
const KEYS_MAX: usize = 4 << 20;

/// A finished output: its blocks, and the heat that they have been given.
///
/// Holds the separators of its index: about a hundredth of the table, and 64 MiB at most.
pub struct Output {
    /// Its least user key; empty if that could not be read.
    first_key: Vec<u8>,
    /// The separators one behind the other.
    separators: Vec<u8>,
    blocks: Vec<Block>,
    attribution: Attribution,
    /// Keys whose places are remembered.
    keys: usize,
}

struct Block {
    /// Where its separator ends in `separators`.
    separator_end: usize,
    offset: u64,
    length: u64,
}

/// Blocks between two looks at the time.
const BLOCKS_A_LOOK: usize = 1024;

impl Output {
    /// Reads the index of a finished table, as far as it gets before it `is_over`: of the keys
    /// behind that it knows nothing.
    ///
    /// # Errors
    /// Those of the index; [`Error::Unsupported`] for one that would take too much memory.
    pub fn read(table: &SsTable<'_>, is_over: &dyn Fn() -> bool) -> Result<Self> {
        let mut output = Self {
            first_key: Vec::new(),
            separators: Vec::new(),
            blocks: Vec::new(),
            attribution: Attribution::default(),
            keys: 0,
        };
        let mut blocks = table.blocks();
        while let Some(block) = blocks.next()? {
            output.separators.extend_from_slice(block.separator);
            output.blocks.push(Block {
                separator_end: output.separators.len(),
                offset: block.offset,
                length: block.length,
            });
            let bytes = output.separators.len() + output.blocks.len() * size_of::<Block>();
            if bytes > INDEX_BYTES_MAX {
                return Err(Error::Unsupported("too large an index".into()));
            }
            if output.blocks.len().is_multiple_of(BLOCKS_A_LOOK) && is_over() {
                break;
            }
        }
        if let Some(block) = output.blocks.first() {
            let mut first_key = None;
            // Without it, heat of what lies before the output goes to its first block.
            let _ = table.user_keys(block.offset, block.length, |key| {
                first_key.get_or_insert_with(|| key.to_vec());
            });
            output.first_key = first_key.unwrap_or_default();
        }
        Ok(output)
    }

    /// Takes note of the heat of an input's blocks whose keys this output may have, as far as it
    /// gets before it `is_over`. Whether the input ends within this output: none of its keys is in
    /// a later one then.
    ///
    /// # Errors
    /// Those of the input's index; heat that has been noted by then stays.
    pub fn take_over(
        &mut self,
        input: &SsTable<'_>,
        heat: HeatAt<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let has_no_filter = input.properties().filter_bytes == Some(0);
        let mut blocks = input.blocks();
        blocks.seek(&self.first_key)?;
        let mut seen = 0_usize;
        while let Some(block) = blocks.next()? {
            seen += 1;
            if self.is_behind(block.lower) || seen.is_multiple_of(BLOCKS_A_LOOK) && is_over() {
                return Ok(false);
            }
            let heat = f32::from(heat(block.offset));
            if heat == 0.0 {
                continue;
            }
            let places = self.places(block.lower, block.separator);
            // Where its keys lie apart, the block itself tells where; it is in the page cache.
            let keys = match places.len() {
                0 | 1 => Vec::new(),
                _ if self.keys >= KEYS_MAX => Vec::new(),
                _ => self.places_of_keys(input, block.offset, block.length),
            };
            self.keys += keys.len();
            self.attribution.note(HotBlock {
                places,
                keys,
                heat,
                has_no_filter,
            });
        }
        Ok(true)
    }

    /// The blocks with any heat, in the order of the file.
    pub fn pieces(self) -> Vec<Piece> {
        let heats = self.attribution.heats(self.blocks.len());
        let blocks = self.blocks.iter().zip(heats);
        blocks
            .filter(|(_, heat)| *heat > 0.0)
            .map(|(block, heat)| Piece {
                offset: block.offset,
                length: block.length,
                heat,
            })
            .collect()
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

    /// The number of the first block whose separator is not `before`.
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

    /// Whether all keys above a bound are behind this output.
    fn is_behind(&self, lower: Bound<&[u8]>) -> bool {
        let last = self.separator(self.blocks.len().saturating_sub(1));
        match lower {
            Bound::Unbounded => false,
            Bound::Included(lower) => lower > last,
            Bound::Excluded(lower) => lower >= last,
        }
    }

    /// The blocks that may have keys between a bound and a separator.
    fn places(&self, lower: Bound<&[u8]>, separator: &[u8]) -> Range<usize> {
        let first = match lower {
            Bound::Unbounded => 0,
            Bound::Included(lower) => self.first_not(|at| at < lower),
            Bound::Excluded(lower) => self.first_not(|at| at <= lower),
        };
        let last = self.first_not(|at| at < separator);
        first..(last + 1).min(self.blocks.len())
    }

    /// The places of the keys of an input's block; none if the block cannot be read.
    fn places_of_keys(&self, input: &SsTable<'_>, offset: u64, length: u64) -> Vec<usize> {
        let mut places = Vec::new();
        let read = input.user_keys(offset, length, |key| {
            if *key >= *self.first_key {
                places.push(self.first_not(|at| at < key));
            }
        });
        read.map_or(Vec::new(), |_| places)
    }
}
