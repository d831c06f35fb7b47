//! Which blocks of an input the engine has in its block cache: those that a compaction skips.
//!
//! An iterator of RocksDB or LevelDB asks the block cache before it reads a block from the file. This holds for
//! compactions too (RocksDB's `BlockBasedTable::RetrieveBlock`, LevelDB's `Table::BlockReader`). So a compaction that
//! reads block by block skips what is cached. What the block cache answers is seen nowhere else. These blocks are the
//! hottest of all. The blocks of the output are not in the block cache: their first reads go to the file.
//!
//! With a readahead of the engine's own (`compaction_readahead_size`) one read covers many blocks, and little is skipped.

use std::ops::Range;

/// A skip counts only after so many reads in order. Reads of the metadata jump.
const READS_IN_ORDER: u8 = 4;
/// A longer skip does not count. Point reads of a compaction filter jump, and seldom four times so little. Of 20 MiB in
/// the block cache of MariaDB, with its hot rows side by side, the longest run was 82 KiB.
const SKIPPED_BYTES_MAX: u64 = 1 << 20;

/// Follows the reads of one input by one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputReads {
    end: u64,
    in_order: u8,
}

impl InputReads {
    /// The thread reads these bytes of the file. Returns the bytes that it has skipped before them.
    pub fn pass(&mut self, read: Range<u64>) -> Option<Range<u64>> {
        let skipped = self.end..read.start;
        self.end = read.end;
        if skipped.start > skipped.end || skipped.end - skipped.start > SKIPPED_BYTES_MAX {
            self.in_order = 0;
            return None;
        }
        let is_in_order = self.in_order >= READS_IN_ORDER;
        self.in_order = self.in_order.saturating_add(1);
        (is_in_order && !skipped.is_empty()).then_some(skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is skipped by reads of one block each.
    fn skipped(blocks: &[u64]) -> Vec<Range<u64>> {
        let mut reads = InputReads::default();
        let block = |number: &u64| reads.pass(number * 4000..(number + 1) * 4000);
        blocks.iter().filter_map(block).collect()
    }

    #[test]
    fn a_jump_within_reads_in_order_is_a_skip() {
        let found = skipped(&[0, 1, 2, 3, 5, 6, 9]);
        assert_eq!(found, [16_000..20_000, 28_000..36_000]);
    }

    #[test]
    fn nothing_is_skipped_before_reads_are_in_order() {
        // The metadata at the end of the file, then data.
        assert!(skipped(&[9000, 8900, 8950, 0, 1, 2, 3]).is_empty());
        assert!(skipped(&[7, 9, 11, 13]).is_empty());
    }

    #[test]
    fn a_jump_back_or_far_away_begins_anew() {
        assert!(skipped(&[0, 1, 2, 3, 4, 3, 5]).is_empty());
        let far = SKIPPED_BYTES_MAX / 4000 + 10;
        assert!(skipped(&[0, 1, 2, 3, 4, far, far + 2]).is_empty());
    }

    #[test]
    fn most_blocks_may_be_skipped() {
        let blocks: Vec<u64> = (0..100).map(|number| number * 10).collect();
        assert_eq!(skipped(&blocks).len(), 96);
    }
}
