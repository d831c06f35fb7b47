//! The options of `coldstream lab rocksdb`.

use super::mode::{Mode, PLUGIN};
use super::preset::{DEFAULT, Preset, QUICK};
use super::recipe::Recipe;
use crate::driven::case::{Case, HotLayout, Start};
use crate::engine::{self, EngineArguments};
use crate::number_option::{self, at_least};
use crate::preloaded::{Preloaded, preloaded_help};
use crate::preset::modes_or;
use crate::testbed::WorkDirArgs;
use clap::Args;
use std::path::PathBuf;

/// Measures RocksDB under load while it compacts, and compares modes.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = concat!(
    "\
A run: the driver opens its own copy of the data set in a memory-limited cgroup. It reads each hot \
key once, then in the phases warm-up, idle, compaction and after publication: at a steady rate, or \
with --closed-loop as fast as the answers come. It compares every value that it reads.

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
  A published measurement, at half of its scale; 20 GB of disk, and an hour and a half:
    coldstream lab rocksdb --recipe pr14743 --keep --html report.html
  The same at full scale, with other modes:
    coldstream lab rocksdb --recipe pr14743 --memory-mib 1024 --modes buffered,coldstream
  The same with the program that published it, which has one phase and another skew:
    coldstream lab rocksdb --recipe pr14743 --db-bench /usr/bin/db_bench
  Uniform reads and updates, as the kernel patch cache_ext was measured:
    coldstream lab rocksdb --recipe cache-ext --keep
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
  attach                   coldstream attach beside stock RocksDB, for a driver without the library
  attach:priority          the same with --priority
  plugin                   Coldstream's plugin for RocksDB, by --plugin; plugin:… as coldstream:…
  MODE@OPTION=VALUE        any mode, with this option of RocksDB; several are possible:
                             buffered@use_direct_reads=true@max_background_jobs=4
