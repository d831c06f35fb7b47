//! Background I/O slows down while it makes the foreground's device reads slower
//! ([`coldstream_policy::pacing`]).
//!
//! The signal: some foreground reads of SSTables are timed.
//!
//! The brake: a background thread waits before a read or a write. It holds no lock of ours then. After the
//! call it takes the bytes that it moved out of a bucket, which all threads share.
//!
//! Pacing has no thread of its own. Background threads advance the controller while they work. While none
//! works, the controller is not needed.
//!
//! These never wait: a flush, a sync, a close, and a read near a file's end. The engine reads there when it
//! opens an SSTable, and holds a lock that readers of the same SSTable wait for.

mod device_reads;

use crate::core::Core;
use crate::thread;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::lock::FutexLock;
use coldstream_io::sys::{file, process};
use coldstream_policy::pacing::{Bucket, Observed, Pace, Pacer, TICK_NS, latency_bucket};
use coldstream_policy::{Config, Role};
use device_reads::DeviceReads;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest sleep until a thread checks again whether it must wait, in nanoseconds.
const SLEEP_NS_MAX: u64 = 100_000_000;
/// The longest wait of one call, in nanoseconds.
const WAIT_NS_MAX: u64 = 1_000_000_000;
/// The end of a file is its last MiB, or its last sixteenth if that is more.
const END_BYTES_MIN: u64 = 1 << 20;
const END_SHARE: u64 = 16;

/// All-zero memory is off.
#[repr(C)]
pub(crate) struct Pacing {
    /// Bytes per second; 0 is no pacing at all.
    floor: AtomicU64,
    /// The rate in force, in bytes per second; 0 is no limit.
    bytes_per_second: AtomicU64,
    ticked_ns: AtomicU64,
    bucket: Bucket,
    /// The foreground's device reads since the last tick.
    reads: DeviceReads,
    /// Bytes since the last tick.
    background_bytes: AtomicU64,
    compacted_bytes: AtomicU64,
    flushed_bytes: AtomicU64,
    /// A time of the clock [`monotonic_ns`](process::monotonic_ns).
    busy_until_ns: AtomicU64,
    pacer: FutexLock<Pacer>,
}

/// The kind of bytes that a background thread moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    Read,
    Written,
}

impl Pacing {
    pub(crate) fn open(&self, config: &Config) {
        if config.pacing {
            self.floor
                .store(config.pacing_floor_bytes(), Ordering::Relaxed);
        }
    }

    /// Whether background I/O is paced.
    #[inline]
    pub(crate) fn is_on(&self, core: &Core) -> bool {
        self.floor.load(Ordering::Relaxed) != 0 && core.is_on(Mechanism::Pacing)
    }

    /// A foreground read of an SSTable took `ns`, by the clock of
    /// [`monotonic_ns`](process::monotonic_ns). Returns whether it came from the device.
    pub(crate) fn record_timed_read(&self, core: &Core, ns: u64) -> bool {
        core.count(Counter::ForegroundReadsTimed, 1);
        let Some(bucket) = latency_bucket(ns) else {
            return false;
        };
        self.reads.record(bucket);
        core.count(Counter::of_device_read(ns), 1);
        true
    }

    /// Waits, if it must, before the calling thread reads an SSTable at `offset` in the background.
    pub(crate) fn wait_to_read(&self, core: &Core, descriptor: i32, offset: i64) {
        if self.is_on(core) && thread::role() != Role::Foreground {
            let may_wait = || !is_near_end(descriptor, offset.max(0) as u64);
            self.pace(core, may_wait);
        }
    }

    /// Waits, if it must, before the calling thread writes an SSTable.
    pub(crate) fn wait_to_write(&self, core: &Core) {
        if self.is_on(core) && thread::writes_what_it_read() {
            self.pace(core, || true);
        }
    }

