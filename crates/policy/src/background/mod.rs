//! One controller decides what background work may do: its pace, and whether its threads may have a lower
//! priority.
//!
//! - Pacing ([`Pace`]): background I/O slows down while it makes the foreground's device reads slower than
//!   they are on an idle device. Otherwise it goes as fast as it can.
//! - Priority: background threads get their former priorities back while they wait for processors for long.
//! - Both stop while compactions are behind flushes. There is one debt for both.
//!
//! [`Controller::tick`] gets the time and the events since the last tick. [`Bucket`] makes threads keep to
//! the pace. Neither reads a clock.
//!
//! The signal of pacing is the mean latency. Each latency is cut off at eight times the idle level. A few
//! dozen reads are sampled: their p99 would be a single read. The mean includes each read that had to queue.

mod bucket;
mod controller;
mod debt;
mod guard;
mod latency;
mod observed;
mod pacer;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use bucket::{BURST_NS, Bucket};
pub use controller::{Controller, Decision, Figures};
pub use latency::{LATENCY_BUCKETS, Latencies, MEMORY_NS, latency_bucket, latency_range_ns};
pub use observed::{Observed, ProcessorTime};
pub use pacer::{FLOOR_MAX, FLOOR_MIN, Pace, REQUEST_BYTES_MAX, TICK_NS};
