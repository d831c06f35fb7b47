//! Pacing: background I/O slows down while it makes the foreground's device reads slower than they are on
//! an idle device. Otherwise it goes as fast as it can.
//!
//! [`Pacer::tick`] gets the time and the events since the last tick. It returns the pace of background I/O.
//! [`Bucket`] makes threads keep to it. Neither reads a clock.
//!
//! The signal is the mean latency. Each latency is cut off at eight times the idle level. A few dozen reads
//! are sampled: their p99 would be a single read. The mean includes each read that had to queue.

mod bucket;
mod debt;
mod latency;
mod observed;
mod pacer;
// Simulated seconds are hours under Miri, and there is no unsafe code to check.
#[cfg(all(test, not(miri)))]
mod simulation;
#[cfg(all(test, not(miri)))]
mod tests;

pub use bucket::{BURST_NS, Bucket};
pub use latency::{LATENCY_BUCKETS, Latencies, MEMORY_NS, latency_bucket};
pub use observed::Observed;
pub use pacer::{FLOOR_MAX, FLOOR_MIN, Figures, Pace, Pacer, REQUEST_BYTES_MAX, TICK_NS};
