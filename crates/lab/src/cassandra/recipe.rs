//! Published measurements that `--recipe` repeats: their options, and their figures to compare with.

use super::preset::{DEFAULT, Preset};
use super::workload::Workload;
use crate::option_name::option_name;
use crate::preset::Amount;
use crate::report::Published;
use clap::ValueEnum;

/// A published measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recipe {
    /// Direct compaction reads (lightfoot.dev): two SSTables of 65 GB in 6 GB, half of it heap,
    /// 10,000 reads/s of a hot set of 100 MB; --hot-keys for those of 1 and 10 GB
    DirectReads,
    /// Direct compaction writes (CASSANDRA-21134): two SSTables of 64 GB in 12 GB, a third of it
    /// heap, 10,000 reads/s of a million keys, compaction without a limit
    #[value(name = "cassandra-21134")]
    #[serde(rename = "cassandra-21134")]
    Cassandra21134,
    /// Eviction and readahead (SpeedyIO): YCSB A, uniform, on 4.1 and 5.0; --workload for B and C,
    /// and a mode VERSION/preload:PATH for the library itself
    Speedyio,
}

impl Recipe {
    /// Its options.
    pub const fn preset(self) -> Preset {
        match self {
            Self::DirectReads => DIRECT_READS,
            Self::Cassandra21134 => CASSANDRA_21134,
            Self::Speedyio => SPEEDYIO,
        }
    }

    /// Its scale and origin, for the report.
    pub fn describe(self, memory_mib: u64) -> String {
        let name = option_name(self);
        let published_mib = match self {
            Self::DirectReads => 6 << 10,
            Self::Cassandra21134 => 12 << 10,
            // No size was published.
            Self::Speedyio => return format!("recipe {name}"),
        };
        let scale = memory_mib as f64 / f64::from(published_mib);
        format!("recipe {name} at {scale:.2} of its scale")
    }

    /// What was published.
    pub fn published(self) -> Published {
        let (source, note) = match self {
            Self::DirectReads => (
                "lightfoot.dev, Cassandra trunk, 6 GB with a heap of 3 GB, hot set of 100 MB",
                "stock and direct-reads: p50 420 and 310 µs, p99 6,880 and 1,330 µs, p99.9 15,340 and \
                 11,700 µs, compaction 254 and 273 MiB/s; hot set of 1 GB: p99 20 and 18 ms; of 10 GB: equal",
            ),
            Self::Cassandra21134 => (
                "CASSANDRA-21134, Cassandra trunk, 12 GB with a heap of 4 GB, compaction without a limit",
                "stock, direct-writes and direct-reads-writes: p99 16.2, 1.90 and 1.90 ms, p99.9 100.6, \
                 7.90 and 8.47 ms, mean 1.29, 0.61 and 0.61 ms, compaction 246, 286 and 283 MiB/s; \
                 at 128 MiB/s: p99 9.63, 1.84 and 1.78 ms",
            ),
            Self::Speedyio => (
                "speedyio.com, 32 nodes of Cassandra 5, YCSB A, uniform",
                "its library lowers p99 by 48 % on Linux 4.18, and by 23 % on 6.18",
            ),
        };
        Published {
            source: source.to_owned(),
            rows: Vec::new(),
            note: note.to_owned(),
        }
    }
}

/// Rows of 4 KiB, and reads, as many for each GiB of memory as were published. So a hot key is read
/// again after the same time.
///
/// Two things are smaller. Outside of its heap a node takes some 450 MiB however small the limit is: with a heap of half
/// of it, as was published, nothing would be left for the page cache. So the heap is a third. The data set is half of
/// what was published, and still some thirty times the page cache.
const DIRECT_READS: Preset = Preset {
    modes: &[
        "6.0/stock",
        "6.0/direct-reads",
        "6.0/direct-reads-writes",
        "5.0/stock",
        "5.0/coldstream",
    ],
    keys: Amount::PerGib(2_600_000),
    hot_keys: Amount::PerGib(4_070),
    memory_mib: 1536,
    heap_mib: Amount::PerGib(341),
    requests_per_second: Amount::PerGib(1_667),
    compaction_mib_per_second: 0,
    ..DEFAULT
};

/// The same of CASSANDRA-21134.
const CASSANDRA_21134: Preset = Preset {
    modes: &[
        "6.0/stock",
        "6.0/direct-writes",
        "6.0/direct-reads-writes",
        "5.0/stock",
        "5.0/coldstream",
    ],
    keys: Amount::PerGib(2_600_000),
    hot_keys: Amount::PerGib(83_300),
    memory_mib: 1536,
    heap_mib: Amount::PerGib(341),
    requests_per_second: Amount::PerGib(833),
    compaction_mib_per_second: 0,
    ..DEFAULT
};

/// SpeedyIO needs SSTables that are read by calls. 5.0 does so by itself, and the laboratory's 4.1 too.
const SPEEDYIO: Preset = Preset {
    modes: &["4.1/stock", "4.1/coldstream", "5.0/stock", "5.0/coldstream"],
    workload: Workload::YcsbA,
    ..DEFAULT
};

#[cfg(test)]
mod tests {
    use super::super::mode::Mode;
    use super::*;
    use crate::preset::modes_or;

    #[test]
    fn every_recipe_has_modes_and_says_what_was_published() {
        for recipe in Recipe::value_variants() {
            assert!(modes_or::<Mode>(&[], recipe.preset().modes).len() >= 4);
            let published = recipe.published();
            assert!(!published.source.is_empty() && !published.note.is_empty());
        }
    }

    #[test]
    fn the_scale_is_that_of_the_memory_limit() {
        let describe = |recipe: Recipe| recipe.describe(1536);
        assert_eq!(
            describe(Recipe::DirectReads),
            "recipe direct-reads at 0.25 of its scale"
        );
        assert_eq!(
            describe(Recipe::Cassandra21134),
            "recipe cassandra-21134 at 0.12 of its scale"
        );
        assert_eq!(describe(Recipe::Speedyio), "recipe speedyio");
    }
}
