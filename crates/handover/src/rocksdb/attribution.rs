//! Distributes the heat of the inputs' hot blocks among the blocks of the output.
//!
//! **Inputs with a filter.** Usually a block is read for a key that it holds. So its heat goes to the
//! blocks that hold its keys in the output.
//!
//! **Inputs without a filter.** A read of a key visits every SSTable that may hold it, from the
//! newest down to the one that does. In each it reads the block whose range has the key. Most of
//! these blocks do not hold the key. They are all hot because of one block of the output: the one
//! that all their ranges have in common. If the heat followed the keys, one block would be warmed
//! for each input, and only one of them would be right.
//!
//! **Few blocks.** Which of a hot block's keys was read is not known. Where its keys lie in few blocks of the
//! output, all of these are warmed, also the one that has a single key of it. Where they lie in many, a block
//! must get heat enough by itself.

use coldstream_policy::heat::TOUCH;
use coldstream_sstable::Result;
use coldstream_sstable::memory::{self, TryVec};
use std::ops::Range;

/// A hot block is explained if its range already has this share of its heat, from narrower blocks.
const EXPLAINED_SHARE: f32 = 0.75;

/// The most blocks of the output that are warmed for a hot block, however little heat each of them gets.
const FEW_BLOCKS: usize = 4;

/// The heat of one read. A hot block with less has its heat from a handover, and nobody has read it since.
pub const READ_HEAT: f32 = TOUCH as f32;

/// Of an inherited heat, a block that gets less is not one of few. Otherwise each compaction in a row would
/// warm one block more.
const INHERITED_MIN: f32 = 1.0;

/// The heat of a block of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BlockHeat {
    pub(super) heat: f32,
    /// The part of it from blocks that are not doubtful.
    certain: f32,
    /// See [`Piece::is_one_of_few`](crate::Piece).
    pub(super) is_one_of_few: bool,
}

/// A hot block of an input.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HotBlock {
    /// The number of its input.
    pub(super) input: usize,
    /// Numbers of the output's blocks that its range overlaps.
    pub(super) candidates: Range<usize>,
    /// Number of the output's block for each of its keys, in order. Empty if there is only one candidate, or
    /// the keys are not known.
    pub(super) key_blocks: Vec<usize>,
    pub(super) heat: f32,
    /// Its SSTable has no filter: reads of keys that it does not hold reach the block too.
    pub(super) has_no_filter: bool,
    /// It begins in the page of another block, and heat is counted by pages. Perhaps only the other one was
    /// read.
    pub(super) is_doubtful: bool,
}

/// Collects the hot blocks of all inputs.
#[derive(Debug, Default)]
pub(super) struct Attribution {
    hot: Vec<HotBlock>,
}

impl Attribution {
    /// Records a hot block, those of an input in their order. One that overlaps no block of the output is left
    /// out.
    pub(super) fn record(&mut self, block: HotBlock) -> Result<()> {
        if !block.candidates.is_empty() {
            self.hot.try_push(block)?;
        }
        Ok(())
    }

    /// Number of hot blocks that were recorded.
    pub(super) fn recorded(&self) -> usize {
        self.hot.len()
    }

    /// The block that was recorded last begins in the page of the next one.
    pub(super) fn doubt_last(&mut self) {
        if let Some(last) = self.hot.last_mut() {
            last.is_doubtful = true;
        }
    }

    /// Forgets all hot blocks but the first `recorded` ones.
    pub(super) fn forget_behind(&mut self, recorded: usize) {
        self.hot.truncate(recorded);
    }

    /// The expected heat of each block of the output. `blocks` is their number.
    pub(super) fn heats(mut self, blocks: usize) -> Result<Vec<BlockHeat>> {
        let overlaps = self.overlaps(blocks)?;
        let mut heats = memory::filled(blocks, BlockHeat::default())?;
        // Narrow blocks first: they are the most precise.
        self.hot.sort_unstable_by(|one, other| {
            let width = one.candidates.len().cmp(&other.candidates.len());
            let heat = other.heat.total_cmp(&one.heat);
            let start = one.candidates.start.cmp(&other.candidates.start);
            width.then(heat).then(start)
        });
        for hot in &self.hot {
            if hot.has_no_filter {
                add_to_common_blocks(&mut heats, &overlaps, hot);
            } else {
                add_to_key_blocks(&mut heats, hot);
            }
        }
        Ok(heats)
    }

