//! The input of the controller, and its units.

use super::latency::Latencies;

/// Nanoseconds of a second.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// The events since the last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed<'a> {
    /// Latencies of the foreground's timed device reads; `None` if there were none.
    pub reads: Option<&'a Latencies>,
    /// Bytes that background I/O moved.
    pub background_bytes: u64,
    /// The part of these bytes that compactions moved.
    pub compacted_bytes: u64,
    /// Bytes that memtable flushes wrote.
    pub flushed_bytes: u64,
    /// The end of the last long background work without bytes (a sync, a handover), by the clock of the
    /// ticks; 0 is never. While such work goes on, it looks like a rest.
    pub busy_until_ns: u64,
    /// Processor time of the background threads that have a lower priority.
    pub processor: ProcessorTime,
}

/// Processor time of threads, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ProcessorTime {
    /// Time on a processor.
    pub run_ns: u64,
    /// Time in which they were ready to run, and waited for a processor.
    pub wait_ns: u64,
}

impl ProcessorTime {
    /// Both together.
    pub fn wanted_ns(self) -> u64 {
        self.run_ns.saturating_add(self.wait_ns)
    }

    /// Whether it is more than threads need that wake up now and then: 1 ms.
    pub fn is_work(self) -> bool {
        self.wanted_ns() >= SECOND_NS / 1000
    }

    /// The sum with another one.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            run_ns: self.run_ns.saturating_add(other.run_ns),
            wait_ns: self.wait_ns.saturating_add(other.wait_ns),
        }
    }
}

/// The rate of `bytes` in `elapsed_ns`, in bytes per second.
pub(super) fn per_second(bytes: u64, elapsed_ns: u64) -> u64 {
    let per_second = u128::from(bytes) * u128::from(SECOND_NS) / u128::from(elapsed_ns.max(1));
    u64::try_from(per_second).unwrap_or(u64::MAX)
}
