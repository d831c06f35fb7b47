//! The processor time of one handover: what it may take while a share is in force, and what it has taken.

use super::budget::{Budget, LastHandover, ProcessorShare, SHARE_BEHIND, Taken};
use coldstream_io::sys::process;
use std::cell::Cell;

/// The processor time of one handover, in its thread.
pub(super) struct Spending {
    /// The thread's processor time at the start.
    started_ns: i128,
    /// What the handover may take where a share is in force.
    budget: Budget,
    /// Whether one is. Otherwise only the configured limit counts.
    is_limited: bool,
    /// Looking for pages of before this process. It is no part of the search's: it comes once.
    recall_ns: Cell<i128>,
    /// The search, once that has ended.
    search_ns: Cell<Option<i128>>,
}

impl Spending {
    /// That of a handover that begins now, without a limit.
    pub(super) fn begin() -> Self {
        Self {
            started_ns: processor_ns(),
            budget: Budget::default(),
            is_limited: false,
            recall_ns: Cell::new(0),
            search_ns: Cell::new(None),
        }
    }

    /// Limits it to a `share` of the time that passed until `started_ns`, if there is one. `last` was the thread's last
    /// handover. Returns false if its search took more than this one's may take. Then it is the turn of a later output.
    pub(super) fn limit(
        &mut self,
        started_ns: i128,
        last: &LastHandover,
        share: Option<ProcessorShare>,
    ) -> bool {
        self.budget = Budget::since(started_ns, last, share.unwrap_or(SHARE_BEHIND));
        self.is_limited = share.is_some();
        !self.is_limited || self.budget.is_enough_after(last)
    }

    /// The budget, if it limits the handover.
    fn in_force(&self) -> Option<&Budget> {
        self.is_limited.then_some(&self.budget)
    }

    /// What was taken.
    pub(super) fn taken_ns(&self) -> i128 {
        processor_ns() - self.started_ns
    }

    /// What is left for the search; `None` without a limit.
    pub(super) fn left_to_search_ns(&self) -> Option<i128> {
        (self.in_force()).map(|budget| budget.search_ns() - self.taken_ns())
    }

    /// What is left for all, and so for warming; `None` without a limit.
    pub(super) fn left_ns(&self) -> Option<i128> {
        (self.in_force()).map(|budget| budget.processor_ns() - self.taken_ns())
    }

    /// How long the handover may take with all waits; `None` without a limit.
    pub(super) fn time_ns(&self) -> Option<i128> {
        self.in_force().map(Budget::time_ns)
    }

    /// Whether half of what the search may take is gone.
    pub(super) fn is_half_of_search_gone(&self) -> bool {
        (self.in_force()).is_some_and(|budget| 2 * self.taken_ns() > budget.search_ns())
    }

    /// Makes a look for pages of before this process.
    pub(super) fn recall(&self, look: impl FnOnce()) {
        let before_ns = self.taken_ns();
        look();
        let taken_ns = self.taken_ns() - before_ns;
        self.recall_ns.set(self.recall_ns.get() + taken_ns);
    }

    /// The search ends for now. Returns what was taken until now.
    pub(super) fn end_search(&self) -> i128 {
        let taken_ns = self.taken_ns();
        self.search_ns.set(Some(taken_ns));
        taken_ns
    }

    /// The handover ends at `ended_ns`, after `time_ns`: what the thread's next one needs to know.
    pub(super) fn ended(&self, ended_ns: i128, time_ns: i128) -> LastHandover {
        let processor_ns = self.taken_ns();
        let taken = Taken {
            search_ns: self.search_ns.get().unwrap_or(processor_ns) - self.recall_ns.get(),
            processor_ns,
            time_ns,
        };
        LastHandover::new(ended_ns, &taken, &self.budget)
    }
}

/// The calling thread's processor time so far.
fn processor_ns() -> i128 {
    process::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i128 = 1_000_000_000;

    fn spin(ns: i128) {
        let start_ns = processor_ns();
        while processor_ns() - start_ns < ns {}
    }

    #[test]
    fn a_search_that_took_too_long_puts_the_next_one_off() {
        let mut spending = Spending::begin();
        let started = LastHandover::none(0);
        assert!(spending.limit(SECOND_NS, &started, Some(SHARE_BEHIND)));
        spin(60_000_000);
        spending.end_search();
        let last = spending.ended(2 * SECOND_NS, SECOND_NS);
        let limited = |at_ns, share| Spending::begin().limit(at_ns, &last, share);
        // The search took more than a twentieth of a second.
        assert!(!limited(3 * SECOND_NS, Some(SHARE_BEHIND)));
        assert!(limited(3 * SECOND_NS, None), "compactions keep up");
        assert!(limited(60 * SECOND_NS, Some(SHARE_BEHIND)));
    }

    #[test]
    fn without_a_limit_nothing_runs_out() {
        let spending = Spending::begin();
        spin(1_000_000);
        assert!(spending.left_ns().is_none() && spending.left_to_search_ns().is_none());
        assert!(spending.time_ns().is_none() && !spending.is_half_of_search_gone());
    }

    #[test]
    fn a_look_into_the_past_is_no_part_of_the_search() {
        let mut spending = Spending::begin();
        let started = LastHandover::none(0);
        assert!(spending.limit(SECOND_NS, &started, Some(SHARE_BEHIND)));
        spending.recall(|| spin(60_000_000));
        spending.end_search();
        assert!(spending.is_half_of_search_gone(), "but it ends the look");
        let last = spending.ended(2 * SECOND_NS, SECOND_NS);
        assert!(Spending::begin().limit(3 * SECOND_NS, &last, Some(SHARE_BEHIND)));
    }
}
