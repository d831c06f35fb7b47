//! Background I/O slows down while it makes the foreground's device reads slower
//! ([`coldstream_policy::pacing`]).
//!
//! The signal: some of the foreground's reads of tables are timed. The brake: a background thread
//! waits before a read or a write, with nothing of ours held, and takes what it moved out of a bucket
//! that all share. Nobody has a thread for this: background threads move the controller on while
//! they work; who does not work needs none.
//!
//! What never waits: a flush; a sync or a close; a read near a table's end, which is where a table's
//! opening reads, under an engine's lock that readers of the same table wait for.

use crate::reads;
use crate::runtime::Runtime;
use crate::thread;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::lock::FutexLock;
use coldstream_io::sys::{file, process};
use coldstream_policy::pacing::{
    Bucket, LATENCY_BUCKETS, Latencies, Observed, Pace, Pacer, TICK_NS, latency_bucket,
};
use coldstream_policy::{Config, Role};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The longest that a thread sleeps before it looks again whether it still has to, in nanoseconds.
const SLEEP_NS_MAX: u64 = 100_000_000;
/// The longest that one call waits.
const WAIT_NS_MAX: u64 = 1_000_000_000;
/// So many timed reads are remembered while no background thread works; then the older ones fade.
const READS_REMEMBERED: u32 = 1024;
/// Of a table at least so much, or one part in so many, is its end.
const END_BYTES_MIN: u64 = 1 << 20;
const END_SHARE: u64 = 16;

/// All-zero memory is one that is off.
#[repr(C)]
pub(crate) struct Pacing {
    /// Bytes per second; 0 is no pacing at all.
    floor: AtomicU64,
    /// What is in force: bytes per second, and bytes; 0 is no limit.
    bytes_per_second: AtomicU64,
    request_bytes: AtomicUsize,
    ticked_ns: AtomicU64,
    bucket: Bucket,
    /// The foreground's device reads since the last tick.
    reads: [AtomicU32; LATENCY_BUCKETS],
    reads_unseen: AtomicU32,
    /// Bytes since the last tick.
    background_bytes: AtomicU64,
    compacted_bytes: AtomicU64,
    flushed_bytes: AtomicU64,
    /// By the clock of [`monotonic_ns`](process::monotonic_ns).
    busy_until_ns: AtomicU64,
    pacer: FutexLock<Pacer>,
}

impl Pacing {
    pub(crate) fn open(&self, config: &Config) {
        if config.pacing {
            self.floor
                .store(config.pacing_floor_bytes(), Ordering::Relaxed);
        }
    }

    /// The largest request of a write; 0 is as it comes.
    pub(crate) fn request_bytes(&self) -> usize {
        self.request_bytes.load(Ordering::Relaxed)
    }

    fn note_device_read(&self, bucket: usize) {
        if let Some(count) = self.reads.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if self.reads_unseen.fetch_add(1, Ordering::Relaxed) >= READS_REMEMBERED {
            self.reads_unseen
                .store(READS_REMEMBERED / 2, Ordering::Relaxed);
            for count in &self.reads {
                // Another thread's read may be lost.
                count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }

    fn take_reads(&self) -> Option<Latencies> {
        if self.reads_unseen.swap(0, Ordering::Relaxed) == 0 {
            return None;
        }
        let mut latencies = Latencies::default();
        for (bucket, count) in self.reads.iter().enumerate() {
            latencies.add(bucket, count.swap(0, Ordering::Relaxed));
        }
        Some(latencies)
    }
}

/// What a background thread moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    Read,
    Written,
}

impl Runtime {
    /// Whether background I/O is paced.
    pub(crate) fn paces(&self) -> bool {
        self.pacing.floor.load(Ordering::Relaxed) != 0 && self.switches.is_on(Mechanism::Pacing)
    }

    /// A foreground read of a table took so long, by the clock of
    /// [`monotonic_ns`](process::monotonic_ns).
    #[cold]
    pub(crate) fn note_timed_read(&self, ns: u64) {
        self.count(Counter::ForegroundReadsTimed, 1);
        if let Some(bucket) = latency_bucket(ns) {
            thread::time_next_reads();
            self.pacing.note_device_read(bucket);
            self.count(Counter::of_device_read(ns), 1);
        }
    }

