//! Which blocks of an output the reads of its inputs' hot blocks will go to.
//!
//! With a filter a table's block is read for a key that lies in it, as a rule: the heat goes where
//! its keys are now. Without one, a read of a key passes through every table that might have it,
//! from the newest down to the one that does, and reads a block of each: the block whose range has
//! the key, and which holds some key beside it. All these blocks are hot for the sake of one place
//! of the output, the one that all their ranges have in common. Were each followed by its own keys,
//! as many places would be warmed as there are inputs, one of them rightly.

use std::ops::Range;

/// Heat of a block is accounted for if what its range has been given already is so large a part
/// of it.
const EXPLAINED_SHARE: f32 = 0.75;

/// A hot block of an input.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HotBlock {
    /// The output's blocks that its range overlaps, by their numbers.
    pub(super) places: Range<usize>,
    /// Where each of its keys is now; nothing if there is only one place, or nobody knows.
    pub(super) keys: Vec<usize>,
    pub(super) heat: f32,
    /// Reads of keys that its table does not have reach it too.
    pub(super) has_no_filter: bool,
}

/// Collects the hot blocks of all inputs.
#[derive(Debug, Default)]
pub(super) struct Attribution {
    hot: Vec<HotBlock>,
}

impl Attribution {
    pub(super) fn note(&mut self, block: HotBlock) {
        if !block.places.is_empty() {
            self.hot.push(block);
        }
    }

    /// The heat that is to be expected of each of so many blocks of the output.
    pub(super) fn heats(mut self, blocks: usize) -> Vec<f32> {
        let witnesses = self.witnesses(blocks);
        let mut heats = vec![0.0; blocks];
        // The narrowest know best.
        self.hot.sort_by(|one, other| {
            let width = one.places.len().cmp(&other.places.len());
            width.then(other.heat.total_cmp(&one.heat))
        });
        for hot in &self.hot {
            if hot.has_no_filter {
                give_to_common_place(&mut heats, &witnesses, hot);
            } else {
                give_to_keys(&mut heats, hot);
            }
        }
        heats
    }

    /// How many hot blocks of tables without a filter have each block of the output in their range.
    fn witnesses(&self, blocks: usize) -> Vec<u32> {
        let mut changes = vec![0_i32; blocks + 1];
        for hot in self.hot.iter().filter(|hot| hot.has_no_filter) {
            if let Some(change) = changes.get_mut(hot.places.start) {
                *change += 1;
            }
            if let Some(change) = changes.get_mut(hot.places.end) {
                *change -= 1;
            }
        }
        changes
            .iter()
            .take(blocks)
            .scan(0, |count, change| {
                *count += change;
                Some(u32::try_from(*count).unwrap_or(0))
            })
            .collect()
    }
}

/// Each key has its share, and without keys each place.
fn give_to_keys(heats: &mut [f32], hot: &HotBlock) {
    if hot.keys.is_empty() {
        give(heats, hot.places.clone(), hot.heat);
    } else {
        give(heats, hot.keys.iter().copied(), hot.heat);
    }
}

/// What no narrower block accounts for goes where most hot blocks overlap.
fn give_to_common_place(heats: &mut [f32], witnesses: &[u32], hot: &HotBlock) {
    let explained: f32 = heats
        .get(hot.places.clone())
        .unwrap_or_default()
        .iter()
        .sum();
    if explained >= hot.heat * EXPLAINED_SHARE {
        return;
    }
    let witnesses_of = |place: usize| witnesses.get(place).copied().unwrap_or(0);
    let most = hot.places.clone().map(witnesses_of).max().unwrap_or(0);
    if most <= 1 {
        // No other table was asked: it was found here.
        give_to_keys(heats, hot);
        return;
    }
    let common: Vec<usize> = (hot.places.clone())
        .filter(|place| witnesses_of(*place) == most)
        .collect();
    give(heats, common.iter().copied(), hot.heat);
}

