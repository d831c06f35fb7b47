//! What `coldstream lab rocksdb` can be asked.

use super::mode::Mode;
use crate::engine::{self, EngineArguments};
use crate::preloaded::{Preloaded, preloaded_help};
use crate::testbed::WorkDirArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Where the hot keys lie in the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HotLayout {
    /// Evenly over it: every hot key has pages of its own.
    Scattered,
    /// Side by side: hot keys share pages.
    Contiguous,
}

/// Size of the hot set against the page cache that the limit leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// A twentieth of the cache.
    Small,
    /// A fifth of the cache.
    Fifth,
    /// A third of the cache.
    Third,
    /// Three quarters of the cache: about as much as it can hold beside a compaction.
    Most,
    /// Three times the cache.
    Large,
    /// The whole data set fits in memory: nothing can be gained, nothing may be lost.
    InMemory,
}

/// What of the database is in the page cache when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Nothing.
    Cold,
    /// As much as fits: every file was read through it, one after another.
    Warm,
}

/// Runs RocksDB under load while it compacts, mode by mode, and compares.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = concat!(
    "\
Examples:
  coldstream lab rocksdb
      buffered, the engine's own direct writes and Coldstream, hot set three quarters of the cache
  coldstream lab rocksdb --cases small,third,most,large,in-memory --html report.html
  coldstream lab rocksdb --modes buffered,coldstream:auto+buffered,coldstream
      what the bypass of reads gives, and what the bypass of writes adds to it
  coldstream lab rocksdb --modes buffered,coldstream:drop-behind,preload:/usr/lib/other.so
  coldstream lab rocksdb --engine-library ./librocksdbjni-linux64.so \\
      --modes buffered,direct-reads-writes,coldstream
      another build, for modes that Debian's RocksDB 7.8 does not have. The Java artifact of
      RocksDB 11.8 is one that exports the C API:
        mvn dependency:copy -Dartifact=org.rocksdb:rocksdbjni:11.8.1 -DoutputDirectory=.
        unzip rocksdbjni-11.8.1.jar librocksdbjni-linux64.so

Modes:
  buffered                 the engine as it is
  direct-writes            use_direct_io_for_flush_and_compaction
  direct-reads             use_direct_io_for_compaction_reads (RocksDB 11.5 and later)
  direct-reads-writes      both
",
    preloaded_help!()
))]
pub struct RocksDbArgs {
    /// Modes, in the order in which each turn runs them; the first is what others are compared to
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "buffered,direct-writes,coldstream"
    )]
    pub modes: Vec<Mode>,
    /// Sizes of the hot set
    #[arg(long, value_delimiter = ',', default_value = "most", value_enum)]
    pub cases: Vec<Case>,
    /// Where the hot keys lie
    #[arg(long, default_value = "scattered", value_enum)]
    pub hot_layout: HotLayout,
    /// Turns: each runs every mode once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Half of the data, less memory and short phases: for a first look
    #[arg(long)]
    pub quick: bool,
    /// Keys of the data set [default: 100000; 50000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: Option<u64>,
    /// Size of a value in bytes
    #[arg(long, default_value_t = 4096, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub value_bytes: u64,
    /// Memory limit of the database's cgroup, in MiB; needs root [default: 256; 160 with --quick]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_mib: Option<u64>,
    /// Hot keys, instead of a case's share of the cache
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub hot_keys: Option<u64>,
    /// Reads a second, whatever the database makes of them
    #[arg(long, default_value_t = 3000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub reads_per_second: u64,
    /// Reads a second during the compaction phase, one after another for equal parts of it: a load
    /// that rises and falls. With --update-mib-per-second
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        requires = "update_mib_per_second",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub load_steps: Vec<u64>,
    /// Threads that read
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub readers: u64,
    /// Rate limit of the compaction's writes in MiB/s; 0 is none
    #[arg(long, default_value_t = 30, value_name = "MIB")]
    pub compaction_mib_per_second: u64,
    /// Update uniformly chosen keys at this rate in MiB/s, so that compaction never ends, in
    /// place of one manual compaction of everything
    #[arg(long, default_value_t = 0, value_name = "MIB")]
    pub update_mib_per_second: u64,
    /// What is in the page cache when a run begins: nothing of the database (cold), or all of it,
    /// read file by file inside the run's cgroup before the database is opened (warm). Without
    /// this option the in-memory case starts warm, so that it measures memory and not the device
    /// while it fills, and the others start cold; in those a warm start leaves what was read last
    #[arg(long, value_enum)]
    pub start: Option<Start>,
    /// Seconds that are not counted, after the first pass over the hot keys [default: 6; 4 with
    /// --quick]
    #[arg(long, value_name = "SECONDS")]
    pub warm_up_seconds: Option<u64>,
    /// Seconds of the phase without compaction [default: 8; 5 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_seconds: Option<u64>,
    /// Seconds of the compaction phase with --update-mib-per-second
    #[arg(long, default_value_t = 20, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub compaction_seconds: u64,
    /// Seconds of the phase after the output was published [default: 8; 5 with --quick]
    #[arg(long, value_name = "SECONDS")]
    pub after_seconds: Option<u64>,
    /// Further RocksDB options for every mode, as `name=value;…`
    #[arg(long, default_value = "", value_name = "OPTIONS")]
    pub engine_options: String,
    /// RocksDB to load
    #[arg(long, default_value = "librocksdb.so", value_name = "PATH")]
    pub engine_library: String,
    /// The load driver, if it is not beside this program
    #[arg(long, value_name = "PATH")]
    pub driver: Option<PathBuf>,
    /// Compare the whole database with what was written, after every run
    #[arg(long)]
    pub verify: bool,
    /// Where it is measured, and where the report goes
    #[command(flatten)]
    pub work_dir: WorkDirArgs,
}

/// The figures that the presets leave open, settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sizes {
    /// Keys of the data set.
    pub keys: u64,
    /// Memory limit of the cgroup in bytes, for cases that do not fit in memory.
    pub memory_bytes: u64,
    /// Seconds of the phases.
    pub warm_up_seconds: u64,
    /// Seconds without compaction.
    pub idle_seconds: u64,
    /// Seconds after publication.
    pub after_seconds: u64,
}

/// What the database itself needs of the limit: heap, block cache, indexes, filters (measured
/// with the default sizes); the rest is page cache.
pub const ENGINE_BYTES: u64 = 64 << 20;

/// Pages of the page cache that one hot value keeps busy: a block of 4 KiB and its header lie
/// across two.
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
    /// Presets and explicit figures together.
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

    /// How the runs of a case begin.
    pub fn start_of(&self, case: Case) -> Start {
        self.start.unwrap_or(match case {
            Case::InMemory => Start::Warm,
            Case::Small | Case::Fifth | Case::Third | Case::Most | Case::Large => Start::Cold,
        })
    }

    /// Memory limit and hot keys of a case.
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
            // Two sorted runs, their successor, and room.
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
