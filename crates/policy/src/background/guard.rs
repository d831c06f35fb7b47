//! The guard of priority: background threads get their former priorities back while a lower one takes
//! processor time from them that they need.
//!
//! A lower priority is free of charge while processors are idle now and then: background threads get what
//! the foreground leaves. It costs when they wait for a processor for long. Then a foreground that asks
//! again as soon as it was answered takes their share as well, and writes stall behind compactions.

use super::observed::{ProcessorTime, SECOND_NS};

/// A decision needs this much time of background threads on processors and in run queues. Threads that wait for the
/// device in between are seen for a small part of the time only, so it takes longer than it seems.
const DECISION_NS: u64 = SECOND_NS / 2;
/// After this much the guard releases already if the share of waiting is beyond doubt.
const SURE_NS: u64 = DECISION_NS / 10;
/// A try that follows a release costs compactions what the first one cost: a fifth of that evidence ends it.
const SURE_AGAIN_NS: u64 = SURE_NS / 5;
/// That share, in percent. A nice value of 10 leaves a tenth of the processors beside threads that always run.
const SURELY_STARVED_PERCENT: u64 = 80;
/// The guard releases at this share of waiting in that time, in percent. Without a lower priority, threads
/// that share their processor with one other thread wait for half of the time.
const STARVED_PERCENT: u64 = 33;
/// The same share while compactions are behind flushes: hardly any waiting is free of charge then.
const STARVED_IN_DEBT_PERCENT: u64 = 5;
/// A release lasts for this time. Then the lower priority is tried again.
const HOLD_NS: u64 = 16 * SECOND_NS;
/// The time doubles up to this one, while the tries fail.
const HOLD_NS_MAX: u64 = 64 * SECOND_NS;

/// Background threads rest after this time in which they wanted hardly any processor time.
const REST_NS: u64 = 2 * SECOND_NS;

/// The guard. All-zero memory is a new one: priorities may be lower.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Guard {
    /// Processor time since the last decision.
    since_decision: ProcessorTime,
    /// End of the present release; 0 is none.
    released_until_ns: u64,
    /// Length of the last release; 0 is none since the last rest.
    hold_ns: u64,
    /// The time at which background threads last wanted a processor.
    busy_ns: u64,
    /// The last release ended at this time.
    tried_ns: u64,
    releases: u64,
}

impl Guard {
    /// Takes the processor time since the last tick, and whether compactions are behind flushes.
    pub(super) fn tick(&mut self, now_ns: u64, processor: ProcessorTime, is_in_debt: bool) {
        if processor.is_work() {
            self.busy_ns = now_ns;
        } else if now_ns.saturating_sub(self.busy_ns) >= REST_NS {
            self.rest();
            return;
        }
        if self.released_until_ns != 0 {
            if now_ns < self.released_until_ns {
                return;
            }
            self.released_until_ns = 0;
            self.tried_ns = now_ns;
            self.since_decision = ProcessorTime::default();
            return;
        }
        self.since_decision = self.since_decision.plus(processor);
        let wanted_ns = self.since_decision.wanted_ns();
        let sure_ns = if self.hold_ns == 0 {
            SURE_NS
        } else {
            SURE_AGAIN_NS
        };
        let bound_percent = if wanted_ns >= DECISION_NS {
            if is_in_debt {
                STARVED_IN_DEBT_PERCENT
            } else {
                STARVED_PERCENT
            }
        } else if wanted_ns >= sure_ns {
            SURELY_STARVED_PERCENT
        } else {
            return;
        };
        let waited = u128::from(self.since_decision.wait_ns) * 100;
        let is_starved = waited >= u128::from(wanted_ns) * u128::from(bound_percent);
        if is_starved || wanted_ns >= DECISION_NS {
            self.since_decision = ProcessorTime::default();
        }
        if is_starved {
            self.release(now_ns);
        }
    }

    fn release(&mut self, now_ns: u64) {
        // The last try counts as failed if it did not last as long as the release before it.
        let has_failed = now_ns.saturating_sub(self.tried_ns) < self.hold_ns;
        self.hold_ns = if has_failed {
            (self.hold_ns * 2).min(HOLD_NS_MAX)
        } else {
            HOLD_NS
        };
        self.releases = self.releases.saturating_add(1);
        self.released_until_ns = now_ns.saturating_add(self.hold_ns);
    }

    /// Background work rests: the next one begins with a lower priority.
    fn rest(&mut self) {
        *self = Self {
            releases: self.releases,
            ..Self::default()
        };
    }

    /// Whether background threads may have a lower priority.
    pub(super) fn may_lower(&self) -> bool {
        self.released_until_ns == 0
    }

