//! Eviction: when to drop cold pages, how many, and which ones.
//!
//! When: before the room under a limit is used up. The limit is that of the tightest memory cgroup around
//! the process, or the memory of a NUMA node. The kernel reclaims below the `low` watermark of a node's
//! zones, and the next thread that allocates pays for it. So cold pages are dropped a little earlier.
//!
//! Which: in the order of [`Level`]. A range that was read in the present epoch of heat, or in the last
//! one, is never dropped.

mod hand;
mod plan;
mod room;
#[cfg(test)]
mod tests;

pub use hand::{Extent, Hand, Level, OVERLAP_BYTES, RUN_BYTES, SPAN_BYTES, cold_runs};
pub use plan::{Budget, Decision, Plan, SLEEP_MILLISECONDS_MAX, SLEEP_MILLISECONDS_MIN};
pub use room::{Margin, Nodes, Room, parse_clean_file_bytes, tightest};

/// Bytes of a page, the unit of heat.
const PAGE_BYTES: u64 = 4096;
