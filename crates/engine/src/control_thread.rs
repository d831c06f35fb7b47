//! The control thread, a thread of the library's own. It answers `coldstream ctl`, and sets the priorities of
//! threads: no thread of the application could do these in time. While background threads have a lower
//! priority and work, it looks five times a second whether they starve. While SSTables are mapped, it looks at
//! them once a second. Otherwise it sleeps.
//!
//! It is made with the first SSTable of a process. It has no thread-local storage
//! ([`coldstream_io::sys::thread`]), and so uses no `errno`, nothing of a thread's state, and nothing that
//! can panic. A forked child has none until its own first SSTable.

use crate::background::Background;
use crate::core::Core;
use crate::core::switches::mechanisms;
use crate::priority::Threads;
use crate::{settings, thread};
use coldstream_control::{
    Answer, Counter, Mechanism, Mechanisms, Outcome, PageView, Request, Switches,
};
use coldstream_io::credentials::{self, Follower};
use coldstream_io::sys::{process, thread_priority};
use coldstream_policy::{Config, Priorities, PriorityMode};
use std::sync::atomic::Ordering;

/// The shortest time between two rounds. So a process that wakes the thread without end, for instance by a
/// forged page, causes at most a hundred short rounds a second.
const PAUSE_MILLISECONDS: u32 = 10;

/// The time between two looks at background threads that work.
const WATCH_MILLISECONDS: u32 = 200;

/// The time between two looks at what readers do not need any more.
const TEND_MILLISECONDS: u32 = 1000;

/// So often helpers are woken that do not follow the process's credentials. One that writes to a slow device
/// follows by itself when it is done, and one that has died never does.
const WAKES_MAX: u32 = 20;

/// Makes every mechanism follow the process's switches. The owner of all mechanisms implements it.
/// Needs no thread-local storage.
pub trait ApplySwitches {
    /// The switches were changed. Mechanisms in `before` were off; mechanisms in `off` are off now.
    fn apply_switches(&self, before: Mechanisms, off: Mechanisms) -> Outcome;

    /// The credentials of the process were changed: wakes the other helpers, which follow. Returns whether one
    /// has yet to.
    fn wake_helpers(&self) -> bool;

    /// Looks at the mapped SSTables, if it is time to. Returns whether to look again.
    fn look_at_mapped(&self) -> bool;

    /// Whether this is a node of Cassandra that reads its data files by mappings.
    fn is_mapping_cassandra(&self) -> bool;
}

/// Before the thread is made: says on the status page what can be switched.
pub fn announce(page: &PageView<'_>, config: &Config) {
    put_switches(
        page,
        mechanisms(config),
        Mechanisms::default(),
        config.priorities_in_force(),
    );
}

/// The thread could not be made: nothing can be switched, and no thread gets a priority.
pub fn announce_none(page: &PageView<'_>) {
    page.put_switches(&Switches::default());
}

/// What the thread runs. Needs no thread-local storage.
pub fn run(core: &Core, threads: &Threads, background: &Background, all: &impl ApplySwitches) -> ! {
    process::set_thread_name(c"coldstream-keep");
    credentials::begin_for_priorities();
    thread_priority::copy_from_first_thread();
    if let (Some(page), Some(settings)) = (core.page(), settings::get()) {
        let mut control_thread = ControlThread {
            core,
            threads,
            background,
            all,
            page,
            mechanisms: mechanisms(&settings.config),
            mode: settings.config.priority,
            priorities: settings.config.priorities_in_force(),
            answered: 0,
            may_lower: true,
            credentials: Follower::default(),
            wakes_left: 0,
            tended_milliseconds: 0,
            tends: true,
        };
        loop {
            control_thread.round();
        }
    }
    // Never reached: the page and the settings exist before the thread starts.
    loop {
        process::sleep(u32::MAX);
    }
}

/// The state of the control thread.
struct ControlThread<'a, A> {
    core: &'a Core,
    threads: &'a Threads,
    background: &'a Background,
    all: &'a A,
    page: &'a PageView<'static>,
    mechanisms: Mechanisms,
    mode: PriorityMode,
    priorities: Priorities,
    /// Number of the last request that was answered.
    answered: u32,
    /// The guard allows lower priorities.
    may_lower: bool,
    credentials: Follower,
    /// How often helpers are still woken that do not follow the process's credentials.
    wakes_left: u32,
    /// When it last gave back what readers did not need any more ([`process::coarse_milliseconds`]).
    tended_milliseconds: u32,
    /// Readers may have something that is given back when they do not need it any more.
    tends: bool,
}

