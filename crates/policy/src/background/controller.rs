//! The controller: one decision for pacing and priority, from one debt.

use super::debt::Debt;
use super::guard::Guard;
use super::observed::{Observed, SECOND_NS};
use super::pacer::{Moment, Pace, Pacer};

/// Background work rests after this time without background I/O.
const REST_NS: u64 = 2 * SECOND_NS;

/// What is decided for background work from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The pace of background I/O; no limit without pacing.
    pub pace: Pace,
    /// Compactions wait for processors for long; or a little, while they are behind flushes. Then background
    /// threads should have the priority that the application gave them, and lose little time to other work.
    pub is_behind: bool,
}

/// Figures for the status page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Times that pacing began to slow background I/O down.
    pub brakes: u64,
    /// Times that it stopped because compactions fell behind.
    pub releases: u64,
    /// Times that background threads got their former priorities back, because they fell behind.
    pub priority_releases: u64,
    /// Mean latency of the foreground's device reads without background I/O, in nanoseconds; 0 is
    /// unknown.
    pub idle_ns: u64,
    /// Bytes that compactions are behind flushes.
    pub debt_bytes: u64,
}

/// The controller. All-zero memory is a new one. It needs a lock around it: one caller at a time.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Controller {
    /// The time of the last tick plus one, so that 0 is never.
    ticked_ns: u64,
    /// The time of the last background I/O.
    background_ns: u64,
    debt: Debt,
    guard: Guard,
    pacer: Pacer,
}

impl Controller {
    /// Takes the events until `now_ns`, a time of any steady clock. Returns what is allowed from now on.
    /// Without a `floor` there is no pacing; with one it is never slower than these bytes per second.
    pub fn tick(&mut self, now_ns: u64, observed: &Observed<'_>, floor: Option<u64>) -> Decision {
        let is_first = self.ticked_ns == 0;
        let elapsed_ns = match self.ticked_ns {
            0 => {
                self.background_ns = now_ns;
                0
            }
            before => (now_ns.saturating_add(1)).saturating_sub(before),
        };
        self.ticked_ns = now_ns.saturating_add(1);
        let busy_until_ns = observed.busy_until_ns.min(now_ns);
        self.background_ns = self.background_ns.max(busy_until_ns);
        if observed.background_bytes > 0 && elapsed_ns < REST_NS {
            self.background_ns = now_ns;
        }
        let has_rested = now_ns.saturating_sub(self.background_ns) >= REST_NS;
        if has_rested {
            // Compactions rest, so the flushed bytes need no compaction yet.
            self.debt.reset_at_rest(observed.flushed_bytes);
            self.background_ns = now_ns;
        } else {
            self.debt.record(observed, elapsed_ns);
        }
        (self.guard).tick(now_ns, observed.processor, self.debt.is_surely_due());
        let pace = floor.map(|floor| {
            let moment = Moment {
                now_ns,
                is_first,
                has_rested,
            };
            self.pacer.tick(moment, observed, floor, &self.debt)
        });
        Decision {
            pace: pace.unwrap_or_default(),
            is_behind: !self.guard.may_lower(),
        }
    }

    /// The figures so far.
    pub fn figures(&self) -> Figures {
        Figures {
            brakes: self.pacer.brakes(),
            releases: self.debt.releases(),
            priority_releases: self.guard.releases(),
            idle_ns: self.pacer.idle_ns(),
            debt_bytes: self.debt.bytes(),
        }
    }
}
