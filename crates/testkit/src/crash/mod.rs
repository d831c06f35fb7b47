//! What is left after a kill or a power cut. A writer records on a page what it promises. The test ends it at any
//! moment, and holds its files against the page.
//!
//! - [`Stage`]: the page of a writer that makes SSTables, and the comparison.
//! - [`Database`]: the same for a writer that has a database.
//! - [`kills`], [`power_cuts`]: the rounds of a test.

mod database;
mod kill;
mod page;
mod power;
mod stage;

pub use database::Database;
pub use kill::kills;
pub use power::power_cuts;
pub use stage::Stage;

use std::path::Path;
use std::sync::atomic::AtomicU64;

/// What a writer promises, and how its files are held against that.
pub trait Record {
    /// The promises at one moment.
    type Promises;

    /// Makes a writer's directory, with the page beside it and no promise on the page.
    fn prepare(&self, work: &Path);

    /// Whether enough was written for a crash.
    fn has_begun(&self) -> bool;

    /// The promises at this moment.
    fn now(&self) -> Self::Promises;

    /// The promised bytes that a power cut must leave.
    fn durable(&self, promises: &Self::Promises) -> u64;

    /// Checks a directory against the promises from before the crash, and from after it.
    ///
    /// # Errors
    /// What is wrong or missing.
    fn check(
        &self,
        work: &Path,
        before: &Self::Promises,
        after: &Self::Promises,
        crash: Crash,
    ) -> Result<Checked, String>;
}

/// The kind of crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process: no byte of a table may be wrong.
    Kill,
    /// The machine: what was not synced may read as zeros. Plain buffered appends show that too:
    /// a journaling filesystem may have the new size on the disk before the new end of a block
    /// that had been there already. Whatever else is wrong is somebody else's data, or stale.
    Power,
}

/// What was checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// Bytes that were compared.
    pub bytes: u64,
    /// Files with unsynced bytes that read as zeros: SSTables, and the MANIFEST of a database.
    pub files_with_zeros: u64,
}

impl std::ops::AddAssign for Checked {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.files_with_zeros += other.files_with_zeros;
    }
}

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
