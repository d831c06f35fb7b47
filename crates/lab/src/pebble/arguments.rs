//! The options of `coldstream lab pebble`.

use super::mode::Mode;
use crate::driven::arguments::LoadArgs;
use crate::driven::engine::{DrivenArguments, Parts};
use crate::engine::EngineArguments;
use crate::testbed::WorkDirArgs;
use clap::Args;
use std::path::PathBuf;

/// Measures Pebble under load while it compacts, and compares modes.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
A run: the driver, a static Go program, opens its own copy of the data set in a memory-limited \
cgroup. It reads each hot key once, then at a steady rate in the phases warm-up, idle, compaction \
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
    /// Each turn runs every mode once: the first one in this order, the others in another.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "buffered,attach,drop-all"
    )]
    pub modes: Vec<Mode>,
    /// Data and load
    #[command(flatten)]
    pub load: LoadArgs,
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
        vec![(DRIVER, &mut self.load.driver)]
    }
}

impl DrivenArguments for PebbleArgs {
    type Mode = Mode;

    fn parts(&self) -> Parts<'_, Mode> {
        Parts {
            modes: &self.modes,
            load: &self.load,
            work_dir: &self.work_dir,
            library: None,
        }
    }
}
