//! Eviction: when cold pages are to be dropped, how many, and which ones.
//!
//! When: before the room under a limit is used up. The limit is that of the tightest memory cgroup
//! around the process, or a node's pages, of which the kernel begins to reclaim at the `low`
//! watermark of its zones. Whoever allocates first after that pays for the reclaim; so pages that
//! nobody reads go a little earlier.
//!
//! Which: in the order of [`Level`]. Never a range that has been read in the present epoch of heat
//! or the last one.

mod hand;
mod plan;
mod room;
#[cfg(test)]
mod tests;

pub use hand::{Hand, Level, OVERLAP_BYTES, Place, RUN_BYTES, SPAN_BYTES, cold_runs};
pub use plan::{Budget, Decision, Plan, SLEEP_MILLISECONDS_MAX, SLEEP_MILLISECONDS_MIN};
pub use room::{Margin, Nodes, Room, parse_clean_file_bytes, tightest};

/// Bytes of a page, in which heat is counted.
const PAGE_BYTES: u64 = 4096;
