//! What integration tests and benches share. A dev-dependency: no product crate uses it.
//!
//! - [`process`]: runs a program with and without the preload library, with a time limit.
//! - [`library`]: the preload library under test, and its settings for one run.
//! - [`directories`]: test directories on several filesystems.
//! - [`refusing_heap`], [`overcommit`]: a heap that has no memory for the library, and a machine that has none.
//! - [`files`], [`random`]: content that names its own offset, and reproducible randomness.
//! - [`crash`]: what is left after a kill or a power cut.
//! - [`residency`]: which pages of a file are in the page cache.
//! - [`status_client`], [`exit_log`]: the library's status page, and the line that it logs at exit.
//! - [`plugin`]: the RocksDB plugin, and what is made with it.
//! - [`rocksdb_java`]: RocksDB's Java package.
//! - [`cassandra`]: Cassandra's own writer and tools, without a node.
//! - [`database`], [`tools`], [`device_limit`]: RocksDB directories, programs of the system, a slow device.
//!
//! A test that cannot run on this machine calls [`skip`] with the reason. Failures panic: nothing here returns an
//! error that a test would only unwrap.
//!
//! ```
//! use coldstream_testkit::process::Program;
//!
//! let ended = Program::shell("echo $GREETING")
//!     .with_variable("GREETING", "hello")
//!     .run()
//!     .well();
//! assert_eq!(ended.text(), "hello\n");
//! ```

#![forbid(unsafe_code)]

pub mod cargo_build;
pub mod cassandra;
pub mod crash;
pub mod database;
pub mod device_limit;
pub mod directories;
pub mod exit_log;
pub mod files;
pub mod library;
mod memory_cgroup;
pub mod overcommit;
pub mod plugin;
pub mod process;
pub mod random;
pub mod refusing_heap;
pub mod residency;
pub mod rocksdb_java;
mod skip;
pub mod status_client;
pub mod tools;

pub use memory_cgroup::{memory_cgroup, within};
pub use skip::skip;

/// Whether the long form of the tests was asked for, by `COLDSTREAM_LONG=1`.
#[must_use]
pub fn long() -> bool {
    std::env::var_os("COLDSTREAM_LONG").is_some_and(|value| value != "0")
}

/// The seed of randomness: `COLDSTREAM_SEED`, else 1 in the short form and a new one each time in the long form.
#[must_use]
pub fn seed() -> u64 {
    number_from_environment("COLDSTREAM_SEED").unwrap_or_else(|| match long() {
        true => std::time::UNIX_EPOCH
            .elapsed()
            .map_or(1, |elapsed| elapsed.as_nanos() as u64 % 1_000_000),
        false => 1,
    })
}

/// A number from the environment, to repeat or to lengthen a run.
///
/// # Panics
/// The variable is no number.
#[must_use]
pub fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