/// Divides heat among places; one that is named twice has two shares.
fn give(heats: &mut [f32], places: impl ExactSizeIterator<Item = usize>, heat: f32) {
    let share = heat / places.len().max(1) as f32;
    for place in places {
        if let Some(heat) = heats.get_mut(place) {
            *heat += share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn with_filter(places: Range<usize>, keys: &[usize], heat: f32) -> HotBlock {
        HotBlock {
            places,
            keys: keys.to_vec(),
            heat,
            has_no_filter: false,
        }
    }

    fn without_filter(places: Range<usize>, keys: &[usize], heat: f32) -> HotBlock {
        HotBlock {
            has_no_filter: true,
            ..with_filter(places, keys, heat)
        }
    }

    fn heats(blocks: &[HotBlock], count: usize) -> Vec<f32> {
        let mut attribution = Attribution::default();
        blocks
            .iter()
            .for_each(|block| attribution.note(block.clone()));
        attribution.heats(count)
    }

    #[test]
    fn with_filters_keys_tell() {
        let blocks = [
            with_filter(0..4, &[0, 3], 32.0),
            with_filter(2..4, &[], 8.0),
            with_filter(1..2, &[], 16.0),
            with_filter(5..5, &[], 64.0),
        ];
        assert_eq!(heats(&blocks, 6), [16.0, 16.0, 4.0, 20.0, 0.0, 0.0]);
    }

    #[test]
    fn without_filters_the_common_place_of_all_ranges() {
        // A read of a key that lies in place 5, and in no input's block alone.
        let blocks = [
            without_filter(0..8, &[7], 32.0),
            without_filter(4..12, &[11], 32.0),
            without_filter(5..7, &[6], 32.0),
            without_filter(2..6, &[5], 32.0),
        ];
        let heats = heats(&blocks, 12);
        let hot: Vec<usize> = (0..12).filter(|place| heats[*place] > 0.0).collect();
        assert_eq!(hot, [5]);
        assert_eq!(heats[5], 32.0);
    }

    #[test]
    fn found_in_the_only_table_that_was_asked() {
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
        let heats = heats(&blocks, 8);
        assert!(heats[1] + heats[2] >= 32.0 && heats[5] + heats[6] >= 32.0);
        assert_eq!(heats[7], 0.0);
    }

    /// Sorted runs of single-key blocks, as an engine merges them; each hot key's read goes through
    /// every run down to the one that has it.
    fn probes(runs: &[BTreeSet<u32>], hot: &[u32]) -> (Vec<u32>, Vec<HotBlock>) {
        let merged: Vec<u32> = runs
            .iter()
            .flatten()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let place = |key: u32| merged.partition_point(|at| *at < key);
        let mut blocks = std::collections::BTreeMap::new();
        for key in hot {
            for (number, run) in runs.iter().enumerate() {
                let before = run.range(..key).next_back().copied();
                let Some(at) = run.range(key..).next().copied() else {
                    continue;
                };
                let first = before.map_or(0, |before| place(before) + 1);
                *blocks.entry((number, first, place(at))).or_insert(0.0_f32) += 32.0;
                if at == *key {
                    break;
                }
            }
        }
        let blocks = blocks
            .into_iter()
            .map(|((_, first, at), heat)| without_filter(first..at + 1, &[at], heat))
            .collect();
        (merged, blocks)
    }

    /// A share of the keys below `end`, the same for a seed.
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
    fn reads_without_filters_find_their_places_warm_and_few_others_are() {
        const KEYS: u32 = 40_000;
        // Levels as RocksDB has them, runs of the same size, few inputs, many hot keys.
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
            let places: BTreeSet<usize> = hot
                .iter()
                .map(|key| merged.partition_point(|at| at < key))
                .collect();
            let warmed = |heats: &[f32]| -> BTreeSet<usize> {
                (0..heats.len())
                    .filter(|place| heats[*place] >= 4.0)
                    .collect()
            };
            let by_keys: Vec<HotBlock> = (blocks.iter().cloned())
                .map(|block| HotBlock {
                    has_no_filter: false,
                    ..block
                })
                .collect();
            let (exact, naive) = (
                warmed(&heats(&blocks, merged.len())),
                warmed(&heats(&by_keys, merged.len())),
            );
            let found = exact.intersection(&places).count();
            println!(
                "{} inputs, {} places read: {found} of them warm, {} others; by keys alone {} and {}",
                runs.len(),
                places.len(),
                exact.len() - found,
                naive.intersection(&places).count(),
                naive.difference(&places).count(),
            );
            assert!(found * 100 >= places.len() * 93);
            assert!(exact.len() - found <= places.len() / 2);
        }
    }
}
