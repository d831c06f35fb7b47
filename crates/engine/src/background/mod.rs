//! What background work may do at present ([`coldstream_policy::background`]): its pace, and whether its
//! threads may have a lower priority.
//!
//! The signals:
//!
//! - some foreground reads of SSTables are timed, for pacing;
//! - bytes of flushes and compactions are counted;
//! - background threads take the time that they wait for processors.
//!
//! With the brake (`brake.rs`) a background thread waits before a read or a write. It holds no lock of ours then. After
//! the call it takes the bytes that it moved out of a bucket.
//!
//! With pacing, background threads advance the controller while they work. The guard of priority is advanced
//! by the control thread, five times a second. While no background thread works, nobody needs the controller.
//!
//! These never wait: a flush, a sync, a close, and a read near a file's end (`file_end.rs`).

mod brake;
mod device_reads;
mod file_end;
mod tally;
mod work_clock;

use crate::core::Core;
use crate::thread;
use brake::Brake;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::lock::FutexLock;
use coldstream_io::sys::{file, process};
use coldstream_policy::background::{
    Controller, Decision, Observed, Pace, TICK_NS, latency_bucket,
};
use coldstream_policy::{Config, PriorityMode, Role};
use device_reads::DeviceReads;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tally::Tally;
use work_clock::WorkClock;

/// The control thread stops looking after this time without background work, in nanoseconds. It is longer
/// than the rest after which the controller begins anew.
const WATCH_NS: u64 = 3_000_000_000;

/// All-zero memory is off.
#[repr(C)]
pub struct Background {
    /// Bytes per second; 0 is no pacing at all.
    floor: AtomicU64,
    /// Whether priority and handover end, or are limited, while compactions are behind.
    has_guard: AtomicBool,
    /// Whether there are handovers.
    has_handover: AtomicBool,
    /// The control thread advances the controller. Otherwise it sleeps until background work begins.
    is_watched: AtomicBool,
    ticked_ns: AtomicU64,
    brake: Brake,
    /// The foreground's device reads since the last tick.
    reads: DeviceReads,
    /// What background threads did since the last tick.
    tally: Tally,
    /// The time of the last background work that the control thread found, by the clock
    /// [`monotonic_ns`](process::monotonic_ns).
    worked_ns: AtomicU64,
    /// When they worked last, but for flushes.
    work_clock: WorkClock,
    controller: FutexLock<Controller>,
}

/// A foreground read of an SSTable that was timed.
#[derive(Clone, Copy)]
pub struct TimedRead {
    /// Its number chose it, and not a read before it.
    pub stands_for_all: bool,
    /// How long it took.
    pub ns: u64,
    /// When it ended, by the clock of [`monotonic_ns`](process::monotonic_ns).
    pub ended_ns: u64,
}

/// What the control thread is to do until it looks again.
pub struct Watched {
    /// Background threads should have the priority that the application gave them.
    pub is_behind: bool,
    /// Background work goes on: look again soon.
    pub goes_on: bool,
}

/// The kind of bytes that a background thread moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// From SSTables.
    Read,
    /// To SSTables.
    Written,
}

impl Background {
    /// Takes the configuration. To be called once, before the first file is tracked.
    pub fn open(&self, config: &Config) {
        let has_guard = match config.priority {
            PriorityMode::Auto | PriorityMode::Off => true,
            PriorityMode::ReadsFirst | PriorityMode::Always => false,
        };
        self.has_guard.store(has_guard, Ordering::Relaxed);
        let has_handover = config.handover;
        self.has_handover.store(has_handover, Ordering::Relaxed);
        if config.pacing {
            self.floor
                .store(config.pacing_floor_bytes(), Ordering::Relaxed);
        }
    }

    /// Whether background I/O is paced.
    #[inline]
    pub fn is_paced(&self, core: &Core) -> bool {
        self.floor.load(Ordering::Relaxed) != 0 && core.is_on(Mechanism::Pacing)
    }

