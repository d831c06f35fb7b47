//! Processor time of a background thread: how long it ran, and how long it waited for a processor.
//!
//! The thread itself takes it, at its calls for SSTables. It did not sleep between two looks if it gave no
//! processor up by itself (`ru_nvcsw`). Then the time without a processor was spent in a run queue. An
//! interval with a sleep tells nothing, and is left out.
//!
//! `/proc/self/task/TID/schedstat` has the same time for every thread. But to open it takes a descriptor
//! number, which the application would see.

use coldstream_io::sys::process::ThreadUsage;
use coldstream_policy::background::ProcessorTime;
use std::cell::Cell;

/// The shortest interval that is looked at, in nanoseconds. A look costs half a microsecond.
const INTERVAL_NS: u64 = 1_000_000;

pub(super) struct Processor {
    /// The time at the last look, by the monotonic clock; 0 is none.
    looked_ns: Cell<u64>,
    usage: Cell<ThreadUsage>,
}

impl Processor {
    pub(super) const fn none() -> Self {
        Self {
            looked_ns: Cell::new(0),
            usage: Cell::new(ThreadUsage::NONE),
        }
    }

    /// Looks, if it is time: `usage` gets the thread's usage so far. Returns the time since the last look, if
    /// the thread did not sleep.
    pub(super) fn look(
        &self,
        now_ns: u64,
        usage: impl FnOnce() -> Option<ThreadUsage>,
    ) -> Option<ProcessorTime> {
        let before_ns = self.looked_ns.get();
        let elapsed_ns = now_ns.saturating_sub(before_ns);
        if elapsed_ns < INTERVAL_NS {
            return None;
        }
        let (before, now) = (self.usage.get(), usage()?);
        self.looked_ns.set(now_ns);
        self.usage.set(now);
        if before_ns == 0 || before.sleeps != now.sleeps {
            return None;
        }
        let run_ns = now.processor_ns.saturating_sub(before.processor_ns);
        Some(ProcessorTime {
            run_ns,
            wait_ns: elapsed_ns.saturating_sub(run_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_without_a_sleep_counts() {
        let processor = Processor::none();
        let look = |now_ms: u64, processor_ms: u64, sleeps| {
            processor.look(now_ms * 1_000_000, || {
                Some(ThreadUsage {
                    processor_ns: processor_ms * 1_000_000,
                    sleeps,
                })
            })
        };
        let time = |run_ms: u64, wait_ms: u64| {
            Some(ProcessorTime {
                run_ns: run_ms * 1_000_000,
                wait_ns: wait_ms * 1_000_000,
            })
        };
        assert_eq!(look(100, 50, 7), None, "the first look");
        assert_eq!(look(110, 53, 7), time(3, 7));
        assert_eq!(look(120, 54, 8), None, "it slept");
        assert_eq!(look(130, 64, 8), time(10, 0));
        let not_yet = processor.look(130_500_000, || panic!("too early"));
        assert_eq!(not_yet, None);
    }
}
