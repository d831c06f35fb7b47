//! Published measurements that `--recipe` repeats: their options, and their figures to compare with.

use super::case::{Case, HotLayout};
use super::preset::{Keys, Loop, Preset, Tuning};
use crate::report::{Published, PublishedRow};
use clap::ValueEnum;

/// A published measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recipe {
    /// RocksDB's direct compaction reads (facebook/rocksdb, pull request 14743): 3.5 million keys of
    /// 4 KiB for each GiB of memory, 4 readers in a closed loop, a writer of 200 MB/s, 40 s
    Pr14743,
}

impl Recipe {
    /// Its options.
    pub const fn preset(self) -> Preset {
        match self {
            Self::Pr14743 => PR_14743,
        }
    }

    /// Its scale and origin, for the report.
    pub fn describe(self, memory_bytes: u64) -> String {
        match self {
            Self::Pr14743 => format!(
                "recipe pr14743 at {:.2} of its scale",
                memory_bytes as f64 / PUBLISHED_BYTES
            ),
        }
    }

    /// The published figures of a case; `None` where none were published.
    pub fn published(self, case: Case) -> Option<Published> {
        match (self, case) {
            (Self::Pr14743, Case::RecipeLarge) => Some(Published {
                source: "facebook/rocksdb pull request 14743, 14 GB in 1 GiB, hot set of 400 MB, 5 runs"
                    .to_owned(),
                rows: PR_14743_LARGE.iter().map(PublishedRow::from).collect(),
                note: String::new(),
            }),
            (Self::Pr14743, Case::RecipeSmall) => Some(Published {
                source: "facebook/rocksdb pull request 14743, 14 GB in 1 GiB, hot set of 30 MB, 5 runs"
                    .to_owned(),
                rows: Vec::new(),
                note: "direct-reads raises p99 by 25 %; direct-reads-writes has 19 % more reads/s, and \
                       raises p99 by 2 %"
                    .to_owned(),
            }),
            _ => None,
        }
    }
}

/// The memory limit of the published measurement.
const PUBLISHED_BYTES: f64 = (1_u64 << 30) as f64;

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
    keys: Keys::PerGib(3_500_000),
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
}
