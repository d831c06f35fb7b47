//! Eviction: cold pages of tables are dropped before memory runs out, so that nobody who allocates
//! has to wait for their reclaim. For background I/O that goes through the page cache; what goes
//! around it leaves little to drop.
//!
//! A thread of the library's own looks at the room ([`room`]), decides by [`coldstream_policy::eviction`]
//! and drops ranges ([`tables`]). It has the lowest priority, no thread-local storage (see
//! [`crate::control_thread`] for what follows from that), and a table of descriptors of its own: no number of the
//! application's is ever taken, and none of its record locks lost. It is made with the first table
//! of a process in which eviction is configured; a forked child has none until its own first table.

mod room;
mod tables;

use crate::core::descriptor_map::TrackedFile;
use crate::heat::Present;
use crate::runtime::Runtime;
use crate::settings;
use crate::thread as calling_thread;
use coldstream_control::{Counter, Mechanism, PageView};
use coldstream_io::lock::FutexLock;
use coldstream_io::sys::{file, priority, process, thread};
use coldstream_policy::eviction::{Budget, Plan, SLEEP_MILLISECONDS_MAX};
use coldstream_policy::{Config, IoPriority};
use room::Sources;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use tables::{Dropped, Dropper};

/// The lowest priority that a thread can have beside others.
const NICE: i32 = 19;
/// While there is nothing that could be dropped, it is looked for after so many milliseconds, and
/// after twice as many the next time.
const REST_MILLISECONDS_MIN: u32 = 50;
/// As long as nobody knows what is cold, it is asked whether somebody does after so many.
const UNKNOWN_MILLISECONDS: u32 = 200;
/// Tables that background threads lately read are remembered, so many of them.
const LATELY_READ: usize = 64;
/// A scan further on than this from where it was is another one.
const SCAN_GAP_BYTES: u64 = 1 << 20;

/// What others tell the thread; all-zero memory is that there is none.
#[repr(C)]
pub(crate) struct Eviction {
    /// The thread sleeps on its lower half.
    bell: AtomicU64,
    is_running: AtomicBool,
    /// [`process::coarse_milliseconds`] when the thread last woke up: saves others the call.
    clock: AtomicU32,
    /// Held while something is dropped.
    dropping: FutexLock<()>,
    /// Slots plus one of tables that background threads lately read plainly.
    lately_read: [AtomicU32; LATELY_READ],
}

impl Eviction {
    /// The switch was changed: when this returns, what it says has its effect.
    pub(crate) fn switched(&self) {
        self.bell.fetch_add(1, Ordering::AcqRel);
        process::futex_wake_shared(&self.bell);
        drop(self.dropping.lock());
    }
}

/// When and where a background thread read a table: milliseconds of the coarse clock over 64, and
/// the first page that it has not read.
#[derive(Clone, Copy)]
struct Moment(u64);

impl Moment {
    const PAGE_BITS: u32 = 48;
    const PAGE_MASK: u64 = (1 << Self::PAGE_BITS) - 1;
    const PAGE_BYTES: u64 = 4096;

    fn new(clock: u32, offset: u64) -> Self {
        let page = (offset / Self::PAGE_BYTES) & Self::PAGE_MASK;
        Self(u64::from((clock >> 6) as u16) << Self::PAGE_BITS | page)
    }

    fn offset(self) -> u64 {
        (self.0 & Self::PAGE_MASK) * Self::PAGE_BYTES
    }

    fn age_milliseconds(self, clock: u32) -> u32 {
        let units = ((clock >> 6) as u16).wrapping_sub((self.0 >> Self::PAGE_BITS) as u16);
        u32::from(units) << 6
    }
}

impl Runtime {
    /// A background thread has read a table plainly, from `offset` up to `end`.
    #[inline]
    pub(crate) fn note_scan(&self, tracked: TrackedFile, offset: u64, end: u64) {
        if self.eviction.is_running.load(Ordering::Relaxed) && end > offset {
            self.note_plain_scan(tracked, offset, end);
        }
    }

    #[cold]
    fn note_plain_scan(&self, tracked: TrackedFile, offset: u64, end: u64) {
        let Some(inode) = self.inodes.get(tracked.slot) else {
            return;
        };
        let mixed = calling_thread::own_number().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let Some(scan) = inode.scans.get(mixed % inode.scans.len()) else {
            return;
        };
        let before = Moment(scan.last.load(Ordering::Relaxed)).offset();
        // Threads that share a place disturb each other's scans: less is dropped early then.
        if offset + Moment::PAGE_BYTES <= before || offset > before + SCAN_GAP_BYTES {
            scan.begun.store(offset, Ordering::Relaxed);
        }
        let clock = self.eviction.clock.load(Ordering::Relaxed);
        scan.last
            .store(Moment::new(clock, end).0, Ordering::Relaxed);
        let place = tracked.slot as usize % LATELY_READ;
        if let Some(lately) = self.eviction.lately_read.get(place)
            && lately.load(Ordering::Relaxed) != tracked.slot + 1
        {
            lately.store(tracked.slot + 1, Ordering::Relaxed);
        }
    }
}

/// Makes the thread, if it is configured.
pub(crate) fn start(runtime: &'static Runtime, config: &Config) {
    if config.eviction {
        // SAFETY: the runtime live as long as the process, and `evict` does as its module says.
        let started = unsafe { thread::start(evict, std::ptr::from_ref(runtime) as usize) };
        if started.is_err() {
            runtime.count(Counter::EvictionRefused, 1);
        }
    }
}

