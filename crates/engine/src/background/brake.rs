//! The brake: a bucket of bytes that all background threads share. A thread that has moved bytes takes them out, and
//! waits before its next read or write until the bucket has been filled again.

use coldstream_io::sys::process;
use coldstream_policy::background::Bucket;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest sleep until a thread checks again whether it must wait, in nanoseconds.
const SLEEP_NS_MAX: u64 = 100_000_000;
/// The longest wait of one call, in nanoseconds.
const WAIT_NS_MAX: u64 = 1_000_000_000;

/// All-zero memory is a brake that is released.
#[repr(C)]
pub(super) struct Brake {
    /// The rate in force, in bytes per second; 0 is no limit.
    bytes_per_second: AtomicU64,
    bucket: Bucket,
}

impl Brake {
    /// The rate in force, in bytes per second; 0 is no limit.
    pub(super) fn rate(&self) -> u64 {
        self.bytes_per_second.load(Ordering::Relaxed)
    }

    /// Puts a rate in force.
    pub(super) fn set_rate(&self, bytes_per_second: u64) {
        self.bytes_per_second
            .store(bytes_per_second, Ordering::Relaxed);
    }

    /// Forgets what was taken: a limit that comes later begins anew.
    pub(super) fn open(&self) {
        self.bucket.open();
    }

    /// The calling thread has moved bytes.
    pub(super) fn take(&self, bytes: u64) {
        let rate = self.rate();
        if rate != 0 {
            self.bucket.take(bytes, rate, process::monotonic_ns());
        }
    }

    /// How long the calling thread must wait now, in nanoseconds.
    pub(super) fn wait_ns(&self, now_ns: u64) -> u64 {
        match self.rate() {
            0 => 0,
            _ => self.bucket.wait_ns(now_ns),
        }
    }

    /// Waits as long as the calling thread must, while `is_on`, but no longer than [`WAIT_NS_MAX`]. Calls `tick` with
    /// the time after each sleep. Returns the time of its end.
    pub(super) fn wait(
        &self,
        started_ns: u64,
        is_on: impl Fn() -> bool,
        tick: impl Fn(u64),
    ) -> u64 {
        let mut now = started_ns;
        loop {
            let wait = self.wait_ns(now).min(SLEEP_NS_MAX);
            if wait == 0 || now.saturating_sub(started_ns) >= WAIT_NS_MAX || !is_on() {
                return now;
            }
            // A signal ends the sleep early: the next round sleeps the rest.
            process::sleep_ns(wait);
            now = process::monotonic_ns();
            tick(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A brake with an empty bucket.
    fn held() -> Brake {
        // SAFETY: all-zero memory is a valid one: atomics.
        let brake: Brake = unsafe { std::mem::zeroed() };
        brake.set_rate(1 << 20);
        brake.take(1 << 30);
        brake
    }

    #[test]
    fn no_wait_is_longer_than_a_second() {
        let (brake, sleeps) = (held(), Cell::new(0));
        let started_ns = process::monotonic_ns();
        // Others go on to move bytes meanwhile.
        let tick = |_| {
            brake.take(1 << 30);
            sleeps.set(sleeps.get() + 1);
        };
        let ended_ns = brake.wait(started_ns, || true, tick);
        assert!(brake.wait_ns(ended_ns) > 0, "it gave up");
        let waited_ns = ended_ns - started_ns;
        assert!(
            waited_ns < 2 * WAIT_NS_MAX && sleeps.get() > 1,
            "{waited_ns}"
        );
    }

    #[test]
    fn a_wait_ends_when_the_brake_is_released() {
        let brake = held();
        let started_ns = process::monotonic_ns();
        let ended_ns = brake.wait(started_ns, || true, |_| brake.set_rate(0));
        assert!(ended_ns - started_ns < WAIT_NS_MAX);
        assert_eq!(held().wait(7, || false, |_| ()), 7, "pacing is off");
    }
}
