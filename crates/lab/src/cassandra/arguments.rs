//! The options of `coldstream lab cassandra`.

use super::mode::Mode;
use crate::engine::{self, EngineArguments};
use crate::preloaded::{Preloaded, preloaded_help};
use crate::testbed::WorkDirArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The CQL table that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HotTable {
    /// The CQL table that is compacted.
    Inside,
    /// A CQL table beside it, which is not compacted.
    Beside,
}

/// The requests to the node, and its compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Reads, and one major compaction.
    Reads,
    /// Half reads, half updates (YCSB's workload A), and one major compaction after the other.
    YcsbA,
}

impl Workload {
    /// Percentage of updates among the requests.
    pub fn update_percent(self) -> u32 {
        match self {
            Workload::Reads => 0,
            Workload::YcsbA => 50,
        }
    }
}

/// Distribution of the requests over the hot keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// All keys alike.
    Uniform,
    /// A few keys get most requests, as in YCSB's scrambled zipfian distribution.
    Zipfian,
}

/// Format of the SSTables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Index by sorted list (`Index.db`).
    Big,
    /// Index by trie; from 5.0 on.
    Bti,
}

/// Measures real Cassandra nodes under load through a major compaction, and compares modes.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = concat!(
    "\
A run: a node starts in a memory-limited cgroup, with none of its SSTables in the page cache. The
load reads each hot key once, at a high rate. Then it sends requests at a steady rate in the phases
warm-up, idle, compaction (nodetool compact) and after publication. It checks every value.

Needs JDK 17 and Maven; the memory limit needs root.

Examples:
  A first look, in minutes:
    coldstream lab cassandra --quick --runs 1 --html report.html
  The default: 5.0.9 stock and with Coldstream, 6.0-alpha2 stock and with its own direct I/O:
    coldstream lab cassandra --html report.html
  The effect of the device's readahead:
    coldstream lab cassandra --modes 5.0/stock,5.0/no-readahead,5.0/coldstream
  Compaction at full speed:
    coldstream lab cassandra --modes 5.0/stock,5.0/coldstream --compaction-mib-per-second 0
  Another preload library; reads of a CQL table that is not compacted:
    coldstream lab cassandra --modes 5.0/stock,5.0/preload:/usr/lib/other.so --hot beside
  Half reads, half updates, and one compaction after the other:
    coldstream lab cassandra --workload ycsb-a --distribution zipfian \\
        --modes 5.0/stock,5.0/coldstream

Modes are VERSION/WAY. Versions are 4.1.10, 5.0.9 and 6.0-alpha2, or 4.1, 5.0 and 6.0 for short.
They are fetched from Maven Central at first use. Ways:
  stock                    without a change, except disk_access_mode: mmap_index_only, which is the
                           default from 5.0 on
  no-readahead             stock, with the device's readahead switched off (read_ahead_kb 0)
  direct-reads             6.0's own compaction_read_disk_access_mode: direct
  direct-writes            6.0's own background_write_disk_access_mode: direct
  direct-reads-writes      both
",
    preloaded_help!(),
    "