    /// A foreground read of an SSTable was timed. Returns whether it came from the device.
    pub fn record_timed_read(&self, core: &Core, read: TimedRead) -> bool {
        core.count(Counter::ForegroundReadsTimed, 1);
        let bucket = latency_bucket(read.ns);
        if let Some(page) = core.page()
            && let Some(phase) = self.work_clock.phase_at(read.ended_ns)
        {
            if read.stands_for_all {
                page.record_sampled_read(phase, bucket.is_some());
            }
            if let Some(bucket) = bucket {
                page.record_device_read(phase, bucket);
            }
        }
        let Some(bucket) = bucket else {
            return false;
        };
        if self.is_paced(core) {
            self.reads.record(bucket);
        }
        core.count(Counter::of_device_read(read.ns), 1);
        true
    }

    /// The calling thread, a background thread, reads or writes an SSTable, and does not flush.
    pub fn record_work(&self) {
        self.work_clock.record();
    }

    /// Waits, if it must, before the calling thread reads an SSTable at `offset` in the background.
    pub fn wait_to_read(&self, core: &Core, descriptor: i32, offset: i64) {
        if self.is_paced(core) && thread::role() != Role::Foreground {
            let may_wait = || !file_end::is_near(descriptor, offset.max(0) as u64);
            self.pace(core, may_wait);
        }
    }

    /// Waits, if it must, before the calling thread writes an SSTable.
    pub fn wait_to_write(&self, core: &Core) {
        if self.is_paced(core) && thread::writes_what_it_read() {
            self.pace(core, || true);
        }
    }

    /// Waits, if it must, before the calling thread moves bytes in the background by calls that are not seen. Returns
    /// how long, in nanoseconds.
    pub fn wait_for_permit(&self, core: &Core) -> u64 {
        if !self.is_paced(core) || matches!(thread::role(), Role::Foreground | Role::Flush) {
            return 0;
        }
        let started_ns = process::monotonic_ns();
        self.pace(core, || true);
        process::monotonic_ns().saturating_sub(started_ns)
    }

    /// Whether somebody must know that compactions are behind: priority's guard, or the handover.
    fn is_guarded(&self, core: &Core) -> bool {
        self.has_guard.load(Ordering::Relaxed)
            && (core.is_on(Mechanism::Priority)
                || self.has_handover.load(Ordering::Relaxed) && core.is_on(Mechanism::Handover))
    }

    /// Whether background work is counted for the controller.
    fn is_counted(&self, core: &Core) -> bool {
        self.is_paced(core) || self.is_guarded(core)
    }

    /// The calling thread has moved bytes of SSTables in the background.
    pub fn record_moved(&self, core: &Core, moved: Moved, bytes: u64) {
        if bytes == 0 || !self.is_counted(core) {
            return;
        }
        let role = thread::role();
        let counts = moved == Moved::Read || thread::writes_what_it_read();
        if role == Role::Foreground || !counts {
            return;
        }
        self.tally.record_moved(bytes, role);
        if !self.is_paced(core) {
            return;
        }
        core.count(Counter::PacingBytes, bytes);
        self.brake.take(bytes);
    }

    /// Runs a call by which a background thread reads or writes an SSTable. Before it and after it, takes the
    /// thread's processor time, if somebody must know it.
    #[inline]
    pub fn watch_call<T>(&self, core: &Core, call: impl FnOnce() -> T) -> T {
        self.ask_to_watch(core);
        if !self.is_watched.load(Ordering::Relaxed) {
            return call();
        }
        self.look_at_processor();
        let result = call();
        self.look_at_processor();
        result
    }

    fn look_at_processor(&self) {
        if let Some(time) = thread::look_at_processor(process::monotonic_ns()) {
            self.tally.record_processor(&time);
        }
    }

