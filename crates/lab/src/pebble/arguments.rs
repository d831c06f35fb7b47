//! The options of `coldstream lab pebble`.

use super::mode::Mode;
use crate::driven::case::{Case, Sizes};
use crate::engine::EngineArguments;
use crate::testbed::WorkDirArgs;
use clap::Args;
use std::path::PathBuf;

/// Measures Pebble under load while it compacts, and compares modes.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
A run: the driver, a static Go program, opens its own copy of the data set in a memory-limited
cgroup. It reads each hot key once, then at a steady rate in the phases warm-up, idle, compaction
and after publication. It compares every value that it reads.

Examples:
  Stock, attached, and the blind peer:
    coldstream lab pebble --modes buffered,attach,drop-all --html report.html
  A larger block cache instead:
    coldstream lab pebble --modes buffered,buffered@cache_size=67108864
  One compaction of everything:
    coldstream lab pebble --update-mib-per-second 0

Modes:
  buffered                 stock Pebble, which uses buffered I/O
  attach                   coldstream attach beside stock Pebble; needs root
  drop-all                 a filesystem around Pebble that drops every page behind a compaction
  MODE@OPTION=VALUE        any mode, with this line of the section Options of Pebble's OPTIONS file")]
pub struct PebbleArgs {
    /// Modes to compare; the first is the baseline
    ///
    /// Each turn runs every mode once, in this order.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "buffered,attach,drop-all"
    )]
    pub modes: Vec<Mode>,
    /// Sizes of the hot set, relative to the page cache
    #[arg(long, value_delimiter = ',', value_enum, default_value = "most")]
    pub cases: Vec<Case>,
    /// Number of turns; each runs every mode once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Number of keys in the data set
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: u64,
    /// Size of a value in bytes; values are incompressible
    #[arg(long, default_value_t = 4096, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub value_bytes: u64,
    /// Memory limit in MiB, page cache included; needs root
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_mib: u64,
    /// Number of hot keys, instead of a share of the page cache
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub hot_keys: Option<u64>,
    /// Reads a second, in an open loop: slow answers do not lower the rate
    #[arg(long, default_value_t = 3000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub reads_per_second: u64,
    /// Number of goroutines that read
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub readers: u64,
    /// Rate of updates in MiB/s, which keep compaction going; 0 is one manual compaction instead
    ///
    /// The updated keys are chosen uniformly.
    #[arg(long, default_value_t = 4, value_name = "MIB")]
    pub update_mib_per_second: u64,
    /// Seconds of warm-up, not counted, after the first read of each hot key
    #[arg(long, default_value_t = 6, value_name = "SECONDS")]
    pub warm_up_seconds: u64,
    /// Seconds of the phase without compaction
    #[arg(long, default_value_t = 8, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_seconds: u64,
    /// Seconds of the compaction phase with updates
    #[arg(long, default_value_t = 20, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub compaction_seconds: u64,
    /// Seconds of the phase after the publication of the output
    #[arg(long, default_value_t = 4, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub after_seconds: u64,
    /// Further lines of the section Options of Pebble's OPTIONS file, for every mode: NAME=VALUE;NAME=VALUE
    #[arg(long, default_value = "", value_name = "OPTIONS")]
    pub engine_options: String,
    /// The load driver [default: coldstream-pebble-driver beside this program, ../lib/coldstream]
    #[arg(long, value_name = "PATH")]
    pub driver: Option<PathBuf>,
    /// After every run, compare the whole database with what was written
    #[arg(long)]
    pub verify: bool,
    /// Work directory, device and report
    #[command(flatten)]
    pub work_dir: WorkDirArgs,
}

/// The load driver, built from `crates/lab/pebble-driver`.
pub const DRIVER: &str = "coldstream-pebble-driver";

impl EngineArguments for PebbleArgs {
    fn work_dir_mut(&mut self) -> &mut WorkDirArgs {
        &mut self.work_dir
    }

    fn loads_coldstream(&self) -> bool {
        false
    }

    fn companions(&mut self) -> Vec<(&'static str, &mut Option<PathBuf>)> {
        vec![(DRIVER, &mut self.driver)]
    }
}

impl PebbleArgs {
    /// Sizes of the data set, of the memory and of the phases.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            keys: self.keys,
            memory_bytes: self.memory_mib << 20,
            warm_up_seconds: self.warm_up_seconds,
            idle_seconds: self.idle_seconds,
            compaction_seconds: self.compaction_seconds,
            after_seconds: self.after_seconds,
        }
    }
}
