//! When the session's thread runs: on a processor that is idle, but for work that may make others wait.
//!
//! Whoever lists a directory holds its lock, and whoever drops or reads pages holds theirs. Under `SCHED_IDLE` a holder
//! that loses its processor may get it back a second later. A process that created SSTables beside 20,000 others
//! waited for up to 1.7 s then, on saturated processors.

use coldstream_io::sys::thread_priority;
use rustix::process::{Resource, getrlimit};

/// The policy of the calling thread.
pub(crate) struct IdlePolicy {
    is_idle: bool,
}

impl IdlePolicy {
    /// Begins `SCHED_IDLE`, unless it could not be left again ([`crate::privileges::raise_limits`]).
    pub(crate) fn begin() -> Self {
        let nice = thread_priority::nice(0).unwrap_or(0);
        // `RLIMIT_NICE` counts from 1 for 19 to 40 for -20 (getrlimit(2)).
        let needed = u64::try_from(20 - nice).unwrap_or(0);
        let limit = getrlimit(Resource::Nice).current;
        let may_leave = limit.is_none_or(|limit| limit >= needed);
        Self {
            is_idle: may_leave && thread_priority::run_only_when_idle().is_ok(),
        }
    }

    /// Does work that may hold what others wait for.
    pub(crate) fn as_others_do<T>(&self, work: impl FnOnce() -> T) -> T {
        let _as_others = self.as_others();
        work()
    }

    /// The thread runs as others do until this is dropped. Not twice at once.
    pub(crate) fn as_others(&self) -> AsOthers {
        if self.is_idle {
            let _ = thread_priority::run_as_others_do();
        }
        AsOthers(self.is_idle)
    }
}

/// The policy is left for a while.
pub(crate) struct AsOthers(bool);

impl Drop for AsOthers {
    fn drop(&mut self) {
        if self.0 {
            let _ = thread_priority::run_only_when_idle();
        }
    }
}