    /// Before the calling thread reads a table at `offset` in the background.
    pub(crate) fn pace_read(&self, descriptor: i32, offset: i64) {
        if self.paces() && thread::role() != Role::Foreground {
            let may_wait = || !is_near_end(descriptor, offset.max(0) as u64);
            self.pace(may_wait);
        }
    }

    /// Before the calling thread writes a table.
    pub(crate) fn pace_write(&self) {
        if self.paces() && thread::writes_what_it_read() {
            self.pace(|| true);
        }
    }

    /// The calling thread has moved bytes of tables, in the background.
    pub(crate) fn note_paced(&self, moved: Moved, bytes: u64) {
        if moved == Moved::Read {
            thread::note_read_for_writing(bytes);
        }
        if bytes == 0 || !self.paces() {
            return;
        }
        let role = thread::role();
        let counts = moved == Moved::Read || thread::writes_what_it_read();
        if role == Role::Foreground || !counts {
            return;
        }
        let pacing = &self.pacing;
        self.count(Counter::PacingBytes, bytes);
        pacing.background_bytes.fetch_add(bytes, Ordering::Relaxed);
        if role == Role::Compaction {
            pacing.compacted_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let rate = pacing.bytes_per_second.load(Ordering::Relaxed);
        if rate != 0 {
            pacing.bucket.take(bytes, rate, process::monotonic_ns());
        }
    }

    /// The calling thread is about to close a table that it wrote.
    pub(crate) fn note_written(&self, descriptor: i32) {
        let is_flush = match thread::role() {
            Role::Flush => true,
            // RocksDB without threads of high priority flushes in those of low priority.
            Role::Compaction => !thread::writes_what_it_read(),
            Role::Foreground | Role::Validation | Role::Streaming => false,
        };
        if is_flush
            && self.paces()
            && let Ok(stamp) = file::stamp(descriptor)
        {
            self.count(Counter::FlushedBytes, stamp.size_bytes);
            self.pacing
                .flushed_bytes
                .fetch_add(stamp.size_bytes, Ordering::Relaxed);
        }
    }

    /// The calling thread has just ended what moves no bytes and may take long, a sync or a handover: meanwhile it did
    /// not rest.
    pub(crate) fn note_busy(&self) {
        // RocksDB may flush in the same threads, and of that no bytes are counted either.
        if self.paces() && thread::role() == Role::Compaction && thread::writes_what_it_read() {
            let now_ns = process::monotonic_ns();
            self.pacing
                .busy_until_ns
                .fetch_max(now_ns, Ordering::Relaxed);
        }
    }

    /// Lets everything go, since pacing is switched off. Needs no thread-local storage: the control thread
    /// calls it.
    pub(crate) fn release_brake(&self) {
        self.put_pace(Pace::default());
        self.pacing.bucket.open();
        // When it is switched on again they would be taken for reads at rest.
        let _ = self.pacing.take_reads();
    }

    fn put_pace(&self, pace: Pace) {
        let pacing = &self.pacing;
        pacing
            .bytes_per_second
            .store(pace.bytes_per_second, Ordering::Relaxed);
        pacing
            .request_bytes
            .store(pace.request_bytes, Ordering::Relaxed);
        self.scanner
            .limit_requests(pace.request_bytes, pace.in_flight);
        if let Some(page) = self.page() {
            page.set(Counter::PacingBytesPerSecond, pace.bytes_per_second);
            page.set(Counter::PacingRequestBytes, pace.request_bytes as u64);
        }
    }

    fn pace(&self, may_wait: impl FnOnce() -> bool) {
        // Nothing may unwind into the database.
        let paced = catch_unwind(AssertUnwindSafe(|| {
            let now = process::monotonic_ns();
            self.tick(now);
            if self.must_wait_ns(now) > 0 && may_wait() {
                self.wait(now);
            }
        }));
        if paced.is_err() {
            reads::note_panic(self);
            self.pacing.floor.store(0, Ordering::Relaxed);
            self.release_brake();
        }
    }

    fn must_wait_ns(&self, now_ns: u64) -> u64 {
        match self.pacing.bytes_per_second.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.pacing.bucket.wait_ns(now_ns),
        }
    }