/// What the thread runs.
unsafe extern "C" fn evict(runtime: usize) -> ! {
    // The kernel keeps fifteen bytes.
    process::set_thread_name(c"coldstream-evic");
    let _ = priority::set_nice(0, NICE);
    let _ = priority::set_io_priority(0, IoPriority::Idle.kernel_value());
    // SAFETY: the address of runtime that live as long as the process.
    let runtime = unsafe { &*(runtime as *const Runtime) };
    if let (Some(page), Some(settings)) = (runtime.page(), settings::get())
        && file::take_empty_descriptor_table().is_ok()
    {
        let mut evictor = Evictor {
            runtime,
            page,
            plan: Plan::new(settings.config.eviction_margin),
            budget: Budget::default(),
            sources: Sources::new(),
            dropper: Dropper::new(runtime, page),
            dropped_bytes: 0,
            looked_ns: process::clock_ns(libc::CLOCK_MONOTONIC),
            rest_milliseconds: 0,
        };
        while evictor.round() {}
        runtime.eviction.is_running.store(false, Ordering::Relaxed);
    }
    runtime.count(Counter::EvictionRefused, 1);
    loop {
        process::sleep(u32::MAX);
    }
}

/// What the thread knows that nobody else does.
struct Evictor<'a> {
    runtime: &'a Runtime,
    page: &'a PageView<'static>,
    plan: Plan,
    budget: Budget,
    sources: Sources,
    dropper: Dropper<'a>,
    /// In the last round.
    dropped_bytes: u64,
    /// When the last round began.
    looked_ns: i128,
    /// How long to wait because nothing could be dropped; 0 while something can.
    rest_milliseconds: u32,
}

impl Evictor<'_> {
    /// Looks, drops what there is to drop, and sleeps. Whether it can ever drop anything.
    fn round(&mut self) -> bool {
        let eviction = &self.runtime.eviction;
        let rung = eviction.bell.load(Ordering::Acquire) as u32;
        self.page.add(Counter::EvictionWakeups, 1);
        if !self.runtime.switches.is_on(Mechanism::Eviction) {
            eviction.is_running.store(false, Ordering::Relaxed);
            process::futex_wait_shared(&eviction.bell, rung, None);
            return true;
        }
        let clock = process::coarse_milliseconds();
        eviction.clock.store(clock, Ordering::Relaxed);
        eviction.is_running.store(true, Ordering::Relaxed);
        let now = process::clock_ns(libc::CLOCK_MONOTONIC);
        let elapsed_ns = u64::try_from(now - self.looked_ns).unwrap_or(0);
        self.looked_ns = now;
        self.budget.earn(elapsed_ns);
        let begun_ns = processor_ns();
        let (result, sleep_milliseconds) = self.look(clock);
        let used_ns = processor_ns().saturating_sub(begun_ns);
        self.page.set(Counter::EvictionNanoseconds, processor_ns());
        let pause_milliseconds = self.budget.spend(used_ns, self.dropped_bytes);
        if result == Dropped::Never {
            return false;
        }
        process::futex_wait_shared(
            &eviction.bell,
            rung,
            Some(sleep_milliseconds.max(pause_milliseconds).max(1)),
        );
        true
    }

    /// Looks how much room there is, and drops what is missing. What came of it, and for how long
    /// to sleep then.
    fn look(&mut self, clock: u32) -> (Dropped, u32) {
        let dropped_bytes = std::mem::take(&mut self.dropped_bytes);
        let heat = &self.runtime.heat;
        let Some(present) = heat.present().filter(|_| heat.is_known()) else {
            // Costs no more than this question.
            return (Dropped::Enough, UNKNOWN_MILLISECONDS);
        };
        let was_dropping = self.plan.is_dropping();
        let margin = self.plan.margin();
        let Some(room) = self.sources.room(clock, margin, was_dropping) else {
            return (Dropped::Enough, SLEEP_MILLISECONDS_MAX);
        };
        let pressure = self.sources.pressure(clock);
        let decision = self.plan.look(clock, room, pressure, dropped_bytes);
        if decision.drop_bytes == 0 {
            self.rest_milliseconds = 0;
            return (Dropped::Enough, decision.sleep_milliseconds);
        }
        if !was_dropping {
            self.dropper.begin();
        }
        if !self.budget.is_left() {
            return (Dropped::Enough, decision.sleep_milliseconds);
        }
        let result = self.drop(&present, clock, decision.drop_bytes);
        let sleep_milliseconds = match result {
            // Where there is more to be had, the budget alone says when.
            Dropped::Enough if (1..decision.drop_bytes).contains(&self.dropped_bytes) => 0,
            _ => decision.sleep_milliseconds.max(self.rest_milliseconds),
        };
        (result, sleep_milliseconds)
    }

    fn drop(&mut self, present: &Present, clock: u32, wanted_bytes: u64) -> Dropped {
        let (result, bytes) = self.dropper.drop(present, clock, wanted_bytes);
        self.dropped_bytes = bytes;
        self.rest_milliseconds = match result {
            Dropped::All if bytes == 0 => {
                (self.rest_milliseconds * 2).clamp(REST_MILLISECONDS_MIN, SLEEP_MILLISECONDS_MAX)
            }
            _ => 0,
        };
        result
    }
}

/// Processor time of the calling thread, in nanoseconds.
fn processor_ns() -> u64 {
    u64::try_from(process::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_a_place_and_an_age() {
        let moment = Moment::new(1_000_000, (1 << 40) + 5000);
        assert_eq!(moment.offset(), (1 << 40) + 4096);
        assert!(moment.age_milliseconds(1_000_000) < 64);
        assert!((2900..3100).contains(&moment.age_milliseconds(1_003_000)));
        assert!(
            Moment::new(u32::MAX, 0).age_milliseconds(1000) < 1100,
            "wraps"
        );
    }
}
