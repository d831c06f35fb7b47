//! The input of the controller, and its units.

use super::latency::Latencies;

/// Nanoseconds of a second.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// The events since the last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed<'a> {
    /// Latencies of the foreground's timed device reads; `None` if there were none.
    pub reads: Option<&'a Latencies>,
    /// Bytes that paced background I/O moved.
    pub background_bytes: u64,
    /// The part of these bytes that compactions moved.
    pub compacted_bytes: u64,
    /// Bytes that memtable flushes wrote.
    pub flushed_bytes: u64,
    /// The end of the last long background work without bytes (a sync, a handover), by the clock of the
    /// ticks; 0 is never. While such work goes on, it looks like a rest.
    pub busy_until_ns: u64,
}

/// The rate of `bytes` in `elapsed_ns`, in bytes per second.
pub(super) fn per_second(bytes: u64, elapsed_ns: u64) -> u64 {
    let per_second = u128::from(bytes) * u128::from(SECOND_NS) / u128::from(elapsed_ns.max(1));
    u64::try_from(per_second).unwrap_or(u64::MAX)
}
