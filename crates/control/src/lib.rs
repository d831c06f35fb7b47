//! The status page: one page of 64-bit words in shared memory, for each process under Coldstream.
//!
//! The preload library writes it. `coldstream ctl` and the laboratory read it. `coldstream ctl` also
//! writes requests into it, and the library answers there.
//!
//! - This crate knows layout and path only. It maps nothing.
//! - Its one system call asks for the namespace of process ids ([`PidNamespace::own`]).
//! - [`PageView::add`], [`PageView::set`] and [`PageView::get`] neither allocate nor panic: the library
//!   calls them on the database's threads.
//! - Any number of threads and processes may use a page at once.
//!
//! ```
//! use coldstream_control::{Counter, Header, PAGE_WORDS, PageView};
//! use coldstream_policy::{IoModeSetting, Profile};
//! use std::sync::atomic::AtomicU64;
//!
//! // The library: words that others may map.
//! let words: Vec<AtomicU64> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
//! let page = PageView::new(&words)?;
//! page.initialise(&Header {
//!     pid: 4711,
//!     start_time_ticks: 987_654,
//!     profile: Profile::RocksDb,
//!     configured: IoModeSetting::Auto,
//!     in_force: None,
//!     window_bytes: 1 << 20,
//!     windows_in_flight: 1,
//!     memory_bytes: 64 << 20,
//! });
//! page.add(Counter::BytesDirect, 4096);
//!
//! // `coldstream ctl`: the same process, and not a later one with the same id.
//! let snapshot = page.snapshot_of(4711, 987_654)?;
//! assert_eq!(snapshot.get(Counter::BytesDirect), 4096);
//! # Ok::<(), coldstream_control::PageError>(())
//! ```

#![forbid(unsafe_code)]

mod counter;
mod declined;
mod document;
mod location;
mod mechanism;
mod owner;
mod page;
mod phase;
mod snapshot;
mod summary;
mod switch;
mod tax;
mod verdict;

pub use counter::{Counter, CounterGroup, CounterKind, Unit};
pub use declined::DeclinedDirectory;
pub use document::with_counter_tables;
pub use location::{
    DIRECTORY_MODE, FILE_MODE, PageName, PidNamespace, directory_path, page_path, pid_of_file_name,
};
pub use mechanism::{Mechanism, Mechanisms, Switches};
pub use owner::{start_time_ticks, stat_field};
pub use page::{Header, PAGE_BYTES, PAGE_WORDS, PageError, PageView};
pub use phase::{Percentile, Phase, PhaseReads};
pub use snapshot::Snapshot;
pub use switch::{Answer, Outcome, Request};
pub use tax::{DeviceReadTax, PhaseFigures, RatioEstimate};
