//! The options of `coldstream lab rocksdb`.

use super::mode::Mode;
use crate::engine::{self, EngineArguments};
use crate::preloaded::{Preloaded, preloaded_help};
use crate::testbed::WorkDirArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

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
    /// The whole data set fits in memory: a mode cannot win here, and must not lose.
    InMemory,
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

/// Measures RocksDB under load while it compacts, and compares modes.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = concat!(
    "\
A run: the driver opens its own copy of the data set in a memory-limited cgroup. It reads each hot
key once, then at a steady rate in the phases warm-up, idle, compaction and after publication. It
compares every value that it reads.

Examples:
  A first look, in minutes:
    coldstream lab rocksdb --quick --runs 1
  The default: stock, RocksDB's own direct writes, and Coldstream:
    coldstream lab rocksdb --html report.html
  All sizes of the hot set:
    coldstream lab rocksdb --cases small,third,most,large,in-memory --html report.html
  The effect of bypassed reads, and of bypassed writes on top:
    coldstream lab rocksdb --modes buffered,coldstream:auto+buffered,coldstream
  Another I/O mode, and another preload library:
    coldstream lab rocksdb --modes buffered,coldstream:drop-behind,preload:/usr/lib/other.so
  Compaction without an end, and a load that rises and falls:
    coldstream lab rocksdb --update-mib-per-second 4 --load-steps 1000,5000,1000
  A device like a cloud volume:
    coldstream lab rocksdb --device-mib-per-second 120 --device-requests-per-second 3000
  Another build of RocksDB, for modes that Debian's 7.8 does not have. The Java artifact of
  RocksDB 11.8 exports the C API:
    mvn dependency:copy -Dartifact=org.rocksdb:rocksdbjni:11.8.1 -DoutputDirectory=.
    unzip rocksdbjni-11.8.1.jar librocksdbjni-linux64.so
    coldstream lab rocksdb --engine-library ./librocksdbjni-linux64.so \\
        --modes buffered,direct-reads-writes,coldstream

Modes:
  buffered                 stock RocksDB, which uses buffered I/O
  direct-writes            use_direct_io_for_flush_and_compaction
  direct-reads             use_direct_io_for_compaction_reads (RocksDB 11.5 and later)
  direct-reads-writes      both
