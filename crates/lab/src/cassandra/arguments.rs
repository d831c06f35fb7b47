//! The options of `coldstream lab cassandra`.

use super::mode::Mode;
use super::preset::{DEFAULT, Preset, QUICK};
use super::recipe::Recipe;
use super::workload::Workload;
use crate::engine::{self, EngineArguments};
use crate::number_option::{self, at_least};
use crate::preloaded::{Preloaded, preloaded_help};
use crate::preset::modes_or;
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
A run: a node starts in a memory-limited cgroup, with none of its SSTables in the page cache. The \
load reads each hot key once, at a high rate. Then it sends requests at a steady rate in the phases \
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
  A published measurement, at an eighth of its scale; 65 GB of disk, and an hour:
    coldstream lab cassandra --recipe cassandra-21134 --keep --html report.html

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
    /// A published measurement: its data set, load and modes, in the memory that --memory-mib names
    ///
    /// Each option that is given wins over the recipe.
    #[arg(long, value_enum, conflicts_with = "quick")]
    pub recipe: Option<Recipe>,
    /// Modes to compare; the first is the baseline [default:
    /// 5.0.9/stock,5.0.9/coldstream,6.0-alpha2/stock,6.0-alpha2/direct-reads-writes; a recipe has its
    /// own]
    ///
    /// Each turn runs every mode once: the first one in this order, the others in another.
    #[arg(long, value_delimiter = ',')]
    pub modes: Vec<Mode>,
    /// Number of turns; each runs every mode once
    #[arg(long, default_value_t = 5, value_parser = number_option::turns)]
    pub runs: u32,
    /// A first look: a quarter of the data and short phases
    #[arg(long)]
    pub quick: bool,
    /// Number of keys in the data set, which is two SSTables [default: 544000; 136000 with --quick; with
    /// a recipe by the memory limit]
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    pub keys: Option<u64>,
    /// Size of a value in bytes; values are incompressible
    #[arg(long, default_value_t = 4096, value_name = "BYTES", value_parser = at_least::<1>)]
    pub value_bytes: u64,
    /// Size of a compression chunk in KiB; 0 switches compression off
    #[arg(long, default_value_t = 4, value_name = "KIB", value_parser = at_least::<0>)]
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
    /// Number of hot keys, spread over the CQL table [default: 68000; 34000 with --quick; with a recipe
    /// by the memory limit; all with a workload of YCSB]
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    pub hot_keys: Option<u64>,
    /// The requests to the node, and its compactions [default: reads; a recipe has its own]
    #[arg(long, value_enum)]
    pub workload: Option<Workload>,
    /// Distribution of the requests over the hot keys
    #[arg(long, default_value = "uniform", value_enum)]
    pub distribution: Distribution,
    /// Seconds of the compaction phase with a workload of YCSB
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = at_least::<1>)]
    pub compaction_seconds: u64,
    /// Requests a second, in an open loop: slow answers do not lower the rate [default: 1500; with a
    /// recipe by the memory limit]
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    pub requests_per_second: Option<u64>,
    /// Cassandra's compaction_throughput in MiB/s; 0 is no limit [default: 64; a recipe has its own]
    #[arg(long, value_name = "MIB", value_parser = at_least::<0>)]
    pub compaction_mib_per_second: Option<u64>,
    /// Memory limit in MiB, heap and page cache included; needs root [default: 2300; 2000 with --quick;
    /// a recipe has its own]
    #[arg(long, value_name = "MIB", value_parser = at_least::<1>)]
    pub memory_mib: Option<u64>,
    /// Heap of the node in MiB [default: 1024; with a recipe by the memory limit]
    #[arg(long, value_name = "MIB", value_parser = at_least::<1>)]
    pub heap_mib: Option<u64>,
    /// A further argument for the node's JVM, such as -XX:+UseShenandoahGC
    ///
    /// May be given several times. It overrides Cassandra's own.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub java_argument: Vec<String>,
    /// Reads a second while each hot key is read once
    ///
    /// A slower node is read as fast as it answers. At most 30 seconds' worth of keys are read. The
    /// warm-up begins when all answers are there.
    #[arg(long, default_value_t = 3000, value_name = "N", value_parser = at_least::<1>)]
    pub first_reads_per_second: u64,
    /// Seconds of warm-up, not counted, after the first read of each hot key [default: 20; 10 with
    /// --quick]
    #[arg(long, value_name = "SECONDS", value_parser = at_least::<0>)]
    pub warm_up_seconds: Option<u64>,
    /// Seconds of the phase without compaction [default: 15; 8 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = at_least::<1>)]
    pub idle_seconds: Option<u64>,
    /// Seconds of the phase after the compaction [default: 15; 8 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = at_least::<0>)]
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
    /// Heap of the node in MiB.
    pub heap_mib: u64,
    /// Requests a second.
    pub requests_per_second: u64,
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
        let modes = self.modes();
        let mut preloaded = modes.iter().filter_map(engine::Mode::preloaded);
        preloaded.any(Preloaded::is_coldstream)
    }
}

