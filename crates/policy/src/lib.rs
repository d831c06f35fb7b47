//! Pure logic of Coldstream: no system call, no file access, no environment, no clock.
//!
//! - [`Profile`], [`Role`], [`FileKind`]: which thread is background, which file is an SSTable.
//! - [`IoMode`], [`Visibility`], [`Priorities`], [`Readahead`]: how background I/O is done.
//! - [`Config`] and [`SETTINGS`]: all settings, from environment, TOML file and options.
//! - [`heat`], [`usefulness`], [`scan`], [`eviction`], [`background`]: the decisions of the mechanisms.
//! - [`memory_limits`], [`mapped_file`]: texts of the kernel.
//!
//! The preload library calls `Profile`, `Role`, `heat`, `scan` and `background` on the database's threads. These
//! neither allocate nor lock.
//!
//! ```
//! use coldstream_policy::{Config, FileKind, IoMode, Profile, Role};
//!
//! // The environment wins over the file.
//! let file = "profile = \"rocksdb\"\n[reads]\nwindow_bytes = \"2MiB\"\n";
//! let environment = |name: &str| (name == "COLDSTREAM_READS").then(|| "direct".to_owned());
//! let config = Config::from_sources(Some(file), environment)?;
//! assert_eq!(config.profile, Profile::RocksDb);
//! assert_eq!(config.window_bytes, 2 << 20);
//!
//! // A compaction thread reads an SSTable on a filesystem where direct reads work.
//! assert_eq!(config.profile.role_of_thread(b"rocksdb:low"), Role::Compaction);
//! assert_eq!(config.profile.kind_of_file(b"/db/000123.sst"), FileKind::RocksDbSsTable);
//! assert_eq!(config.reads.choose_for_reads(true, true, true), IoMode::Direct);
//! # Ok::<(), coldstream_policy::ConfigError>(())
//! ```

#![forbid(unsafe_code)]

mod avoided_calls;
pub mod background;
mod bytes;
mod config;
pub mod descriptors;
pub mod eviction;
mod flush;
pub mod heat;
mod io_mode;
mod kind;
mod loader;
pub mod memory_limits;
mod priority;
mod profile;
mod readahead;
mod role;
pub mod scan;
pub mod usefulness;

pub use avoided_calls::{AVOIDABLE_CALLS, AvoidedCalls};
pub use bytes::{DisplayBytes, display_bytes, parse_bytes};
pub use config::{
    Allowed, Config, ConfigError, LogTarget, SETTINGS, Section, Setting, VARIABLES, example_toml,
    markdown,
};
pub use flush::{FlushInterval, FlushOutput, FlushWatch};
pub use io_mode::{IoMode, IoModeSetting, Visibility, direct_writes_corrupt};
pub use kind::FileKind;
pub use loader::{separates_libraries, unloadable_character};
pub use priority::{
    ByRole, Held, IoPriority, Priorities, Priority, PriorityMode, changed, io_rank,
};
pub use profile::Profile;
pub use readahead::{MappedFile, Readahead, mapped_file};
pub use role::Role;
