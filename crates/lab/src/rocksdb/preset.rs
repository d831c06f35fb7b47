//! Values of the options that were not given.

use crate::driven::case::{Case, HotLayout};
use crate::driven::parameters::Loop;
use crate::preset::Amount;

/// Options of RocksDB.
#[derive(Clone, Copy, Debug)]
pub enum Tuning {
    /// Small SSTables under updates: compactions of all levels come within a phase.
    ByLoad,
    /// Those of db_bench, which are RocksDB's own defaults.
    DbBench,
}

/// The options of RocksDB that a tuning chooses.
#[derive(Clone, Copy, Debug)]
pub struct EngineSizes {
    /// Bytes of a memtable and of an SSTable.
    pub sstable_bytes: u64,
    /// Threads of flushes and compactions.
    pub background_jobs: u32,
}

impl EngineSizes {
    /// Bytes of the first level that has a target.
    pub fn level_base_bytes(self) -> u64 {
        4 * self.sstable_bytes
    }
}

impl Tuning {
    /// Its sizes.
    pub fn sizes(self, has_updates: bool) -> EngineSizes {
        let (sstable_bytes, background_jobs) = match self {
            Self::ByLoad if has_updates => (16 << 20, 4),
            Self::ByLoad => (64 << 20, 4),
            Self::DbBench => (64 << 20, 2),
        };
        EngineSizes {
            sstable_bytes,
            background_jobs,
        }
    }

    /// RocksDB options of every mode: incompressible values, small blocks, filters, and a small block
    /// cache, so that reads depend on the page cache.
    pub fn engine_options(self, has_updates: bool, further: &str) -> String {
        let sizes = self.sizes(has_updates);
        let EngineSizes {
            sstable_bytes,
            background_jobs,
        } = sizes;
        let mut options = format!(
            "compression=kNoCompression;write_buffer_size={sstable_bytes};\
             target_file_size_base={sstable_bytes};max_bytes_for_level_base={};\
             max_open_files=-1;max_background_jobs={background_jobs};\
             block_based_table_factory={{block_size=4096;block_cache={{capacity=8388608}};\
             filter_policy=bloomfilter:10:false}}",
            sizes.level_base_bytes()
        );
        if !further.is_empty() {
            options.push(';');
            options.push_str(further.trim_matches(';'));
        }
        options
    }
}

/// Values of the options that were not given.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Names of the modes.
    pub modes: &'static [&'static str],
    /// Sizes of the hot set.
    pub cases: &'static [Case],
    /// Keys of the data set.
    pub keys: Amount,
    /// Size of a value.
    pub value_bytes: u64,
    /// Memory limit.
    pub memory_mib: u64,
    /// Where hot keys lie.
    pub hot_layout: HotLayout,
    /// How a reader comes to its next read.
    pub reader_loop: Loop,
    /// Rate limit of the compaction's writes.
    pub compaction_mib_per_second: u64,
    /// Rate of updates.
    pub update_mib_per_second: u64,
    /// Options of RocksDB.
    pub tuning: Tuning,
    /// Seconds that are not counted.
    pub warm_up_seconds: u64,
    /// Seconds without compaction.
    pub idle_seconds: u64,
    /// Seconds of the compaction phase with updates.
    pub compaction_seconds: u64,
    /// Seconds after the publication of the output.
    pub after_seconds: u64,
}

/// The values without any further option.
pub const DEFAULT: Preset = Preset {
    modes: &["buffered", "direct-writes", "coldstream"],
    cases: &[Case::Most],
    keys: Amount::Fixed(100_000),
    value_bytes: 4096,
    memory_mib: 256,
    hot_layout: HotLayout::Scattered,
    reader_loop: Loop::Open,
    compaction_mib_per_second: 30,
    update_mib_per_second: 0,
    tuning: Tuning::ByLoad,
    warm_up_seconds: 6,
    idle_seconds: 8,
    compaction_seconds: 20,
    after_seconds: 8,
};

/// The values with `--quick`.
pub const QUICK: Preset = Preset {
    keys: Amount::Fixed(50_000),
    memory_mib: 160,
    warm_up_seconds: 4,
    idle_seconds: 5,
    after_seconds: 5,
    ..DEFAULT
};
