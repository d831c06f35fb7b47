//! The laboratory measures real engines on the user's machine. It publishes all results, lost cases
//! included.
//!
//! An engine runs in a memory-limited cgroup, under an open-loop or a closed-loop load. It is measured before, during
//! and after a compaction. The modes (stock, the engine's own best, Coldstream) run in turn. The
//! report shows latencies beside the figures of the kernel and of the device.
//!
//! ```text
//! EngineCommand (engines.rs)   one line an engine
//!   experiment.rs              cases, turns, modes; the report
//!     engine.rs                the trait that rocksdb/, cassandra/ and driven/ implement
//!     testbed.rs               work directory, machine, limits of a run
//!     recording.rs             events of the load, samples of the kernel's counters
//!     report/                  verdict, terminal, page, pictures; all from the report's data
//! ```
//!
//! [`EngineCommand`] is `coldstream lab`'s subcommand:
//!
//! ```no_run
//! use clap::Parser;
//! use coldstream_lab::EngineCommand;
//!
//! #[derive(Parser)]
//! struct Lab {
//!     #[command(subcommand)]
//!     engine: EngineCommand,
//! }
//!
//! # fn main() -> Result<(), coldstream_lab::LabError> {
//! Lab::parse_from(["lab", "rocksdb", "--quick", "--html", "report.html"]).engine.measure()
//! # }
//! ```

#![forbid(unsafe_code)]

mod attached;
mod awake;
mod cassandra;
mod compaction_files;
mod driven;
mod engine;
mod engines;
mod error;
mod experiment;
mod foreground;
mod free_space;
pub mod interrupt;
mod io_modes;
mod leveldb;
mod library_log;
mod linked;
mod machine;
mod measurement;
mod mode_settings;
mod number_option;
mod option_name;
mod own_direct;
mod pauses;
mod pebble;
mod phase;
mod preloaded;
mod preset;
mod processes;
mod progress;
mod recording;
mod report;
mod rocksdb;
mod rows;
mod run_report;
mod sampler;
mod smallest_limit;
mod summary;
mod testbed;
mod throttle;
mod units;

pub use engine::EngineArguments;
pub use engines::EngineCommand;
pub use error::LabError;
pub use report::saved;
pub use testbed::WorkDirArgs;