    /// The calling thread has moved bytes of SSTables in the background.
    pub(crate) fn record_moved(&self, core: &Core, moved: Moved, bytes: u64) {
        if bytes == 0 || !self.is_on(core) {
            return;
        }
        let role = thread::role();
        let counts = moved == Moved::Read || thread::writes_what_it_read();
        if role == Role::Foreground || !counts {
            return;
        }
        core.count(Counter::PacingBytes, bytes);
        self.background_bytes.fetch_add(bytes, Ordering::Relaxed);
        if role == Role::Compaction {
            self.compacted_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let rate = self.bytes_per_second.load(Ordering::Relaxed);
        if rate != 0 {
            self.bucket.take(bytes, rate, process::monotonic_ns());
        }
    }

    /// The calling thread is about to close an SSTable that it wrote: counts a flush.
    pub(crate) fn record_flush(&self, core: &Core, descriptor: i32) {
        let is_flush = match thread::role() {
            Role::Flush => true,
            // RocksDB without threads of high priority flushes in those of low priority.
            Role::Compaction => !thread::writes_what_it_read(),
            Role::Foreground | Role::Validation | Role::Streaming => false,
        };
        if is_flush
            && self.is_on(core)
            && let Ok(stamp) = file::stamp(descriptor)
        {
            core.count(Counter::FlushedBytes, stamp.size_bytes);
            self.flushed_bytes
                .fetch_add(stamp.size_bytes, Ordering::Relaxed);
        }
    }

    /// The calling thread has just ended a sync or a handover. It moves no bytes and may take long: the
    /// thread did not rest meanwhile.
    pub(crate) fn record_busy(&self, core: &Core) {
        // RocksDB may flush in the same threads, and bytes of flushes are not counted.
        if self.is_on(core) && thread::role() == Role::Compaction && thread::writes_what_it_read() {
            let now_ns = process::monotonic_ns();
            self.busy_until_ns.fetch_max(now_ns, Ordering::Relaxed);
        }
    }

    /// Releases the brake, since pacing is switched off. Needs no thread-local storage: the control thread
    /// calls it.
    pub(crate) fn release_brake(&self, core: &Core) {
        self.set_pace(core, Pace::default());
        self.bucket.open();
        // Otherwise, after the next switch, these reads would count as reads without background I/O.
        let _ = self.reads.take();
    }

    fn set_pace(&self, core: &Core, pace: Pace) {
        self.bytes_per_second
            .store(pace.bytes_per_second, Ordering::Relaxed);
        core.limit_requests(pace.request_bytes, pace.in_flight);
        if let Some(page) = core.page() {
            page.set(Counter::PacingBytesPerSecond, pace.bytes_per_second);
            page.set(Counter::PacingRequestBytes, pace.request_bytes as u64);
        }
    }

    fn pace(&self, core: &Core, may_wait: impl FnOnce() -> bool) {
        let paced = core.protect(|| {
            let now = process::monotonic_ns();
            self.tick(core, now);
            if self.must_wait_ns(now) > 0 && may_wait() {
                self.wait(core, now);
            }
        });
        if paced.is_none() {
            self.floor.store(0, Ordering::Relaxed);
            self.release_brake(core);
        }
    }

    fn must_wait_ns(&self, now_ns: u64) -> u64 {
        match self.bytes_per_second.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.bucket.wait_ns(now_ns),
        }
    }

    #[cold]
    fn wait(&self, core: &Core, started_ns: u64) {
        let mut now = started_ns;
        loop {
            let wait = self.must_wait_ns(now).min(SLEEP_NS_MAX);
            if wait == 0 || now.saturating_sub(started_ns) >= WAIT_NS_MAX || !self.is_on(core) {
                break;
            }
            // A signal ends the sleep early: the next round sleeps the rest.
            process::sleep_until(now.saturating_add(wait));
            now = process::monotonic_ns();
            self.tick(core, now);
        }
        core.count(Counter::PacingWaits, 1);
        core.count(Counter::PacingNanoseconds, now.saturating_sub(started_ns));
    }

    /// Advances the controller, if it is time and no other thread does.
    fn tick(&self, core: &Core, now_ns: u64) {
        if now_ns.wrapping_sub(self.ticked_ns.load(Ordering::Relaxed)) < TICK_NS {
            return;
        }
        let Some(mut pacer) = self.pacer.try_lock() else {
            return;
        };
        self.ticked_ns.store(now_ns, Ordering::Relaxed);
        let reads = self.reads.take();
        let observed = Observed {
            reads: reads.as_ref(),
            background_bytes: self.background_bytes.swap(0, Ordering::Relaxed),
            compacted_bytes: self.compacted_bytes.swap(0, Ordering::Relaxed),
            flushed_bytes: self.flushed_bytes.swap(0, Ordering::Relaxed),
            busy_until_ns: self.busy_until_ns.load(Ordering::Relaxed),
        };
        let pace = pacer.tick(now_ns, &observed, self.floor.load(Ordering::Relaxed));
        let figures = pacer.figures();
        self.set_pace(core, pace);
        drop(pacer);
        if let Some(page) = core.page() {
            page.set(Counter::PacingBrakes, figures.brakes);
            page.set(Counter::PacingReleases, figures.releases);
            page.set(Counter::PacingDebtBytes, figures.debt_bytes);
            page.set(Counter::PacingIdleNanoseconds, figures.idle_ns);
        }
        if !core.is_on(Mechanism::Pacing) {
            // The control thread may have released the brake before this put it on again.
            self.release_brake(core);
        }
    }
}

/// Whether a read is near the end of its file.
fn is_near_end(descriptor: i32, offset: u64) -> bool {
    file::stamp(descriptor).map_or(true, |stamp| is_within_end(stamp.size_bytes, offset))
}

fn is_within_end(size_bytes: u64, offset: u64) -> bool {
    let end_bytes = END_BYTES_MIN.max(size_bytes / END_SHARE);
    offset >= size_bytes.saturating_sub(end_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed() -> Box<Pacing> {
        // SAFETY: all-zero memory is a valid one: atomics, a futex lock, and numbers in it.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[test]
    fn zeros_are_a_pacing_that_is_off() {
        let pacing = zeroed();
        assert_eq!(pacing.floor.load(Ordering::Relaxed), 0);
        assert!(pacing.reads.take().is_none());
        let mut pacer = pacing.pacer.try_lock().unwrap();
        let pace = pacer.tick(7, &Observed::default(), 1 << 20);
        assert_eq!(pace, Pace::default());
    }

    #[test]
    fn the_end_of_a_file_is_where_its_open_reads() {
        assert!(is_within_end(100, 0), "a small one is all end");
        assert!(!is_within_end(64 << 20, (60 << 20) - 1));
        assert!(is_within_end(64 << 20, 60 << 20));
        assert!(is_within_end(64 << 20, u64::MAX));
        assert!(!is_within_end(8 << 20, 6 << 20));
    }
}