    #[cold]
    fn wait(&self, begun_ns: u64) {
        let mut now = begun_ns;
        loop {
            let wait = self.must_wait_ns(now).min(SLEEP_NS_MAX);
            if wait == 0 || now.saturating_sub(begun_ns) >= WAIT_NS_MAX || !self.paces() {
                break;
            }
            // A signal ends it early: the time that is left is slept the next time round.
            process::sleep_until(now.saturating_add(wait));
            now = process::monotonic_ns();
            self.tick(now);
        }
        self.count(Counter::PacingWaits, 1);
        self.count(Counter::PacingNanoseconds, now.saturating_sub(begun_ns));
    }

    /// Moves the controller on, if it is time and nobody else does.
    fn tick(&self, now_ns: u64) {
        let pacing = &self.pacing;
        if now_ns.wrapping_sub(pacing.ticked_ns.load(Ordering::Relaxed)) < TICK_NS {
            return;
        }
        let Some(mut pacer) = pacing.pacer.try_lock() else {
            return;
        };
        pacing.ticked_ns.store(now_ns, Ordering::Relaxed);
        let reads = pacing.take_reads();
        let observed = Observed {
            reads: reads.as_ref(),
            background_bytes: pacing.background_bytes.swap(0, Ordering::Relaxed),
            compacted_bytes: pacing.compacted_bytes.swap(0, Ordering::Relaxed),
            flushed_bytes: pacing.flushed_bytes.swap(0, Ordering::Relaxed),
            busy_until_ns: pacing.busy_until_ns.load(Ordering::Relaxed),
        };
        let pace = pacer.tick(now_ns, &observed, pacing.floor.load(Ordering::Relaxed));
        let figures = pacer.figures();
        self.put_pace(pace);
        drop(pacer);
        if let Some(page) = self.page() {
            page.set(Counter::PacingBrakes, figures.brakes);
            page.set(Counter::PacingReleases, figures.releases);
            page.set(Counter::PacingDebtBytes, figures.debt_bytes);
            page.set(Counter::PacingIdleNanoseconds, figures.idle_ns);
        }
        if !self.switches.is_on(Mechanism::Pacing) {
            // The control thread may have let go before this put it on again.
            self.release_brake();
        }
    }
}

/// Whether a read is near the end of its table.
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
        assert!(pacing.take_reads().is_none());
        let mut pacer = pacing.pacer.try_lock().unwrap();
        let pace = pacer.tick(7, &Observed::default(), 1 << 20);
        assert_eq!(pace, Pace::default());
    }

    #[test]
    fn many_reads_fade_while_nobody_looks() {
        let pacing = zeroed();
        let (old, new) = (
            latency_bucket(100_000).unwrap(),
            latency_bucket(900_000).unwrap(),
        );
        for _ in 0..READS_REMEMBERED {
            pacing.note_device_read(old);
        }
        for _ in 0..4 * READS_REMEMBERED {
            pacing.note_device_read(new);
        }
        let reads = pacing.take_reads().unwrap();
        assert!(reads.count() <= READS_REMEMBERED + 1, "{}", reads.count());
        assert!(reads.mean_ns(u64::MAX) > 800_000);
        assert!(pacing.take_reads().is_none());
    }

    #[test]
    fn a_tables_end_is_where_its_opening_reads() {
        assert!(is_within_end(100, 0), "a small one is all end");
        assert!(!is_within_end(64 << 20, (60 << 20) - 1));
        assert!(is_within_end(64 << 20, 60 << 20));
        assert!(is_within_end(64 << 20, u64::MAX));
        assert!(!is_within_end(8 << 20, 6 << 20));
    }
}