",
    preloaded_help!()
))]
pub struct RocksDbArgs {
    /// A published measurement: its data set, load and modes, in the memory that --memory-mib names
    ///
    /// Each option that is given wins over the recipe. --reads-per-second makes the loop an open one.
    #[arg(long, value_enum, conflicts_with = "quick")]
    pub recipe: Option<Recipe>,
    /// Modes to compare; the first is the baseline [default: buffered,direct-writes,coldstream; a
    /// recipe has its own]
    ///
    /// Each turn runs every mode once: the first one in this order, the others in another.
    #[arg(long, value_delimiter = ',')]
    pub modes: Vec<Mode>,
    /// Sizes of the hot set, relative to the page cache [default: most; a recipe has its own]
    #[arg(long, value_delimiter = ',', value_enum)]
    pub cases: Vec<Case>,
    /// Position of the hot keys in the key space [default: scattered; a recipe has its own]
    #[arg(long, value_enum)]
    pub hot_layout: Option<HotLayout>,
    /// Number of turns; each runs every mode once
    #[arg(long, default_value_t = 5, value_parser = number_option::turns)]
    pub runs: u32,
    /// A first look: half of the data, less memory and short phases
    #[arg(long)]
    pub quick: bool,
    /// Number of keys in the data set [default: 100000; 50000 with --quick; with a
    /// recipe by the memory limit]
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    pub keys: Option<u64>,
    /// Size of a value in bytes; values are incompressible [default: 4096; a recipe has its own]
    #[arg(long, value_name = "BYTES", value_parser = at_least::<1>)]
    pub value_bytes: Option<u64>,
    /// Memory limit in MiB, page cache included; needs root [default: 256; 160 with
    /// --quick; a recipe has its own]
    #[arg(long, value_name = "MIB", value_parser = at_least::<1>)]
    pub memory_mib: Option<u64>,
    /// Number of hot keys, instead of a share of the page cache
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    pub hot_keys: Option<u64>,
    /// Reads a second, in an open loop: slow answers do not lower the rate [default: 3000]
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    pub reads_per_second: Option<u64>,
    /// Each reader reads again as soon as it has its answer; the response time is the service time
    #[arg(long, conflicts_with_all = ["reads_per_second", "load_steps"])]
    pub closed_loop: bool,
    /// Reads a second in equal parts of the compaction phase, for a load that rises and falls
    ///
    /// Needs --update-mib-per-second.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        requires = "update_mib_per_second",
        value_parser = at_least::<1>
    )]
    pub load_steps: Vec<u64>,
    /// Number of threads that read
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = at_least::<1>)]
    pub readers: u64,
    /// Rate limit of the compaction's writes in MiB/s; 0 is no limit [default: 30; a recipe has its own]
    #[arg(long, value_name = "MIB", value_parser = at_least::<0>)]
    pub compaction_mib_per_second: Option<u64>,
    /// Rate of updates in MiB/s, which keep compaction going; 0 is one manual compaction instead
    ///
    /// The updated keys are chosen uniformly. The default is 0; a recipe has its own.
    #[arg(long, value_name = "MIB", value_parser = at_least::<0>)]
    pub update_mib_per_second: Option<u64>,
    /// Page cache at the start of a run [default: warm in the case in-memory, cold in the others]
    ///
    /// A warm start reads the database file by file, in the run's cgroup, before it is opened. The
    /// case in-memory starts warm because a cold one would measure the device while memory fills. In
    /// the other cases only the files that were read last stay in the page cache.
    #[arg(long, value_enum)]
    pub start: Option<Start>,
    /// Seconds of warm-up, not counted, after the first read of each hot key [default: 6; 4 with
    /// --quick or a recipe]
    #[arg(long, value_name = "SECONDS", value_parser = at_least::<0>)]
    pub warm_up_seconds: Option<u64>,
    /// Seconds of the phase without compaction [default: 8; 5 with --quick or a recipe]
    #[arg(long, value_name = "SECONDS", value_parser = at_least::<1>)]
    pub idle_seconds: Option<u64>,
    /// Seconds of the compaction phase with updates [default: 20; a recipe has its own]
    #[arg(long, value_name = "SECONDS", value_parser = at_least::<1>)]
    pub compaction_seconds: Option<u64>,
    /// Seconds of the phase after the publication of the output [default: 8; 5 with --quick or a recipe]
    #[arg(long, value_name = "SECONDS", value_parser = at_least::<0>)]
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
    /// Coldstream's plugin, made for this RocksDB [default: libcoldstream_rocksdb.so beside this
    /// program, ../lib/coldstream]
    #[arg(long, value_name = "PATH")]
    pub plugin: Option<PathBuf>,
    /// Make a recipe's load with this db_bench instead of the load driver
    ///
    /// Its reads are skewed: 80 % of them go to as many keys as the case has hot ones, and most of
    /// these to few. The driver reads its hot keys alike, so figures of the two cannot be compared.
    /// There is no idle phase. An option in a mode or in --engine-options is a flag of db_bench.
    #[arg(
        long,
        value_name = "PATH",
        requires = "recipe",
        conflicts_with_all = [
            "driver", "engine_library", "verify", "reads_per_second", "load_steps", "hot_layout",
            "compaction_mib_per_second", "start", "warm_up_seconds", "idle_seconds", "after_seconds",
        ]
    )]
    pub db_bench: Option<PathBuf>,
    /// After every run, compare the whole database with what was written
    #[arg(long)]
    pub verify: bool,
    /// Work directory, device and report
    #[command(flatten)]
    pub work_dir: WorkDirArgs,
}

/// The load driver, built from `crates/lab/driver`.
pub const DRIVER: &str = "coldstream-rocksdb-driver";

impl EngineArguments for RocksDbArgs {
    fn work_dir_mut(&mut self) -> &mut WorkDirArgs {
        &mut self.work_dir
    }

    fn loads_coldstream(&self) -> bool {
        let modes = self.modes();
        let mut preloaded = modes.iter().filter_map(engine::Mode::preloaded);
        preloaded.any(Preloaded::is_coldstream)
    }

    fn companions(&mut self) -> Vec<(&'static str, &mut Option<PathBuf>)> {
        vec![(DRIVER, &mut self.driver), (PLUGIN, &mut self.plugin)]
    }
}

impl RocksDbArgs {
    /// Values of the options that were not given.
    pub fn preset(&self) -> Preset {
        match self.recipe {
            Some(recipe) => recipe.preset(),
            None if self.quick => QUICK,
            None => DEFAULT,
        }
    }

    /// The modes to compare.
    pub fn modes(&self) -> Vec<Mode> {
        let mut modes = modes_or(&self.modes, self.preset().modes);
        if let Some(plugin) = &self.plugin {
            modes.iter_mut().for_each(|mode| mode.set_plugin(plugin));
        }
        modes
    }
}
