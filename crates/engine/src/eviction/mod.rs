//! Eviction: drops cold pages of SSTables before memory runs out. So no allocation has to wait until the
//! kernel reclaims them. It is for background I/O that goes through the page cache: direct I/O leaves
//! little to drop.
//!
//! A thread of the library's own looks at the free memory (`room`), decides by
//! [`coldstream_policy::eviction`], and drops ranges (`dropper`). The thread
//!
//! - has the lowest priority;
//! - has no thread-local storage (for the consequences see `control_thread`);
//! - has a descriptor table of its own: it takes no descriptor number of the application, and its closes
//!   drop none of the application's record locks;
//! - starts with the first SSTable of a process in which eviction is configured. A forked child has none
//!   until its own first SSTable.

mod dropper;
mod moment;
mod room;
mod shared;

pub use shared::Eviction;

use crate::core::Core;
use crate::heat::{HeatMap, Present};
use crate::settings;
use coldstream_control::{Counter, Mechanism, PageView};
use coldstream_io::credentials::{self, Follower};
use coldstream_io::sys::{file, process, thread_priority};
use coldstream_policy::IoPriority;
use coldstream_policy::eviction::{Budget, Plan, SLEEP_MILLISECONDS_MAX};
use dropper::{Dropped, Dropper, processor_ns};
use room::Sources;
use std::sync::atomic::Ordering;

/// The thread's nice value: the lowest priority of a normal thread.
const NICE: i32 = 19;
/// While there is nothing to drop, the next look comes after 50 ms. Each further rest is twice as long.
const REST_MILLISECONDS_MIN: u32 = 50;
/// While too little was read to know cold ranges, the thread looks again after 200 ms.
const UNKNOWN_MILLISECONDS: u32 = 200;

/// What the thread runs. Needs no thread-local storage.
pub fn run(core: &Core, heat: &HeatMap, eviction: &Eviction) -> ! {
    // The kernel keeps fifteen bytes.
    process::set_thread_name(c"coldstream-evic");
    credentials::begin();
    let credentials = Follower::default();
    let _ = thread_priority::set_nice(0, NICE);
    let _ = thread_priority::set_io_priority(0, IoPriority::Idle.kernel_value());
    if let (Some(page), Some(settings)) = (core.page(), settings::get())
        && file::take_empty_descriptor_table().is_ok()
    {
        let mut evictor = Evictor {
            core,
            heat,
            eviction,
            page,
            plan: Plan::new(settings.config.eviction_margin),
            budget: Budget::default(),
            sources: Sources::new(),
            dropper: Dropper::new(core, eviction, page),
            dropped_bytes: 0,
            looked_ns: process::clock_ns(libc::CLOCK_MONOTONIC),
            rest_milliseconds: 0,
            credentials: &credentials,
        };
        while evictor.round() {}
        eviction.is_running.store(false, Ordering::Relaxed);
    }
    core.count(Counter::EvictionRefused, 1);
    loop {
        let rung = eviction.bell.load(Ordering::Acquire) as u32;
        credentials.follow();
        process::futex_wait_shared(&eviction.bell, rung, None);
    }
}

/// The state of the thread.
struct Evictor<'a> {
    core: &'a Core,
    heat: &'a HeatMap,
    eviction: &'a Eviction,
    page: &'a PageView<'static>,
    plan: Plan,
    budget: Budget,
    sources: Sources,
    dropper: Dropper<'a>,
    /// Bytes that were dropped in the last round.
    dropped_bytes: u64,
    /// When the last round began.
    looked_ns: i128,
    /// How long to wait because nothing could be dropped; 0 while something can.
    rest_milliseconds: u32,
    credentials: &'a Follower,
}

impl Evictor<'_> {
    /// Looks, drops cold pages if memory is short, and sleeps. Returns whether it can ever drop anything.
    fn round(&mut self) -> bool {
        let eviction = self.eviction;
        let rung = eviction.bell.load(Ordering::Acquire) as u32;
        self.credentials.follow();
        self.page.add(Counter::EvictionWakeups, 1);
        if !self.core.is_on(Mechanism::Eviction) {
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
        let started_ns = processor_ns();
        let (result, sleep_milliseconds) = self.look(clock);
        let used_ns = processor_ns().saturating_sub(started_ns);
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

    /// Looks how much room there is, and drops what is missing. The result, and how long to sleep then.
    fn look(&mut self, clock: u32) -> (Dropped, u32) {
        let dropped_bytes = std::mem::take(&mut self.dropped_bytes);
        let heat = self.heat;
        let Some(present) = heat.present().filter(|_| heat.is_known()) else {
            // This question is all that it costs.
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
            // Where more can be dropped, the budget alone says when.
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