impl<A: ApplySwitches> ControlThread<'_, A> {
    /// Answers a request, updates priorities, and sleeps until the bell rings.
    fn round(&mut self) {
        let bell = self.page.bell();
        let rung = bell.map_or(0, |bell| bell.load(Ordering::Acquire));
        let some_are_behind = self.follow_credentials();
        let request = self.page.request();
        let is_asked = request.number != self.answered;
        let mut outcome = Outcome::Done;
        if is_asked {
            outcome = self.obey(&request);
        }
        let goes_on = self.watch();
        self.tend_readers();
        // Measured: p50 halves there, and p99 rises by half. A thread that faults holds the locks of the pages that it
        // brings in, and requests may wait for it.
        let is_left_alone = self.mode == PriorityMode::Auto && self.all.is_mapping_cassandra();
        let priorities = if self.core.is_on(Mechanism::Priority) && self.may_lower && !is_left_alone
        {
            self.priorities
        } else {
            Priorities::none()
        };
        let all_given_back = self.threads.tend(self.mode, &priorities, self.page);
        if is_asked {
            if outcome == Outcome::Done && !all_given_back {
                outcome = Outcome::PriorityKept;
            }
            self.answer(request.number, outcome);
        }
        process::sleep(PAUSE_MILLISECONDS);
        match bell {
            Some(bell) => {
                let milliseconds = match goes_on || some_are_behind {
                    true => Some(WATCH_MILLISECONDS),
                    false => self.tends.then_some(TEND_MILLISECONDS),
                };
                process::futex_wait_shared(bell, rung as u32, milliseconds);
            }
            None => process::sleep(u32::MAX),
        }
    }

    /// Gives back what readers do not need any more, once a second at most.
    fn tend_readers(&mut self) {
        let now = process::coarse_milliseconds();
        let is_due = now.wrapping_sub(self.tended_milliseconds) >= TEND_MILLISECONDS;
        let has_mapped = self.all.look_at_mapped();
        self.tends = !is_due || self.core.tend_readers(now) || has_mapped;
        if is_due {
            self.tended_milliseconds = now;
        }
    }

    /// Follows the credentials of the process, as the other helpers do. Returns whether one of them has yet to.
    fn follow_credentials(&mut self) -> bool {
        if self.credentials.is_behind() {
            // Nice values may be out of reach afterwards. Threads that may have them register themselves again.
            self.threads.tend(self.mode, &Priorities::none(), self.page);
            self.credentials.follow();
            thread::forget_all_roles();
            self.wakes_left = WAKES_MAX;
        }
        if self.wakes_left > 0 {
            let any = self.all.wake_helpers();
            self.wakes_left = if any { self.wakes_left - 1 } else { 0 };
        }
        self.wakes_left > 0
    }

    /// Looks whether background threads starve, if any work. Returns whether to look again soon.
    fn watch(&mut self) -> bool {
        let could_lower = std::mem::replace(&mut self.may_lower, true);
        let mut goes_on = false;
        if self.background.is_watched(self.core) {
            let watched = self.background.watch(self.core);
            self.may_lower = !watched.is_behind || self.mode != PriorityMode::Auto;
            goes_on = watched.goes_on;
        }
        if self.may_lower && !could_lower {
            // Threads get their priorities again when they register themselves.
            thread::forget_all_roles();
        }
        goes_on
    }

    /// Carries out a request, except its priorities. These are set after every ring of the bell.
    fn obey(&mut self, request: &Request) -> Outcome {
        let Some((off, priorities)) = request.checked(self.mechanisms) else {
            return Outcome::Refused;
        };
        self.priorities = priorities;
        let before = self.core.switches.off();
        self.core.switches.set_off(off);
        // Threads get their priorities with their next SSTable, when they register themselves.
        thread::forget_all_roles();
        self.all.apply_switches(before, off)
    }

    fn answer(&mut self, number: u32, outcome: Outcome) {
        self.answered = number;
        put_switches(
            self.page,
            self.mechanisms,
            self.core.switches.off(),
            self.priorities,
        );
        self.page.add(Counter::SwitchRequests, 1);
        self.page.put_answer(&Answer { number, outcome });
        if let Some(answered) = self.page.answered() {
            process::futex_wake_shared(answered);
        }
    }
}

fn put_switches(
    page: &PageView<'_>,
    mechanisms: Mechanisms,
    off: Mechanisms,
    priorities: Priorities,
) {
    page.put_switches(&Switches {
        mechanisms,
        off,
        priorities_bits: priorities.to_bits(),
    });
}
