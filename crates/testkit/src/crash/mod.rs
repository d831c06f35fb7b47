//! What is left after a kill or a power cut. A writer makes SSTables, and records on a page what it promises of each.
//! The test ends it at any moment, and holds the files against the page.
//!
//! - [`Stage`]: the page, and the comparison.
//! - [`kills`], [`power_cuts`]: the rounds of a test.

mod kill;
mod power;
mod stage;

pub use kill::kills;
pub use power::power_cuts;
pub use stage::{Crash, Stage};

use std::sync::atomic::AtomicU64;

/// Number of threads of a writer.
pub const THREADS: usize = 3;
/// Number of SSTables that each thread keeps. Older ones are deleted.
pub const TABLES: u64 = 6;
/// An SSTable is at most about this long.
pub const TABLE_BYTES_MAX: u64 = 4 << 20;

/// The promises about one SSTable.
#[repr(C)]
#[derive(Debug)]
pub struct Promise {
    /// Number of the SSTable, and identity of its content. 0 means there is none.
    pub number: AtomicU64,
    /// The greatest possible length: raised before each write.
    pub intended: AtomicU64,
    /// Synced bytes: raised after each successful sync.
    pub durable: AtomicU64,
    /// The smallest possible length: lowered before a truncation.
    pub shortest: AtomicU64,
}

/// All promises, one row for each thread. The index is the number of the SSTable modulo [`TABLES`].
///
/// A writer maps the page, `../progress` from its directory, so that its promises outlive it and need no call.
#[repr(C)]
#[derive(Debug)]
pub struct Progress {
    /// The promises.
    pub promises: [[Promise; TABLES as usize]; THREADS],
}

/// The name of an SSTable.
#[must_use]
pub fn name(thread: usize, number: u64) -> String {
    match thread {
        0 => format!("nb-{number}-big-Data.db"),
        1 => format!("da-{number}-bti-Data.db"),
        _ => format!("{number:06}.sst"),
    }
}

/// The identity of an SSTable's content.
#[must_use]
pub fn identity(thread: usize, number: u64) -> u64 {
    (thread as u64) << 32 | number
}
