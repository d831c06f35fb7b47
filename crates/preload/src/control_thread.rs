//! The control thread: a thread of the library's own that does what no thread of the application can be
//! made to do in time. It answers `coldstream ctl` and gives threads their priorities; it sleeps
//! while there is nothing to do.
//!
//! It is made with the first table of a process, has no thread-local storage
//! ([`coldstream_io::sys::thread`]), and so may use no `errno`, nothing of a thread's state and nothing
//! that can panic. A forked child has none until its own first table.

use crate::core::switches::mechanisms;
use crate::runtime::Runtime;
use coldstream_control::{Answer, Counter, Mechanism, Mechanisms, Outcome, PageView, Switches};
use coldstream_io::sys::{priority, process, thread};
use coldstream_policy::{Config, Priorities, PriorityMode};

/// The least time between two rounds: whoever rings without end, by a forged page for instance,
/// costs a hundred short rounds a second.
const PAUSE_MILLISECONDS: u32 = 10;

/// What the control thread knows that nobody else does.
struct ControlThread<'a> {
    runtime: &'a Runtime,
    page: &'a PageView<'static>,
    mechanisms: Mechanisms,
    mode: PriorityMode,
    priorities: Priorities,
    /// Number of the last request that was answered.
    answered: u32,
}

/// Makes the control thread of this process. If there can be none, nothing can be switched and no thread
/// gets a priority.
pub(crate) fn start(runtime: &'static Runtime, config: &Config) {
    if let Some(page) = runtime.page() {
        put_switches(
            page,
            mechanisms(config),
            Mechanisms::default(),
            config.priorities_in_force(),
        );
        // SAFETY: the runtime live as long as the process, and `keep` does as its module says.
        if unsafe { thread::start(keep, std::ptr::from_ref(runtime) as usize) }.is_err() {
            page.put_switches(&Switches::default());
        }
    }
}

/// Wakes the control thread: something has changed in the runtime.
pub(crate) fn wake(runtime: &Runtime) {
    if let Some(page) = runtime.page() {
        page.ring();
        if let Some(bell) = page.bell() {
            process::futex_wake_shared(bell);
        }
    }
}

/// What the thread runs.
unsafe extern "C" fn keep(runtime: usize) -> ! {
    process::set_thread_name(c"coldstream-keep");
    priority::copy_from_first_thread();
    // SAFETY: the address of runtime that live as long as the process.
    let runtime = unsafe { &*(runtime as *const Runtime) };
    if let (Some(page), Some(settings)) = (runtime.page(), crate::settings::get()) {
        let mut control_thread = ControlThread {
            runtime,
            page,
            mechanisms: mechanisms(&settings.config),
            mode: settings.config.priority,
            priorities: settings.config.priorities_in_force(),
            answered: 0,
        };
        loop {
            control_thread.round();
        }
    }
    // Cannot be: the page and the settings are there before the thread is.
    loop {
        process::sleep(u32::MAX);
    }
}

impl ControlThread<'_> {
    /// Does what there is to do, and sleeps until somebody rings.
    fn round(&mut self) {
        let bell = self.page.bell();
        let rung = bell.map_or(0, |bell| bell.load(std::sync::atomic::Ordering::Acquire));
        let request = self.page.request();
        let asked = request.number != self.answered;
        let mut outcome = Outcome::Done;
        if asked {
            outcome = self.obey(request.off_bits, request.priorities_bits);
        }
        let priorities = if self.runtime.switches.is_on(Mechanism::Priority) {
            self.priorities
        } else {
            Priorities::none()
        };
        let all_given_back = self.runtime.threads.tend(self.mode, &priorities, self.page);
        if asked {
            if outcome == Outcome::Done && !all_given_back {
                outcome = Outcome::PriorityKept;
            }
            self.answer(request.number, outcome);
        }
        process::sleep(PAUSE_MILLISECONDS);
        match bell {
            Some(bell) => process::futex_wait_shared(bell, rung as u32, None),
            None => process::sleep(u32::MAX),
        }
    }

    /// Brings about what was asked for, but for the priorities, which are tended after every ring.
    fn obey(&mut self, off_bits: u64, priorities_bits: u64) -> Outcome {
        let off = Mechanisms::from_bits(off_bits);
        let Some(priorities) = Priorities::from_bits(priorities_bits) else {
            return Outcome::Refused;
        };
        if u64::from(off.bits()) != off_bits || !off.without(self.mechanisms).is_empty() {
            return Outcome::Refused;
        }
        self.priorities = priorities;
        let before = self.runtime.switches.off();
        self.runtime.switches.set_off(off);
        // Threads get their priorities when they say who they are, with their next table.
        crate::thread::note_other_name();
        let mut outcome = Outcome::Done;
        if off.contains(Mechanism::Pacing) {
            // First: threads that wait may hold up what is to be done next.
            self.runtime.release_brake();
        }
        if off.contains(Mechanism::Writes) && !self.runtime.fall_back_all() {
            outcome = Outcome::WriteFailed;
        }
        if off.contains(Mechanism::Eviction) != before.contains(Mechanism::Eviction) {
            self.runtime.eviction.switched();
        }
        if off.contains(Mechanism::Readahead) != before.contains(Mechanism::Readahead) {
            self.runtime.switch_readahead();
        }
        if off.contains(Mechanism::Reads) {
            self.runtime.close_all_windows();
        }
        if !off.is_empty() {
            self.runtime.give_free_memory_back();
        }
        outcome
    }

    fn answer(&mut self, number: u32, outcome: Outcome) {
        self.answered = number;
        put_switches(
            self.page,
            self.mechanisms,
            self.runtime.switches.off(),
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