impl CassandraArgs {
    fn preset(&self) -> Preset {
        match self.recipe {
            Some(recipe) => recipe.preset(),
            None if self.quick => QUICK,
            None => DEFAULT,
        }
    }

    /// The modes to compare.
    pub fn modes(&self) -> Vec<Mode> {
        modes_or(&self.modes, self.preset().modes)
    }

    /// The requests to the node, and its compactions.
    pub fn workload(&self) -> Workload {
        self.workload.unwrap_or(self.preset().workload)
    }

    /// Cassandra's `compaction_throughput` in MiB/s; 0 is no limit.
    pub fn compaction_mib_per_second(&self) -> u64 {
        self.compaction_mib_per_second
            .unwrap_or(self.preset().compaction_mib_per_second)
    }

    /// The sizes that were given, and presets for the rest.
    pub fn sizes(&self) -> Sizes {
        let preset = self.preset();
        let memory_mib = self.memory_mib.unwrap_or(preset.memory_mib);
        let keys = self.keys.unwrap_or(preset.keys.within(memory_mib));
        let hot_keys = match self.workload() {
            Workload::Reads => preset.hot_keys.within(memory_mib),
            // YCSB uses all keys of the CQL table.
            Workload::YcsbA | Workload::YcsbB | Workload::YcsbC => keys,
        };
        Sizes {
            keys,
            hot_keys: self.hot_keys.unwrap_or(hot_keys).clamp(1, keys),
            memory_bytes: memory_mib << 20,
            heap_mib: self.heap_mib.unwrap_or(preset.heap_mib.within(memory_mib)),
            requests_per_second: self
                .requests_per_second
                .unwrap_or(preset.requests_per_second.within(memory_mib)),
            warm_up_seconds: self.warm_up_seconds.unwrap_or(preset.warm_up_seconds),
            idle_seconds: self.idle_seconds.unwrap_or(preset.idle_seconds),
            after_seconds: self.after_seconds.unwrap_or(preset.after_seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        /// What is measured
        #[command(flatten)]
        arguments: CassandraArgs,
    }

    fn arguments(words: &[&str]) -> CassandraArgs {
        Command::try_parse_from(std::iter::once(&"lab").chain(words))
            .map(|command| command.arguments)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_recipe_keeps_its_ratios_at_every_scale() {
        for memory_mib in ["1536", "12288"] {
            let arguments = arguments(&["--recipe", "cassandra-21134", "--memory-mib", memory_mib]);
            let sizes = arguments.sizes();
            let gib = sizes.memory_bytes as f64 / (1 << 30) as f64;
            assert!((sizes.keys as f64 * 4096.0 / gib / 1e9 - 10.65).abs() < 0.02);
            assert!((sizes.hot_keys as f64 / gib / 83_333.0 - 1.0).abs() < 0.01);
            assert!((sizes.hot_keys / sizes.requests_per_second).abs_diff(100) <= 1);
            assert!((sizes.heap_mib as f64 / 1024.0 / gib - 1.0 / 3.0).abs() < 0.01);
            assert_eq!(arguments.compaction_mib_per_second(), 0);
        }
    }

    #[test]
    fn an_explicit_option_wins_over_a_recipe() {
        let given = arguments(&[
            "--recipe",
            "speedyio",
            "--workload",
            "ycsb-b",
            "--modes",
            "5.0/stock",
            "--keys",
            "9",
        ]);
        assert_eq!(given.workload().update_percent(), 5);
        assert_eq!(given.modes().len(), 1);
        assert_eq!((given.sizes().keys, given.sizes().hot_keys), (9, 9));
        assert_eq!(arguments(&["--quick"]).sizes().keys, 136_000);
        assert_eq!(arguments(&[]).modes().len(), 4);
    }
}
