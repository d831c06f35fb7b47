//! Policy: which thread is background, which file is a table, which I/O mode a read gets, which
//! priority a thread, how fast background I/O may go, and the configuration of all that. Pure
//! logic: no system call, no file access, no environment.

#![forbid(unsafe_code)]

mod bytes;
mod config;
pub mod eviction;
pub mod heat;
mod io_mode;
mod kind;
mod loader;
pub mod memory;
pub mod pacing;
mod priority;
mod readahead;
mod role;
pub mod scan;

pub use bytes::{DisplayBytes, display_bytes, parse_bytes};
pub use config::{
    Allowed, Config, ConfigError, LogTarget, SETTINGS, Section, Setting, VARIABLES, example_toml,
    markdown,
};
pub use io_mode::{IoMode, IoModeSetting, Visibility, direct_writes_corrupt};
pub use kind::FileKind;
pub use loader::{separates_libraries, unloadable_character};
pub use priority::{
    ByRole, Held, IoPriority, Priorities, Priority, PriorityMode, changed, io_rank,
};
pub use readahead::{MappedFile, Readahead, mapped_file};
pub use role::{FlushOutput, Profile, Role};
