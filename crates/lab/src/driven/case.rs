//! Sizes, and the cases: how large the hot set is, and what of the database is in memory at the start.

use clap::ValueEnum;

/// Sizes of the data set, of the memory and of the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sizes {
    /// Keys of the data set.
    pub keys: u64,
    /// Memory limit of the cgroup in bytes, for cases that do not fit in memory.
    pub memory_bytes: u64,
    /// Seconds that are not counted.
    pub warm_up_seconds: u64,
    /// Seconds without compaction.
    pub idle_seconds: u64,
    /// Seconds of the compaction phase, if updates keep compaction going.
    pub compaction_seconds: u64,
    /// Seconds after the publication of the output.
    pub after_seconds: u64,
}

/// Position of the hot keys in the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HotLayout {
    /// Spread evenly: every hot key has pages of its own.
    Scattered,
    /// One range of keys: hot keys share pages.
    Contiguous,
}

/// Size of the hot set, relative to the page cache within the memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// A twentieth of the cache.
    Small,
    /// A fifth of the cache.
    Fifth,
    /// A third of the cache.
    Third,
    /// Three quarters of the cache: about what it can hold during a compaction.
    Most,
    /// Three times the cache.
    Large,
    /// All keys: no set of them is hot.
    Uniform,
    /// The whole data set fits in memory: a mode cannot win here, and must not lose.
    InMemory,
    /// The small hot set of the recipe pr14743: 30 MB of values for each GiB of the limit.
    RecipeSmall,
    /// The large hot set of the recipe pr14743: 400 MB of values for each GiB of the limit.
    RecipeLarge,
}

/// The database's part of the page cache when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Nothing.
    Cold,
    /// Every file was read once, one after another; what fits is in the page cache.
    Warm,
}

/// Memory of the database itself: heap, block cache, indexes, filters. Measured with the default
/// sizes. The rest of the limit is page cache.
pub const ENGINE_BYTES: u64 = 64 << 20;

/// Pages of the page cache that one hot value needs: a block of 4 KiB with its header lies across
/// two.
const PAGES_PER_VALUE: u64 = 2;

/// The recipe's hot sets in bytes of values for each GiB of the limit.
const RECIPE_SMALL_BYTES: u64 = 30_000_000;
const RECIPE_LARGE_BYTES: u64 = 400_000_000;

impl Case {
    /// The page cache at the start of its runs, if no other was asked for.
    pub fn start(self) -> Start {
        match self {
            Self::InMemory => Start::Warm,
            _ => Start::Cold,
        }
    }

    /// Memory limit in bytes and number of hot keys.
    pub fn limit_and_hot_keys(
        self,
        sizes: &Sizes,
        value_bytes: u64,
        hot_layout: HotLayout,
    ) -> (u64, u64) {
        let page_bytes = value_bytes.next_multiple_of(4096);
        let bytes_per_hot_key = match hot_layout {
            HotLayout::Scattered => page_bytes - 4096 + PAGES_PER_VALUE * 4096,
            HotLayout::Contiguous => value_bytes,
        };
        let limit = sizes.memory_bytes;
        let cache_bytes = limit.saturating_sub(ENGINE_BYTES).max(8 << 20);
        let in_cache = |bytes: u64| bytes / bytes_per_hot_key;
        let in_recipe = |bytes: u64| {
            let bytes = (u128::from(bytes) * u128::from(limit)) >> 30;
            u64::try_from(bytes).unwrap_or(u64::MAX) / value_bytes
        };
        let (limit, hot_keys) = match self {
            Self::Small => (limit, in_cache(cache_bytes / 20)),
            Self::Fifth => (limit, in_cache(cache_bytes / 5)),
            Self::Third => (limit, in_cache(cache_bytes / 3)),
            Self::Most => (limit, in_cache(cache_bytes / 4 * 3)),
            Self::Large => (limit, in_cache(cache_bytes * 3)),
            Self::Uniform => (limit, sizes.keys),
            // Room for two sorted runs, their output, and the engine.
            Self::InMemory => (
                4 * sizes.keys * page_bytes + 4 * ENGINE_BYTES,
                sizes.keys / 3,
            ),
            Self::RecipeSmall => (limit, in_recipe(RECIPE_SMALL_BYTES)),
            Self::RecipeLarge => (limit, in_recipe(RECIPE_LARGE_BYTES)),
        };
        (limit, hot_keys.clamp(1, sizes.keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option_name::option_name;

    const SIZES: Sizes = Sizes {
        keys: 1_000_000,
        memory_bytes: 264 << 20,
        warm_up_seconds: 1,
        idle_seconds: 1,
        compaction_seconds: 1,
        after_seconds: 1,
    };

    fn keys(case: Case) -> u64 {
        case.limit_and_hot_keys(&SIZES, 4096, HotLayout::Scattered)
            .1
    }

    #[test]
    fn hot_sets_are_shares_of_the_cache() {
        assert_eq!(keys(Case::Third), 200 * 1024 * 1024 / 3 / 8192);
        assert!(keys(Case::Small) * 6 < keys(Case::Third));
        assert!(keys(Case::Large) > 8 * keys(Case::Third));
        assert_eq!(keys(Case::Uniform), SIZES.keys);
        let (limit, _) = Case::InMemory.limit_and_hot_keys(&SIZES, 4096, HotLayout::Scattered);
        assert!(limit > 3 * 1_000_000 * 4096);
    }

    #[test]
    fn the_recipes_hot_sets_are_those_of_its_scale() {
        let half = Sizes {
            memory_bytes: 512 << 20,
            ..SIZES
        };
        for (case, bytes) in [
            (Case::RecipeSmall, 15_000_000),
            (Case::RecipeLarge, 200_000_000),
        ] {
            let (limit, keys) = case.limit_and_hot_keys(&half, 4096, HotLayout::Contiguous);
            assert_eq!((limit, keys), (512 << 20, bytes / 4096));
        }
    }

    #[test]
    fn only_the_in_memory_case_starts_warm() {
        for case in Case::value_variants() {
            assert_eq!(case.start() == Start::Warm, *case == Case::InMemory);
        }
    }

    #[test]
    fn every_case_is_called_as_it_is_parsed() {
        for case in Case::value_variants() {
            assert_eq!(Case::from_str(&option_name(*case), false), Ok(*case));
        }
        assert_eq!(option_name(Case::InMemory), "in-memory");
    }
}