    /// For each block of the output, the number of inputs without a filter that have a hot block which overlaps
    /// it. A read visits one block of each input: two neighbours of one input have no read in common.
    fn overlaps(&self, blocks: usize) -> Result<Vec<u32>> {
        let mut changes = memory::filled(blocks + 1, 0_i32)?;
        let mut counted = (usize::MAX, 0);
        for hot in self.hot.iter().filter(|hot| hot.has_no_filter) {
            let Range { mut start, end } = hot.candidates;
            if counted.0 == hot.input {
                start = start.max(counted.1);
            }
            if start >= end {
                continue;
            }
            counted = (hot.input, end);
            if let Some(change) = changes.get_mut(start) {
                *change += 1;
            }
            if let Some(change) = changes.get_mut(end) {
                *change -= 1;
            }
        }
        let counts = changes.iter().take(blocks).scan(0, |count, change| {
            *count += change;
            Some(u32::try_from(*count).unwrap_or(0))
        });
        Ok(memory::collected(counts)?)
    }
}

/// Divides the heat among the keys. Without keys, among all candidates.
fn add_to_key_blocks(heats: &mut [BlockHeat], hot: &HotBlock) {
    if hot.key_blocks.is_empty() {
        add(heats, &|| hot.candidates.clone(), hot);
    } else {
        add(heats, &|| hot.key_blocks.iter().copied(), hot);
    }
}

/// Divides the heat among the candidates that most hot blocks overlap. Heat that narrower blocks
/// explain is dropped.
fn add_to_common_blocks(heats: &mut [BlockHeat], overlaps: &[u32], hot: &HotBlock) {
    let explained: f32 = heats
        .get(hot.candidates.clone())
        .unwrap_or_default()
        .iter()
        .map(|block| block.certain)
        .sum();
    if explained >= hot.heat * EXPLAINED_SHARE {
        return;
    }
    let overlaps_of = |block: usize| overlaps.get(block).copied().unwrap_or(0);
    let most = hot.candidates.clone().map(overlaps_of).max().unwrap_or(0);
    if most <= 1 {
        // Reads visited no other SSTable: they found their keys in this block.
        add_to_key_blocks(heats, hot);
        return;
    }
    let common = || (hot.candidates.clone()).filter(|block| overlaps_of(*block) == most);
    add(heats, &common, hot);
}