Settings of cassandra.yaml follow a way, each behind an @:
  5.0/coldstream@sstable_preemptive_open_interval=null"
))]
pub struct CassandraArgs {
    /// Modes to compare; the first is the baseline
    ///
    /// Each turn runs every mode once, in this order.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "5.0.9/stock,5.0.9/coldstream,6.0-alpha2/stock,6.0-alpha2/direct-reads-writes"
    )]
    pub modes: Vec<Mode>,
    /// Number of turns; each runs every mode once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// A first look: a quarter of the data and short phases
    #[arg(long)]
    pub quick: bool,
    /// Number of keys in the data set, which is two SSTables [default: 544000; 136000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: Option<u64>,
    /// Size of a value in bytes; values are incompressible
    #[arg(long, default_value_t = 4096, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub value_bytes: u64,
    /// Size of a compression chunk in KiB; 0 switches compression off
    #[arg(long, default_value_t = 4, value_name = "KIB")]
    pub chunk_kib: u64,
    /// Format of the SSTables
    #[arg(long, default_value = "big", value_enum)]
    pub format: Format,
    /// The CQL table that is read
    #[arg(
        long = "hot",
        value_name = "TABLE",
        default_value = "inside",
        value_enum
    )]
    pub hot_table: HotTable,
    /// Number of hot keys, spread over the CQL table [default: 68000; 34000 with --quick; all with
    /// --workload ycsb-a]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub hot_keys: Option<u64>,
    /// The requests to the node, and its compactions
    #[arg(long, default_value = "reads", value_enum)]
    pub workload: Workload,
    /// Distribution of the requests over the hot keys
    #[arg(long, default_value = "uniform", value_enum)]
    pub distribution: Distribution,
    /// Seconds of the compaction phase with --workload ycsb-a
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub compaction_seconds: u64,
    /// Requests a second, in an open loop: slow answers do not lower the rate
    #[arg(long, default_value_t = 1500, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests_per_second: u64,
    /// Cassandra's compaction_throughput in MiB/s; 0 is no limit
    #[arg(long, default_value_t = 64, value_name = "MIB")]
    pub compaction_mib_per_second: u64,
    /// Memory limit in MiB, heap and page cache included; needs root [default: 2300; 2000 with --quick]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_mib: Option<u64>,
    /// Heap of the node in MiB
    #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub heap_mib: u64,
    /// A further argument for the node's JVM, such as -XX:+UseShenandoahGC
    ///
    /// May be given several times. It overrides Cassandra's own.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub java_argument: Vec<String>,
    /// Reads a second while each hot key is read once
    ///
    /// A slower node is read as fast as it answers. At most 30 seconds' worth of keys are read. The
    /// warm-up begins when all answers are there.
    #[arg(long, default_value_t = 3000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub first_reads_per_second: u64,
    /// Seconds of warm-up, not counted, after the first read of each hot key [default: 20; 10 with
    /// --quick]
    #[arg(long, value_name = "SECONDS")]
    pub warm_up_seconds: Option<u64>,
    /// Seconds of the phase without compaction [default: 15; 8 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_seconds: Option<u64>,
    /// Seconds of the phase after the compaction [default: 15; 8 with --quick]
    #[arg(long, value_name = "SECONDS")]
    pub after_seconds: Option<u64>,
    /// Directory of the fetched releases of Cassandra [default: coldstream/cassandra in the user's cache]
    #[arg(long, value_name = "DIR")]
    pub releases: Option<PathBuf>,
    /// Work directory, device and report
    #[command(flatten)]
    pub work_dir: WorkDirArgs,
}

/// Sizes: those that were given, and presets for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sizes {
    /// Keys of the data set.
    pub keys: u64,
    /// Keys that are read.
    pub hot_keys: u64,
    /// Memory limit of the cgroup in bytes.
    pub memory_bytes: u64,
    /// Seconds that are not counted.
    pub warm_up_seconds: u64,
    /// Seconds without compaction.
    pub idle_seconds: u64,
    /// Seconds after the compaction.
    pub after_seconds: u64,
}

impl EngineArguments for CassandraArgs {
    fn work_dir_mut(&mut self) -> &mut WorkDirArgs {
        &mut self.work_dir
    }

    fn loads_coldstream(&self) -> bool {
        let mut preloaded = self.modes.iter().filter_map(engine::Mode::preloaded);
        preloaded.any(Preloaded::is_coldstream)
    }
}

impl CassandraArgs {
    /// The sizes that were given, and presets for the rest.
    pub fn sizes(&self) -> Sizes {
        let (keys, hot_keys, memory_mib, warm_up, idle, after) = if self.quick {
            (136_000, 34_000, 2_000, 10, 8, 8)
        } else {
            (544_000, 68_000, 2_300, 20, 15, 15)
        };
        let keys = self.keys.unwrap_or(keys);
        // YCSB uses all keys of the CQL table.
        let hot_keys = match self.workload {
            Workload::Reads => hot_keys,
            Workload::YcsbA => keys,
        };
        Sizes {
            keys,
            hot_keys: self.hot_keys.unwrap_or(hot_keys).clamp(1, keys),
            memory_bytes: self.memory_mib.unwrap_or(memory_mib) << 20,
            warm_up_seconds: self.warm_up_seconds.unwrap_or(warm_up),
            idle_seconds: self.idle_seconds.unwrap_or(idle),
            after_seconds: self.after_seconds.unwrap_or(after),
        }
    }
}
