//! The options of `coldstream lab leveldb`.

use super::mode::Mode;
use crate::driven::arguments::LoadArgs;
use crate::driven::engine::{DrivenArguments, Parts};
use crate::engine::{self, EngineArguments};
use crate::preloaded::{Preloaded, preloaded_help};
use crate::testbed::WorkDirArgs;
use clap::Args;
use std::path::PathBuf;

/// Measures LevelDB under load while it compacts, and compares modes.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = concat!(
    "\
A run: the driver opens its own copy of the data set in a memory-limited cgroup. It reads each hot \
key once, then at a steady rate in the phases warm-up, idle, compaction and after publication. It \
compares every value that it reads.

Examples:
  Stock, Coldstream's default, and what it can do for mapped SSTables:
    coldstream lab leveldb --html report.html
  The effect of readahead alone:
    coldstream lab leveldb --modes buffered,coldstream:handover=off+readahead=scans-and-mapped
  Uniform reads and updates in a closed loop, as the kernel patch cache_ext was measured:
    coldstream lab leveldb --cases uniform --closed-loop --value-bytes 1000 --keys 2500000
  Larger SSTables:
    coldstream lab leveldb --engine-options max_file_size=67108864

Modes:
  buffered                 stock LevelDB, which maps its SSTables and writes by buffered I/O
  MODE@OPTION=VALUE        any mode, with this option of LevelDB: write_buffer_size, max_file_size,
                           max_open_files, block_size, compression (0 or 1), cache_size, bloom_bits
",
    preloaded_help!()
))]
pub struct LevelDbArgs {
    /// Modes to compare; the first is the baseline
    ///
    /// Each turn runs every mode once: the first one in this order, the others in another.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "buffered,coldstream,coldstream:readahead=scans-and-mapped"
    )]
    pub modes: Vec<Mode>,
    /// Data and load
    #[command(flatten)]
    pub load: LoadArgs,
    /// LevelDB's shared library: a path, or a name that the dynamic loader finds
    #[arg(long, default_value = "libleveldb.so", value_name = "PATH")]
    pub engine_library: String,
    /// Work directory, device and report
    #[command(flatten)]
    pub work_dir: WorkDirArgs,
}

/// The load driver, built from `crates/lab/driver`.
pub const DRIVER: &str = "coldstream-leveldb-driver";

impl EngineArguments for LevelDbArgs {
    fn work_dir_mut(&mut self) -> &mut WorkDirArgs {
        &mut self.work_dir
    }

    fn loads_coldstream(&self) -> bool {
        let mut preloaded = self.modes.iter().filter_map(engine::Mode::preloaded);
        preloaded.any(Preloaded::is_coldstream)
    }

    fn companions(&mut self) -> Vec<(&'static str, &mut Option<PathBuf>)> {
        vec![(DRIVER, &mut self.load.driver)]
    }
}

impl DrivenArguments for LevelDbArgs {
    type Mode = Mode;

    fn parts(&self) -> Parts<'_, Mode> {
        Parts {
            modes: &self.modes,
            load: &self.load,
            work_dir: &self.work_dir,
            library: Some(&self.engine_library),
        }
    }
}