",
    preloaded_help!()
))]
pub struct RocksDbArgs {
    /// Modes to compare; the first is the baseline
    ///
    /// Each turn runs every mode once, in this order.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "buffered,direct-writes,coldstream"
    )]
    pub modes: Vec<Mode>,
    /// Sizes of the hot set, relative to the page cache
    #[arg(long, value_delimiter = ',', default_value = "most", value_enum)]
    pub cases: Vec<Case>,
    /// Position of the hot keys in the key space
    #[arg(long, default_value = "scattered", value_enum)]
    pub hot_layout: HotLayout,
    /// Number of turns; each runs every mode once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// A first look: half of the data, less memory and short phases
    #[arg(long)]
    pub quick: bool,
    /// Number of keys in the data set [default: 100000; 50000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: Option<u64>,
    /// Size of a value in bytes; values are incompressible
    #[arg(long, default_value_t = 4096, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub value_bytes: u64,
    /// Memory limit in MiB, page cache included; needs root [default: 256; 160 with --quick]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_mib: Option<u64>,
    /// Number of hot keys, instead of a share of the page cache
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub hot_keys: Option<u64>,
    /// Reads a second, in an open loop: slow answers do not lower the rate
    #[arg(long, default_value_t = 3000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub reads_per_second: u64,
    /// Reads a second in equal parts of the compaction phase, for a load that rises and falls
    ///
    /// Needs --update-mib-per-second.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        requires = "update_mib_per_second",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub load_steps: Vec<u64>,
    /// Number of threads that read
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub readers: u64,
    /// Rate limit of the compaction's writes in MiB/s; 0 is no limit
    #[arg(long, default_value_t = 30, value_name = "MIB")]
    pub compaction_mib_per_second: u64,
    /// Rate of updates in MiB/s, which keep compaction going; 0 is one manual compaction instead
    ///
    /// The updated keys are chosen uniformly.
    #[arg(long, default_value_t = 0, value_name = "MIB")]
    pub update_mib_per_second: u64,
    /// Page cache at the start of a run [default: warm in the case in-memory, cold in the others]
    ///
    /// A warm start reads the database file by file, in the run's cgroup, before it is opened. The
    /// case in-memory starts warm because a cold one would measure the device while memory fills. In
    /// the other cases only the files that were read last stay in the page cache.
    #[arg(long, value_enum)]
    pub start: Option<Start>,
    /// Seconds of warm-up, not counted, after the first read of each hot key [default: 6; 4 with
    /// --quick]
    #[arg(long, value_name = "SECONDS")]
    pub warm_up_seconds: Option<u64>,
    /// Seconds of the phase without compaction [default: 8; 5 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_seconds: Option<u64>,
    /// Seconds of the compaction phase with --update-mib-per-second
    #[arg(long, default_value_t = 20, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub compaction_seconds: u64,
    /// Seconds of the phase after the publication of the output [default: 8; 5 with --quick]
    #[arg(long, value_name = "SECONDS")]
    pub after_seconds: Option<u64>,
    /// Further RocksDB options for all modes, as `name=value;…`
    #[arg(long, default_value = "", value_name = "OPTIONS")]
    pub engine_options: String,
    /// RocksDB's shared library: a path, or a name that the dynamic loader finds
    #[arg(long, default_value = "librocksdb.so", value_name = "PATH")]
    pub engine_library: String,
    /// The load driver [default: coldstream-rocksdb-driver beside this program, ../lib/coldstream]
    #[arg(long, value_name = "PATH")]
    pub driver: Option<PathBuf>,
    /// After every run, compare the whole database with what was written
    #[arg(long)]
    pub verify: bool,
    /// Work directory, device and report
    #[command(flatten)]
    pub work_dir: WorkDirArgs,
}

/// Sizes: those that were given, and presets for the rest.
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
    /// Seconds after the publication of the output.
    pub after_seconds: u64,
}

/// Memory of the database itself: heap, block cache, indexes, filters. Measured with the default
/// sizes. The rest of the limit is page cache.
pub const ENGINE_BYTES: u64 = 64 << 20;

/// Pages of the page cache that one hot value needs: a block of 4 KiB with its header lies across
/// two.
const PAGES_PER_VALUE: u64 = 2;

/// The load driver, built from `crates/lab/rocksdb-driver`.
const DRIVER: &str = "coldstream-rocksdb-driver";

impl EngineArguments for RocksDbArgs {
    fn work_dir_mut(&mut self) -> &mut WorkDirArgs {
        &mut self.work_dir
    }

    fn loads_coldstream(&self) -> bool {
        let mut preloaded = self.modes.iter().filter_map(engine::Mode::preloaded);
        preloaded.any(Preloaded::is_coldstream)
    }

    fn companions(&mut self) -> Vec<(&'static str, &mut Option<PathBuf>)> {
        vec![(DRIVER, &mut self.driver)]
    }
}

impl RocksDbArgs {
    /// The sizes that were given, and presets for the rest.
    pub fn sizes(&self) -> Sizes {
        let (keys, memory_mib, warm_up, idle, after) = if self.quick {
            (50_000, 160, 4, 5, 5)
        } else {
            (100_000, 256, 6, 8, 8)
        };
        Sizes {
            keys: self.keys.unwrap_or(keys),
            memory_bytes: self.memory_mib.unwrap_or(memory_mib) << 20,
            warm_up_seconds: self.warm_up_seconds.unwrap_or(warm_up),
            idle_seconds: self.idle_seconds.unwrap_or(idle),
            after_seconds: self.after_seconds.unwrap_or(after),
        }
    }

