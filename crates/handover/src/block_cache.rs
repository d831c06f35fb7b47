//! Which blocks of an input the engine has in its block cache: those that a compaction skips.
//!
//! An iterator of RocksDB or LevelDB asks the block cache before it reads a block from the file. This holds for
//! compactions too (RocksDB's `BlockBasedTable::RetrieveBlock`, LevelDB's `Table::BlockReader`). So a compaction that
//! reads block by block skips what is cached. What the block cache answers is seen nowhere else. These blocks are the
//! hottest of all. The blocks of the output are not in the block cache: their first reads go to the file.
//!
//! With a readahead of the engine's own (`compaction_readahead_size`) one read covers many blocks, and little is skipped.

use std::ops::Range;

/// Reads that began where the one before ended count, up to so many.
const FOLLOWED_MAX: u8 = 64;
/// So many must be left for a skip. Each skip takes one: a compaction filter that looks up keys in order skips with
/// nearly every read.
const FOLLOWED_MIN: u8 = 4;
/// A longer skip does not count: a wrong guess would warm much. Of 20 MiB in the block cache of MariaDB, with its hot
/// rows side by side, the longest run was 82 KiB.
const SKIPPED_BYTES_MAX: u64 = 1 << 20;
/// With `block_align` the engine fills up each block to a multiple of this.
const ALIGNED_BYTES: u64 = 4096;

/// Follows the reads of one input by one thread.
#[derive(Clone, Debug, Default)]
pub struct InputReads {
    end: u64,
    followed: u8,
    /// Skipped before the last read. The next read may still lie before it: then that was one of metadata, which is
    /// behind the data.
    doubtful: Option<Range<u64>>,
}

impl InputReads {
    /// The thread reads these bytes of the file. Returns the bytes that it has skipped before its last read.
    pub fn pass(&mut self, read: Range<u64>) -> Option<Range<u64>> {
        let mut skipped = self.end..read.start;
        self.end = read.end;
        let confirmed = self.doubtful.take();
        if skipped.start > skipped.end || skipped.end - skipped.start > SKIPPED_BYTES_MAX {
            self.followed = 0;
            return None;
        }
        if skipped.end.is_multiple_of(ALIGNED_BYTES) {
            // What fills up the last block is part of it.
            skipped.start = skipped.start.next_multiple_of(ALIGNED_BYTES);
        }
        if skipped.is_empty() {
            self.followed = (self.followed + 1).min(FOLLOWED_MAX);
        } else if self.followed >= FOLLOWED_MIN {
            self.followed -= 1;
            self.doubtful = Some(skipped);
        }
        confirmed
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
        let found = skipped(&[0, 1, 2, 3, 4, 6, 7, 10, 11]);
        assert_eq!(found, [20_000..24_000, 32_000..40_000]);
    }

    #[test]
    fn nothing_is_skipped_before_reads_are_in_order() {
        // The metadata at the end of the file, then data.
        assert!(skipped(&[9000, 8900, 8950, 0, 1, 2, 3]).is_empty());
        assert!(skipped(&[7, 9, 11, 13, 14]).is_empty());
    }

    #[test]
    fn a_jump_back_or_far_away_begins_anew() {
        assert!(skipped(&[0, 1, 2, 3, 4, 5, 3, 5, 6]).is_empty());
        let far = SKIPPED_BYTES_MAX / 4000 + 10;
        assert!(skipped(&[0, 1, 2, 3, 4, 5, far, far + 2, far + 3]).is_empty());
    }

    /// A partition of the index lies behind the data.
    #[test]
    fn metadata_among_the_data_is_no_skip() {
        assert!(skipped(&[0, 1, 2, 3, 4, 5, 90, 6, 7, 8, 9]).is_empty());
    }

    #[test]
    fn as_many_skips_count_as_reads_that_follow() {
        let blocks: Vec<u64> = (0..100).map(|number| number * 3 / 2).collect();
        assert!(skipped(&blocks).len() >= 44);
        // Keys that are looked up in order.
        let blocks: Vec<u64> = (0..100).map(|number| number * 10).collect();
        assert!(skipped(&blocks).is_empty());
    }

    #[test]
    fn what_fills_up_an_aligned_block_is_no_skip() {
        let mut reads = InputReads::default();
        let mut read = |number: u64| reads.pass(number * 4096..number * 4096 + 3990);
        assert!((0..50).all(|number| read(number).is_none()));
        assert_eq!(read(52), None);
        assert_eq!(read(53), Some(50 * 4096..52 * 4096));
    }
}