    /// Times that it began to forbid it.
    pub(super) fn releases(&self) -> u64 {
        self.releases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: u64 = SECOND_NS / 5;

    /// Two threads that always want a processor, and wait for `percent` of the time.
    fn waiting(percent: u64) -> ProcessorTime {
        let wait_ns = 2 * TICK_NS * percent / 100;
        ProcessorTime {
            run_ns: 2 * TICK_NS - wait_ns,
            wait_ns,
        }
    }

    /// Runs it for seconds. Without a lower priority the threads wait for `released` percent. Returns the share of the time with a
    /// lower priority, in percent.
    fn run(guard: &mut Guard, now_ns: &mut u64, seconds: u64, lowered: u64, released: u64) -> u64 {
        let ticks = seconds * SECOND_NS / TICK_NS;
        let mut low = 0;
        for _ in 0..ticks {
            *now_ns += TICK_NS;
            let percent = if guard.may_lower() { lowered } else { released };
            low += u64::from(guard.may_lower());
            guard.tick(*now_ns, waiting(percent), false);
        }
        low * 100 / ticks
    }

    #[test]
    fn starving_threads_get_their_priority_back_and_keep_it() {
        let (mut guard, mut now_ns) = (Guard::default(), 0);
        assert!(
            run(&mut guard, &mut now_ns, 1, 70, 60) >= 40,
            "decides on half a second"
        );
        assert!(!guard.may_lower());
        assert_eq!(guard.releases(), 1);
        assert!(run(&mut guard, &mut now_ns, 60, 95, 60) <= 3);
        assert!(run(&mut guard, &mut now_ns, 600, 95, 60) <= 1);
        assert!(guard.releases() < 16, "{}", guard.releases());
    }

    #[test]
    fn threads_that_hardly_run_are_released_at_once() {
        // Of each 200 ms of a thread that also waits for the device, 30 ms are known.
        let tick = |wait_percent: u64| ProcessorTime {
            run_ns: 300_000 * (100 - wait_percent),
            wait_ns: 300_000 * wait_percent,
        };
        for (wait_percent, ticks) in [(92_u64, 2), (60, 17), (20, u64::MAX)] {
            let mut guard = Guard::default();
            let released = (1..100).find(|number| {
                guard.tick(number * TICK_NS, tick(wait_percent), false);
                !guard.may_lower()
            });
            assert_eq!(released.unwrap_or(u64::MAX), ticks, "{wait_percent}");
        }
    }

    #[test]
    fn a_second_try_is_given_up_on_less() {
        // Of each 200 ms, 10 ms are known.
        let tick = ProcessorTime {
            run_ns: 500_000,
            wait_ns: 9_500_000,
        };
        let mut guard = Guard::default();
        let mut low = Vec::new();
        for number in 1..=2 * HOLD_NS / TICK_NS {
            if guard.may_lower() {
                low.push(number);
            }
            guard.tick(number * TICK_NS, tick, false);
        }
        assert_eq!(low, [1, 2, 3, 4, 5, 86], "one second, then a tick");
    }

    #[test]
    fn threads_that_hardly_wait_keep_the_lower_priority() {
        let (mut guard, mut now_ns) = (Guard::default(), 0);
        assert_eq!(run(&mut guard, &mut now_ns, 600, 30, 5), 100);
        assert_eq!(guard.releases(), 0);
    }

    #[test]
    fn after_a_busy_hour_it_soon_yields_again() {
        let (mut guard, mut now_ns) = (Guard::default(), 0);
        run(&mut guard, &mut now_ns, 3600, 95, 60);
        run(&mut guard, &mut now_ns, HOLD_NS_MAX / SECOND_NS + 1, 10, 10);
        assert_eq!(run(&mut guard, &mut now_ns, 100, 10, 10), 100);
        let releases = guard.releases();
        run(&mut guard, &mut now_ns, 1, 95, 60);
        assert_eq!(guard.hold_ns, HOLD_NS, "the last try did not fail");
        assert_eq!(guard.releases(), releases + 1);
        for tick in 1..=10 {
            guard.tick(now_ns + tick * TICK_NS, ProcessorTime::default(), false);
        }
        assert!(guard.may_lower(), "they rest");
    }

    #[test]
    fn in_debt_a_little_waiting_is_too_much() {
        for (percent, is_in_debt, releases) in [(10, false, 0), (10, true, 1), (2, true, 0)] {
            let mut guard = Guard::default();
            for tick in 1..10 {
                guard.tick(tick * TICK_NS, waiting(percent), is_in_debt);
            }
            assert_eq!(guard.releases(), releases, "{percent} {is_in_debt}");
        }
    }
}