/// Divides the heat among blocks in ascending order. A block that occurs twice gets two shares.
fn add<I: Iterator<Item = usize>>(
    heats: &mut [BlockHeat],
    blocks: &impl Fn() -> I,
    hot: &HotBlock,
) {
    let (mut count, mut different, mut last) = (0_usize, 0_usize, None);
    for block in blocks() {
        count += 1;
        different += usize::from(last.replace(block) != Some(block));
    }
    let share = hot.heat / count.max(1) as f32;
    let is_read = hot.heat >= READ_HEAT;
    let (mut last, mut sum) = (None, 0.0);
    for block in blocks() {
        sum = if last.replace(block) == Some(block) {
            sum + share
        } else {
            share
        };
        if let Some(own) = heats.get_mut(block) {
            own.heat += share;
            own.certain += if hot.is_doubtful { 0.0 } else { share };
            own.is_one_of_few |= different <= FEW_BLOCKS && (is_read || sum >= INHERITED_MIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn with_filter(candidates: Range<usize>, key_blocks: &[usize], heat: f32) -> HotBlock {
        HotBlock {
            input: 0,
            candidates,
            key_blocks: key_blocks.to_vec(),
            heat,
            has_no_filter: false,
            is_doubtful: false,
        }
    }

    fn without_filter(candidates: Range<usize>, key_blocks: &[usize], heat: f32) -> HotBlock {
        HotBlock {
            has_no_filter: true,
            ..with_filter(candidates, key_blocks, heat)
        }
    }

    fn block_heats(blocks: &[HotBlock], count: usize) -> Vec<BlockHeat> {
        let mut attribution = Attribution::default();
        blocks
            .iter()
            .for_each(|block| attribution.record(block.clone()).unwrap());
        attribution.heats(count).unwrap()
    }

    /// Blocks of an input each.
    fn of_inputs<const N: usize>(blocks: [HotBlock; N]) -> [HotBlock; N] {
        let mut input = 0;
        blocks.map(|block| {
            input += 1;
            HotBlock { input, ..block }
        })
    }

    fn heats(blocks: &[HotBlock], count: usize) -> Vec<f32> {
        let heats = block_heats(blocks, count).into_iter();
        heats.map(|block| block.heat).collect()
    }

    /// Numbers of the blocks that are one of few for a hot block.
    fn few(hot: HotBlock) -> Vec<usize> {
        let heats = block_heats(&[hot], 10);
        (0..10).filter(|at| heats[*at].is_one_of_few).collect()
    }

    #[test]
    fn a_single_key_at_the_edge_is_one_of_few() {
        let edge = [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2];
        assert_eq!(few(with_filter(0..4, &edge, READ_HEAT)), [1, 2]);
        assert_eq!(few(without_filter(0..4, &edge, READ_HEAT)), [1, 2]);
        // Unless the heat is inherited, and next to nothing.
        assert_eq!(few(with_filter(0..4, &edge, READ_HEAT - 2.0)), [2]);
        assert_eq!(few(with_filter(0..9, &[0, 1, 2, 3, 4], 64.0)), []);
    }

    #[test]
    fn with_filters_heat_follows_the_keys() {
        let blocks = [
            with_filter(0..4, &[0, 3], 32.0),
            with_filter(2..4, &[], 8.0),
            with_filter(1..2, &[], 16.0),
            with_filter(5..5, &[], 64.0),
        ];
        assert_eq!(heats(&blocks, 6), [16.0, 16.0, 4.0, 20.0, 0.0, 0.0]);
    }

    #[test]
    fn without_filters_the_common_block_of_all_ranges() {
        // A read of a key that lies in block 5. Every hot block overlaps several blocks.
        let blocks = [
            without_filter(0..8, &[7], 32.0),
            without_filter(4..12, &[11], 32.0),
            without_filter(5..7, &[6], 32.0),
            without_filter(2..6, &[5], 32.0),
        ];
        let heats = heats(&of_inputs(blocks), 12);
        let hot: Vec<usize> = (0..12).filter(|block| heats[*block] > 0.0).collect();
        assert_eq!(hot, [5]);
        assert_eq!(heats[5], 32.0);
    }

    /// Heat is counted by pages. So a block is hot, too, that begins in the page of the one that was read.
    #[test]
    fn a_neighbour_in_the_same_page_takes_no_heat_away() {
        let doubtful = |input, candidates, keys: &[usize]| HotBlock {
            input,
            is_doubtful: true,
            ..without_filter(candidates, keys, READ_HEAT)
        };
        // One input. The second block was read, for a key in block 3.
        let neighbours = [
            doubtful(0, 1..3, &[1, 1, 1, 2]),
            doubtful(0, 2..4, &[2, 3, 3, 3]),
        ];
        assert!(block_heats(&neighbours, 6)[3].is_one_of_few);
        // A second input, in which the read of block 3 ended.
        let other = HotBlock {
            input: 1,
            ..without_filter(3..6, &[3, 4, 5], READ_HEAT)
        };
        let [one, two] = neighbours;
        let heats = block_heats(&[one, two, other], 6);
        assert!(heats[3].heat >= READ_HEAT, "{heats:?}");
    }

    #[test]
    fn found_in_the_only_sstable_that_was_read() {
        let blocks = [without_filter(0..8, &[7], 32.0)];
        assert_eq!(heats(&blocks, 8)[7], 32.0);
    }

    #[test]
    fn a_wide_block_with_two_keys_behind_it_keeps_both() {
        let blocks = [
            without_filter(0..8, &[7], 64.0),
            without_filter(1..3, &[2], 32.0),
            without_filter(5..7, &[6], 32.0),
        ];
        let heats = heats(&of_inputs(blocks), 8);
        assert!(heats[1] + heats[2] >= 32.0 && heats[5] + heats[6] >= 32.0);
        assert_eq!(heats[7], 0.0);
    }

    /// Merges sorted runs of single-key blocks, as an engine does. A read of a hot key visits every
    /// run down to the one that holds it.
    fn probes(runs: &[BTreeSet<u32>], hot: &[u32]) -> (Vec<u32>, Vec<HotBlock>) {
        let merged: Vec<u32> = runs
            .iter()
            .flatten()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let block_of = |key: u32| merged.partition_point(|at| *at < key);
        let mut blocks = std::collections::BTreeMap::new();
        for key in hot {
            for (number, run) in runs.iter().enumerate() {
                let before = run.range(..key).next_back().copied();
                let Some(at) = run.range(key..).next().copied() else {
                    continue;
                };
                let first = before.map_or(0, |before| block_of(before) + 1);
                let range = (number, first, block_of(at));
                *blocks.entry(range).or_insert(0.0_f32) += 32.0;
                if at == *key {
                    break;
                }
            }
        }
        let blocks = blocks
            .into_iter()
            .map(|((input, first, at), heat)| HotBlock {
                input,
                ..without_filter(first..at + 1, &[at], heat)
            })
            .collect();
        (merged, blocks)
    }

    /// Every `one_in`th key below `end`, on average. The same for the same seed.
    fn keys(end: u32, one_in: u64, seed: u64) -> BTreeSet<u32> {
        let mut state = seed;
        (0..end)
            .filter(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33).is_multiple_of(one_in)
            })
            .collect()
    }

    #[test]
    fn reads_without_filters_find_their_blocks_warm_and_few_others_are() {
        const KEYS: u32 = 40_000;
        // Levels like RocksDB's, runs of the same size, few inputs, many hot keys.
        for (runs, hot_one_in) in [
            (vec![60, 60, 60, 60, 15], 160),
            (vec![60, 15], 160),
            (vec![15, 1], 160),
            (vec![10, 10, 10], 160),
            (vec![60, 60, 60, 60, 15], 20),
            (vec![15, 1], 2),
        ] {
            let hot: Vec<u32> = keys(KEYS, hot_one_in, 7).into_iter().collect();
            let runs: Vec<BTreeSet<u32>> = (runs.into_iter().zip(1_u64..))
                .map(|(one_in, seed)| keys(KEYS, one_in, seed))
                .collect();
            let (merged, blocks) = probes(&runs, &hot);
            let expected: BTreeSet<usize> = hot
                .iter()
                .map(|key| merged.partition_point(|at| at < key))
                .collect();
            let warmed = |heats: &[BlockHeat]| -> BTreeSet<usize> {
                let is_warmed = |block: &BlockHeat| block.heat >= 4.0 || block.is_one_of_few;
                (0..heats.len())
                    .filter(|block| is_warmed(&heats[*block]))
                    .collect()
            };
            let by_keys: Vec<HotBlock> = (blocks.iter().cloned())
                .map(|block| HotBlock {
                    has_no_filter: false,
                    ..block
                })
                .collect();
            let (exact, naive) = (
                warmed(&block_heats(&blocks, merged.len())),
                warmed(&block_heats(&by_keys, merged.len())),
            );
            let found = exact.intersection(&expected).count();
            println!(
                "{} inputs, {} blocks read: {found} of them warm, {} others; by keys alone {} and {}",
                runs.len(),
                expected.len(),
                exact.len() - found,
                naive.intersection(&expected).count(),
                naive.difference(&expected).count(),
            );
            assert!(found * 100 >= expected.len() * 93);
            assert!(exact.len() - found <= expected.len() / 2);
        }
    }
}