    /// Wakes the control thread, if it must watch and sleeps.
    #[inline]
    fn ask_to_watch(&self, core: &Core) {
        if !self.is_watched.load(Ordering::Relaxed)
            && self.is_guarded(core)
            && !self.is_watched.swap(true, Ordering::SeqCst)
        {
            core.wake_control_thread();
        }
    }

    /// The calling thread is about to close an SSTable that it wrote: counts a flush.
    pub fn record_flush(&self, core: &Core, descriptor: i32) {
        let is_flush = match thread::role() {
            Role::Flush => true,
            // RocksDB without threads of high priority flushes in those of low priority.
            Role::Compaction => !thread::writes_what_it_read(),
            Role::Foreground | Role::Validation | Role::Streaming => false,
        };
        if is_flush
            && self.is_counted(core)
            && let Ok(stamp) = file::stamp(descriptor)
        {
            core.count(Counter::FlushedBytes, stamp.size_bytes);
            self.tally.record_flushed(stamp.size_bytes);
        }
    }

    /// The calling thread has just ended a sync or a handover. It moves no bytes and may take long: the
    /// thread did not rest meanwhile.
    pub fn record_busy(&self, core: &Core) {
        // RocksDB may flush in the same threads, and bytes of flushes are not counted.
        if thread::role() != Role::Compaction || !thread::writes_what_it_read() {
            return;
        }
        self.record_work();
        if self.is_counted(core) {
            self.tally.record_busy(process::monotonic_ns());
        }
    }

    /// Releases the brake, since pacing is switched off. Needs no thread-local storage: the control thread
    /// calls it.
    pub fn release_brake(&self, core: &Core) {
        self.set_pace(core, Pace::default());
        self.brake.open();
        // Otherwise, after the next switch, these reads would count as reads without background I/O.
        let _ = self.reads.take();
    }

