//! Values of the options that were not given.

use super::workload::Workload;
use crate::preset::Amount;

/// Values of the options that were not given.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Names of the modes.
    pub modes: &'static [&'static str],
    /// Keys of the data set.
    pub keys: Amount,
    /// Keys that are read.
    pub hot_keys: Amount,
    /// Memory limit.
    pub memory_mib: u64,
    /// Heap of the node in MiB.
    pub heap_mib: Amount,
    /// Requests and compactions.
    pub workload: Workload,
    /// Requests a second.
    pub requests_per_second: Amount,
    /// Cassandra's `compaction_throughput`; 0 is no limit.
    pub compaction_mib_per_second: u64,
    /// Seconds that are not counted.
    pub warm_up_seconds: u64,
    /// Seconds without compaction.
    pub idle_seconds: u64,
    /// Seconds after the compaction.
    pub after_seconds: u64,
}

/// The values without any further option.
pub const DEFAULT: Preset = Preset {
    modes: &[
        "5.0.9/stock",
        "5.0.9/coldstream",
        "6.0-alpha2/stock",
        "6.0-alpha2/direct-reads-writes",
    ],
    keys: Amount::Fixed(544_000),
    hot_keys: Amount::Fixed(68_000),
    memory_mib: 2300,
    heap_mib: Amount::Fixed(1024),
    workload: Workload::Reads,
    requests_per_second: Amount::Fixed(1500),
    compaction_mib_per_second: 64,
    warm_up_seconds: 20,
    idle_seconds: 15,
    after_seconds: 15,
};

/// The values with `--quick`.
pub const QUICK: Preset = Preset {
    keys: Amount::Fixed(136_000),
    hot_keys: Amount::Fixed(34_000),
    memory_mib: 2000,
    warm_up_seconds: 10,
    idle_seconds: 8,
    after_seconds: 8,
    ..DEFAULT
};
