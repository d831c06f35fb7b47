//! What `coldstream lab cassandra` can be asked.

use super::mode::Mode;
use crate::engine::{self, EngineArguments};
use crate::preloaded::{Preloaded, preloaded_help};
use crate::testbed::WorkDirArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Which table the reads are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HotTable {
    /// The one that is compacted.
    Inside,
    /// Another one, which is left alone.
    Beside,
}

/// What is asked of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Reads, and one major compaction.
    Reads,
    /// Half reads, half updates (YCSB's workload A), and one major compaction after the other.
    YcsbA,
}

impl Workload {
    /// Updates among the requests.
    pub fn update_percent(self) -> u32 {
        match self {
            Workload::Reads => 0,
            Workload::YcsbA => 50,
        }
    }
}

/// How requests spread over the hot keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Evenly.
    Uniform,
    /// As YCSB's scrambled zipfian: a few keys get most of them.
    Zipfian,
}

/// Format of the SSTables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// With `Index.db`.
    Big,
    /// With tries; from 5.0 on.
    Bti,
}

/// Runs real Cassandra nodes under load through a major compaction, mode by mode, and compares.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = concat!(
    "\
Examples:
  coldstream lab cassandra
      5.0.9 as it is and under Coldstream, 6.0-alpha2 as it is and with its own direct modes
  coldstream lab cassandra --quick --runs 1 --html report.html
  coldstream lab cassandra --modes 5.0/stock,5.0/no-readahead,5.0/coldstream
  coldstream lab cassandra --modes 5.0/stock,5.0/coldstream --compaction-mib-per-second 0
      as fast as compaction goes
  coldstream lab cassandra --modes 5.0/stock,5.0/preload:/usr/lib/other.so --hot beside
  coldstream lab cassandra --workload ycsb-a --distribution zipfian --modes 5.0/stock,5.0/coldstream
      half reads, half updates over the whole table, compaction without an end

Modes are VERSION/WAY. Versions: 4.1.10, 5.0.9, 6.0-alpha2, fetched from Maven Central at first
use; 4.1, 5.0 and 6.0 will do. Ways:
  stock                    as it is (with disk_access_mode: mmap_index_only, which is the default
                           from 5.0 on)
  no-readahead             as it is, on a device that does not read ahead (read_ahead_kb 0)
  direct-reads             6.0's own compaction_read_disk_access_mode: direct
  direct-writes            6.0's own background_write_disk_access_mode: direct
  direct-reads-writes      both
",
    preloaded_help!(),
    "
Each way with settings of cassandra.yaml behind it, if they are to differ:
  5.0/coldstream@sstable_preemptive_open_interval=null

A run: the node starts in its cgroup with nothing of its tables in the page cache; the hot keys
are read once, fast (as many as 30 seconds have at --first-reads-per-second); then the phases warm-up,
idle, compaction (nodetool compact) and after, all at the same rate of reads. Every value is checked.
Needs JDK 17, Maven and, for the memory limit, root."
))]
pub struct CassandraArgs {
    /// Modes, in the order in which each turn runs them; the first is what others are compared to
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "5.0.9/stock,5.0.9/coldstream,6.0-alpha2/stock,6.0-alpha2/direct-reads-writes"
    )]
    pub modes: Vec<Mode>,
    /// Turns: each runs every mode once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// A quarter of the data and short phases: for a first look
    #[arg(long)]
    pub quick: bool,
    /// Keys of the data set, in two SSTables [default: 544000; 136000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: Option<u64>,
    /// Size of a value in bytes; values are incompressible
    #[arg(long, default_value_t = 4096, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub value_bytes: u64,
    /// Size of a compression chunk in KiB; 0 is no compression
    #[arg(long, default_value_t = 4, value_name = "KIB")]
    pub chunk_kib: u64,
    /// Format of the SSTables
    #[arg(long, default_value = "big", value_enum)]
    pub format: Format,
    /// Which table is read: the one that is compacted, or one beside it
    #[arg(long = "hot", default_value = "inside", value_enum)]
    pub hot_table: HotTable,
    /// Keys that are read, spread over the table [default: 68000; 34000 with --quick; all with
    /// --workload ycsb-a]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub hot_keys: Option<u64>,
    /// What is asked of the node: reads, or half reads and half updates, with flushes and major
    /// compactions one after the other
    #[arg(long, default_value = "reads", value_enum)]
    pub workload: Workload,
    /// How requests spread over the keys that are read
    #[arg(long, default_value = "uniform", value_enum)]
    pub distribution: Distribution,
    /// Seconds of the compaction phase with --workload ycsb-a
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub compaction_seconds: u64,
    /// Requests a second, whatever the node makes of them
    #[arg(long, default_value_t = 1500, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests_per_second: u64,
    /// compaction_throughput in MiB/s; 0 is none
    #[arg(long, default_value_t = 64, value_name = "MIB")]
    pub compaction_mib_per_second: u64,
    /// Memory limit of the node's cgroup, in MiB [default: 2300; 2000 with --quick]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_mib: Option<u64>,
    /// Heap of the node, in MiB
    #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub heap_mib: u64,
    /// A further argument of the node's virtual machine, such as -XX:+UseShenandoahGC; may be given
    /// several times, and wins over Cassandra's own
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub java_argument: Vec<String>,
    /// Reads a second of the first pass over the hot keys, if the node can; of as many keys as 30
    /// seconds have at this rate. What follows begins when all have been answered
    #[arg(long, default_value_t = 3000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub first_reads_per_second: u64,
    /// Seconds at the usual rate that are not counted, after the first pass [default: 20; 10 with
    /// --quick]
    #[arg(long, value_name = "SECONDS")]
    pub warm_up_seconds: Option<u64>,
    /// Seconds of the phase without compaction [default: 15; 8 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_seconds: Option<u64>,
    /// Seconds of the phase after the compaction [default: 15; 8 with --quick]
    #[arg(long, value_name = "SECONDS")]
    pub after_seconds: Option<u64>,
    /// Where releases of Cassandra are kept [default: coldstream/cassandra in the user's cache]
    #[arg(long, value_name = "DIR")]
    pub releases: Option<PathBuf>,
    /// Where it is measured, and where the report goes
    #[command(flatten)]
    pub work_dir: WorkDirArgs,
}

/// The figures that the presets leave open, settled.
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
    /// Presets and explicit figures together.
    pub fn sizes(&self) -> Sizes {
        let (keys, hot_keys, memory_mib, warm_up, idle, after) = if self.quick {
            (136_000, 34_000, 2_000, 10, 8, 8)
        } else {
            (544_000, 68_000, 2_300, 20, 15, 15)
        };
        let keys = self.keys.unwrap_or(keys);
        // YCSB's keys are those of the whole table.
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
