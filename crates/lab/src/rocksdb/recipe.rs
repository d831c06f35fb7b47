//! Published measurements that `--recipe` repeats: their options, and their figures to compare with.

use super::preset::{DEFAULT, Preset, Tuning};
use crate::driven::case::{Case, HotLayout};
use crate::driven::parameters::Loop;
use crate::option_name::option_name;
use crate::preset::Amount;
use crate::report::{Published, PublishedRow};
use clap::ValueEnum;

/// A published measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recipe {
    /// RocksDB's direct compaction reads (facebook/rocksdb, pull request 14743): 3.5 million keys of
    /// 4 KiB for each GiB of memory, 4 readers in a closed loop, a writer of 200 MB/s, 40 s
    Pr14743,
    /// Direct compaction reads beside buffered reads of the same SSTables (facebook/rocksdb, pull
    /// request 3829): one compaction of everything without a rate limit, readers in a closed loop
    Pr3829,
    /// Compaction kept out of the page cache by a patched kernel (cache_ext, SOSP 2025): a data set
    /// of ten times the memory, values of 1,000 bytes, uniform reads and updates
    CacheExt,
}

impl Recipe {
    /// Its options.
    pub const fn preset(self) -> Preset {
        match self {
            Self::Pr14743 => PR_14743,
            Self::Pr3829 => PR_3829,
            Self::CacheExt => CACHE_EXT,
        }
    }

    /// Its scale and origin, for the report.
    pub fn describe(self, memory_bytes: u64) -> String {
        let name = option_name(self);
        match self.published_bytes() {
            Some(bytes) => format!(
                "recipe {name} at {:.2} of its scale",
                memory_bytes as f64 / bytes as f64
            ),
            None => format!("recipe {name}"),
        }
    }

    /// The memory limit of the published measurement, where one was published.
    const fn published_bytes(self) -> Option<u64> {
        match self {
            Self::Pr14743 => Some(1 << 30),
            Self::Pr3829 => None,
            Self::CacheExt => Some(10 << 30),
        }
    }

    /// The published figures of a case; `None` where none were published.
    pub fn published(self, case: Case) -> Option<Published> {
        let (source, rows, note): (_, &[(&str, [f64; 5])], _) = match (self, case) {
            (Self::Pr14743, Case::RecipeLarge) => (
                "facebook/rocksdb pull request 14743, 14 GB in 1 GiB, hot set of 400 MB, 5 runs",
                &PR_14743_LARGE,
                "",
            ),
            (Self::Pr14743, Case::RecipeSmall) => (
                "facebook/rocksdb pull request 14743, 14 GB in 1 GiB, hot set of 30 MB, 5 runs",
                &[],
                "direct-reads raises p99 by 25 %; direct-reads-writes has 19 % more reads/s, and \
                 raises p99 by 2 %",
            ),
            (Self::Pr3829, Case::InMemory) => (
                "facebook/rocksdb pull request 3829",
                &[],
                "direct compaction reads lowered the rate of random reads by about 25 %; after \
                 direct writes there was a dip, since they did not go to the page cache",
            ),
            (Self::CacheExt, Case::Uniform) => (
                "cache_ext (SOSP 2025, section 6.1.4), RocksDB, 100 GB in 10 GiB, uniform reads and updates",
                &[],
                "p99 2,610 µs on a stock kernel, and 2,160 µs with its filter on a patched one (17 % less)",
            ),
            _ => return None,
        };
        Some(Published {
            source: source.to_owned(),
            rows: rows.iter().map(PublishedRow::from).collect(),
            note: note.to_owned(),
        })
    }
}

/// 200 MB/s are 191 MiB/s. Memtables, SSTables and the rate do not depend on the scale: they are
/// db_bench's own.
const PR_14743: Preset = Preset {
    modes: &[
        "buffered",
        "direct-reads-writes",
        "coldstream",
        "coldstream:priority=off",
        "coldstream:priority=off@use_direct_io_for_flush_and_compaction=true",
    ],
    cases: &[Case::RecipeSmall, Case::RecipeLarge],
    keys: Amount::PerGib(3_500_000),
    value_bytes: 4096,
    memory_mib: 512,
    hot_layout: HotLayout::Contiguous,
    reader_loop: Loop::Closed,
    compaction_mib_per_second: 0,
    update_mib_per_second: 191,
    tuning: Tuning::DbBench,
    warm_up_seconds: 4,
    idle_seconds: 5,
    compaction_seconds: 40,
    after_seconds: 5,
};

/// The data set is in memory: what is lost is lost by mixing direct and buffered reads, not by misses.
const PR_3829: Preset = Preset {
    modes: &[
        "buffered",
        "direct-reads",
        "direct-reads-writes",
        "coldstream",
    ],
    cases: &[Case::InMemory],
    keys: Amount::Fixed(500_000),
    reader_loop: Loop::Closed,
    compaction_mib_per_second: 0,
    ..DEFAULT
};

/// Ten million records of 1,000 bytes for each GiB, as YCSB makes them. Its threads update as often as
/// they read, in a closed loop. Here one writer has a rate of its own: 4 MiB/s, some 4,000 updates/s.
const CACHE_EXT: Preset = Preset {
    modes: &["buffered", "direct-reads-writes", "coldstream"],
    cases: &[Case::Uniform],
    keys: Amount::PerGib(10_000_000),
    value_bytes: 1000,
    reader_loop: Loop::Closed,
    compaction_mib_per_second: 0,
    update_mib_per_second: 4,
    tuning: Tuning::DbBench,
    compaction_seconds: 40,
    ..DEFAULT
};

/// Mode, reads/s, p50, p99, p99.9 and p99.99 in µs.
const PR_14743_LARGE: [(&str, [f64; 5]); 5] = [
    ("buffered", [68_959.0, 44.8, 541.0, 2_225.0, 11_334.0]),
    ("direct-writes", [73_973.0, 42.2, 456.0, 2_016.0, 9_190.0]),
    ("direct-reads", [84_337.0, 38.7, 387.0, 1_645.0, 4_838.0]),
    (
        "direct-reads-writes",
        [104_923.0, 34.3, 291.0, 1_143.0, 3_080.0],
    ),
    (
        "direct-writes@use_direct_reads=true",
        [71_598.0, 51.3, 298.0, 1_664.0, 6_530.0],
    ),
];

#[cfg(test)]
mod tests {
    use super::super::mode::Mode;
    use super::*;

    #[test]
    fn every_published_mode_can_be_measured() {
        for recipe in Recipe::value_variants() {
            for case in recipe.preset().cases {
                let published = recipe.published(*case).unwrap();
                for row in &published.rows {
                    assert_eq!(row.mode.parse::<Mode>().unwrap().to_string(), row.mode);
                }
            }
            for mode in recipe.preset().modes {
                assert_eq!(mode.parse::<Mode>().unwrap().to_string(), *mode);
            }
        }
        assert_eq!(Recipe::Pr14743.published(Case::Most), None);
    }

    #[test]
    fn the_scale_is_that_of_the_memory_limit() {
        let describe = |recipe: Recipe| recipe.describe(512 << 20);
        assert_eq!(
            describe(Recipe::Pr14743),
            "recipe pr14743 at 0.50 of its scale"
        );
        assert_eq!(
            describe(Recipe::CacheExt),
            "recipe cache-ext at 0.05 of its scale"
        );
        assert_eq!(describe(Recipe::Pr3829), "recipe pr3829");
    }
}