    fn set_pace(&self, core: &Core, pace: Pace) {
        self.brake.set_rate(pace.bytes_per_second);
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
            if self.brake.wait_ns(now) > 0 && may_wait() {
                self.wait(core, now);
            }
        });
        if paced.is_none() {
            self.floor.store(0, Ordering::Relaxed);
            self.release_brake(core);
        }
    }

    #[cold]
    fn wait(&self, core: &Core, started_ns: u64) {
        let is_on = || self.is_paced(core);
        let ended_ns = (self.brake).wait(started_ns, is_on, |now| self.tick(core, now));
        core.count(Counter::PacingWaits, 1);
        let waited_ns = ended_ns.saturating_sub(started_ns);
        core.count(Counter::PacingNanoseconds, waited_ns);
    }

    /// Advances the controller, if it is time and no other thread does.
    fn tick(&self, core: &Core, now_ns: u64) {
        if now_ns.wrapping_sub(self.ticked_ns.load(Ordering::Relaxed)) < TICK_NS {
            return;
        }
        let Some(mut controller) = self.controller.try_lock() else {
            return;
        };
        let reads = self.reads.take();
        let observed = Observed {
            reads: reads.as_ref(),
            ..self.tally.take()
        };
        let decision = self.advance(core, &mut controller, now_ns, &observed);
        drop(controller);
        self.follow(core, decision.pace);
    }

    /// Sets the pace that the controller has decided on, while pacing is on.
    fn follow(&self, core: &Core, pace: Pace) {
        self.set_pace(core, pace);
        if !core.is_on(Mechanism::Pacing) {
            // The control thread may have released the brake before this put it on again.
            self.release_brake(core);
        }
    }

    /// Whether the control thread must call [`Background::watch`] now.
    pub fn is_watched(&self, core: &Core) -> bool {
        self.is_watched.load(Ordering::SeqCst) && self.is_guarded(core)
    }

    /// Takes the processor time of background threads since the last call. Returns what the guard
    /// decides. Only the control thread calls this. Needs no thread-local storage.
    pub fn watch(&self, core: &Core) -> Watched {
        let now_ns = u64::try_from(process::clock_ns(libc::CLOCK_MONOTONIC)).unwrap_or(0);
        let processor = self.tally.take_processor();
        let mut controller = self.controller.lock();
        let observed = Observed {
            processor,
            ..self.tally.take()
        };
        let has_worked = observed.background_bytes > 0 || observed.flushed_bytes > 0;
        if has_worked || processor.is_work() {
            self.worked_ns.store(now_ns, Ordering::Relaxed);
        }
        let decision = self.advance(core, &mut controller, now_ns, &observed);
        drop(controller);
        // No background thread may be left to do so.
        self.follow(core, decision.pace);
        Watched {
            is_behind: decision.is_behind,
            goes_on: self.goes_on(now_ns),
        }
    }

    /// Whether the control thread must go on. If not, the next background work wakes it.
    fn goes_on(&self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.worked_ns.load(Ordering::Relaxed)) < WATCH_NS {
            return true;
        }
        self.is_watched.store(false, Ordering::SeqCst);
        let has_begun = self.tally.has_moved();
        self.is_watched.fetch_or(has_begun, Ordering::SeqCst) || has_begun
    }

    fn advance(
        &self,
        core: &Core,
        controller: &mut Controller,
        now_ns: u64,
        observed: &Observed<'_>,
    ) -> Decision {
        self.ticked_ns.store(now_ns, Ordering::Relaxed);
        let floor = self.floor.load(Ordering::Relaxed);
        let floor = self.is_paced(core).then_some(floor);
        let decision = controller.tick(now_ns, observed, floor);
        core.set_behind(decision.is_behind);
        let figures = controller.figures();
        if let Some(page) = core.page() {
            page.set(Counter::PacingBrakes, figures.brakes);
            page.set(Counter::PacingReleases, figures.releases);
            page.set(Counter::PacingDebtBytes, figures.debt_bytes);
            page.set(Counter::PacingIdleNanoseconds, figures.idle_ns);
            page.set(Counter::PriorityReleases, figures.priority_releases);
            page.add(Counter::BackgroundRunNanoseconds, observed.processor.run_ns);
            page.add(
                Counter::BackgroundWaitNanoseconds,
                observed.processor.wait_ns,
            );
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed() -> Box<Background> {
        // SAFETY: all-zero memory is a valid one: atomics, a futex lock, and numbers in it.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[test]
    fn zeros_are_a_pacing_that_is_off() {
        let background = zeroed();
        assert_eq!(background.floor.load(Ordering::Relaxed), 0);
        assert!(background.reads.take().is_none());
        let mut controller = background.controller.try_lock().unwrap();
        let decision = controller.tick(7, &Observed::default(), Some(1 << 20));
        assert_eq!(decision.pace, Pace::default());
        assert!(!decision.is_behind);
    }

    /// Otherwise a limit would stay when the last background thread has ended its work.
    #[test]
    fn who_watches_sets_the_pace() {
        let background = zeroed();
        let (core, _) = Core::with_file(3);
        let limited = Pace {
            bytes_per_second: 7,
            ..Pace::default()
        };
        background.set_pace(&core, limited);
        background.watch(&core);
        assert_eq!(background.brake.rate(), 0);
    }

    #[test]
    fn who_watches_goes_on_while_there_is_work() {
        let background = zeroed();
        background.is_watched.store(true, Ordering::Relaxed);
        assert!(background.goes_on(WATCH_NS - 1));
        // Bytes that came between the last look and the decision to sleep.
        background.tally.record_moved(1, Role::Compaction);
        assert!(background.goes_on(WATCH_NS));
        assert!(background.is_watched.load(Ordering::Relaxed));
        background.tally.take();
        assert!(!background.goes_on(WATCH_NS));
        assert!(
            !background.is_watched.load(Ordering::Relaxed),
            "work wakes it"
        );
    }
}
