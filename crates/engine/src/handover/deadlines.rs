//! When a handover and its stages end: by the clock, or as soon as handovers are switched off.
//!
//! | stage | its end |
//! |---|---|
//! | recall: a guess at what is hot | a quarter of the time |
//! | search: what is hot, and where it is in the output | half of the time |
//! | warming | the time, or what the budget of a handover in a hurry has of it |

use crate::core::Core;
use coldstream_control::Mechanism;
use coldstream_io::sys::process;
use std::cell::Cell;

/// The end of a stage.
#[derive(Clone, Copy)]
pub(super) struct Deadline<'b> {
    core: &'b Core,
    switched_off: &'b Cell<bool>,
    end_ns: i128,
}

/// The ends of all stages of one handover.
pub(super) struct Deadlines<'b> {
    core: &'b Core,
    /// The handover was switched off. This one stays over, even if it is switched on again.
    switched_off: &'b Cell<bool>,
    started_ns: i128,
    /// How long all may take.
    time_ns: i128,
}

impl Deadline<'_> {
    /// Whether the stage is over.
    pub(super) fn is_reached(&self) -> bool {
        if !self.core.is_on(Mechanism::Handover) {
            self.switched_off.set(true);
        }
        self.switched_off.get() || now_ns() >= self.end_ns
    }
}

impl<'b> Deadlines<'b> {
    /// Those of a handover that begins now. `switched_off` is false.
    pub(super) fn begin(
        core: &'b Core,
        switched_off: &'b Cell<bool>,
        milliseconds_max: u64,
    ) -> Self {
        Self {
            core,
            switched_off,
            started_ns: now_ns(),
            time_ns: i128::from(milliseconds_max) * 1_000_000,
        }
    }

    /// When the handover began, by the monotonic clock.
    pub(super) fn started_ns(&self) -> i128 {
        self.started_ns
    }

    /// How long it takes so far.
    pub(super) fn taken_ns(&self) -> i128 {
        now_ns() - self.started_ns
    }

    /// The end of a guess at what is hot.
    pub(super) fn of_recall(&self) -> Deadline<'b> {
        self.after(self.time_ns / 4)
    }

    /// The end of the search. The other half of the time is for warming.
    pub(super) fn of_search(&self) -> Deadline<'b> {
        self.after(self.time_ns / 2)
    }

    /// The end of warming. `budget_ns` is what a budget leaves of the time, if one is in force.
    pub(super) fn of_warming(&self, budget_ns: Option<i128>) -> Deadline<'b> {
        let budget_ns = budget_ns.unwrap_or(self.time_ns);
        self.after(budget_ns.min(self.time_ns))
    }

    /// The end of all, by the monotonic clock.
    pub(super) fn end_ns(&self) -> i128 {
        self.started_ns + self.time_ns
    }

    fn after(&self, time_ns: i128) -> Deadline<'b> {
        Deadline {
            core: self.core,
            switched_off: self.switched_off,
            end_ns: self.started_ns + time_ns,
        }
    }
}

/// The time, by the monotonic clock.
pub(super) fn now_ns() -> i128 {
    process::clock_ns(libc::CLOCK_MONOTONIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_control::Mechanisms;

    #[test]
    fn the_stages_share_the_time() {
        let (core, _) = Core::with_file(3);
        let switched_off = Cell::new(false);
        let deadlines = Deadlines::begin(&core, &switched_off, 1000);
        let after_ms = |deadline: Deadline<'_>| {
            let after_ns = deadline.end_ns - deadlines.started_ns();
            after_ns / 1_000_000
        };
        assert_eq!(after_ms(deadlines.of_recall()), 250);
        assert_eq!(after_ms(deadlines.of_search()), 500);
        assert_eq!(after_ms(deadlines.of_warming(None)), 1000);
        let budgets = [70_000_000, 7_000_000_000];
        let ends = budgets.map(|budget_ns| after_ms(deadlines.of_warming(Some(budget_ns))));
        assert_eq!(ends, [70, 1000], "no budget makes the time longer");
        assert_eq!(
            deadlines.end_ns(),
            deadlines.of_warming(None).end_ns,
            "reads of the files end with it"
        );
        let none = Deadlines::begin(&core, &switched_off, 0);
        assert!(none.of_recall().is_reached() && !deadlines.of_recall().is_reached());
    }

    #[test]
    fn what_was_switched_off_once_stays_over() {
        let (core, _) = Core::with_file(3);
        let switched_off = Cell::new(false);
        let deadlines = Deadlines::begin(&core, &switched_off, 100_000);
        let (search, warming) = (deadlines.of_search(), deadlines.of_warming(None));
        core.switches
            .set_off(Mechanisms::of(&[Mechanism::Handover]));
        assert!(search.is_reached());
        core.switches.set_off(Mechanisms::of(&[]));
        assert!(search.is_reached() && warming.is_reached());
    }
}