    /// The page cache at the start of a case's runs.
    pub fn start_of(&self, case: Case) -> Start {
        self.start.unwrap_or(match case {
            Case::InMemory => Start::Warm,
            Case::Small | Case::Fifth | Case::Third | Case::Most | Case::Large => Start::Cold,
        })
    }

    /// Memory limit in bytes and number of hot keys of a case.
    pub fn limit_and_hot_keys(&self, case: Case) -> (u64, u64) {
        let sizes = self.sizes();
        let value_bytes = self.value_bytes.next_multiple_of(4096);
        let bytes_per_hot_key = match self.hot_layout {
            HotLayout::Scattered => value_bytes - 4096 + PAGES_PER_VALUE * 4096,
            HotLayout::Contiguous => self.value_bytes,
        };
        let cache_bytes = sizes.memory_bytes.saturating_sub(ENGINE_BYTES).max(8 << 20);
        let keys_in = |bytes: u64| (bytes / bytes_per_hot_key).clamp(1, sizes.keys);
        let (limit, hot_keys) = match case {
            Case::Small => (sizes.memory_bytes, keys_in(cache_bytes / 20)),
            Case::Fifth => (sizes.memory_bytes, keys_in(cache_bytes / 5)),
            Case::Third => (sizes.memory_bytes, keys_in(cache_bytes / 3)),
            Case::Most => (sizes.memory_bytes, keys_in(cache_bytes / 4 * 3)),
            Case::Large => (sizes.memory_bytes, keys_in(cache_bytes * 3)),
            // Room for two sorted runs, their output, and the engine.
            Case::InMemory => (
                4 * sizes.keys * value_bytes + 4 * ENGINE_BYTES,
                sizes.keys / 3,
            ),
        };
        (
            limit,
            self.hot_keys.unwrap_or(hot_keys).clamp(1, sizes.keys),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option_name::option_name;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        /// Where the report goes
        #[command(flatten)]
        arguments: RocksDbArgs,
    }

    fn parse(words: &[&str]) -> RocksDbArgs {
        Command::try_parse_from(std::iter::once(&"lab").chain(words))
            .map(|command| command.arguments)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn hot_sets_are_shares_of_the_cache() {
        let arguments = parse(&["--memory-mib", "264", "--keys", "1000000"]);
        let keys = |case| arguments.limit_and_hot_keys(case).1;
        assert_eq!(keys(Case::Third), 200 * 1024 * 1024 / 3 / 8192);
        assert!(keys(Case::Small) * 6 < keys(Case::Third));
        assert!(keys(Case::Large) > 8 * keys(Case::Third));
        let (limit, _) = arguments.limit_and_hot_keys(Case::InMemory);
        assert!(limit > 3 * 1_000_000 * 4096);
    }

    #[test]
    fn only_the_in_memory_case_starts_warm_unasked() {
        let arguments = parse(&[]);
        assert_eq!(arguments.start_of(Case::InMemory), Start::Warm);
        assert_eq!(arguments.start_of(Case::Most), Start::Cold);
        for start in [Start::Cold, Start::Warm] {
            let arguments = parse(&["--start", &option_name(start)]);
            assert_eq!(arguments.start_of(Case::InMemory), start);
            assert_eq!(arguments.start_of(Case::Small), start);
        }
    }

    #[test]
    fn an_explicit_figure_wins_over_a_preset() {
        let arguments = parse(&["--quick", "--keys", "7", "--hot-keys", "3"]);
        assert_eq!(arguments.sizes().keys, 7);
        assert_eq!(arguments.limit_and_hot_keys(Case::Large).1, 3);
    }

    #[test]
    fn every_case_is_called_as_it_is_parsed() {
        for case in Case::value_variants() {
            assert_eq!(Case::from_str(&option_name(*case), false), Ok(*case));
        }
        assert_eq!(option_name(Case::InMemory), "in-memory");
    }
}
