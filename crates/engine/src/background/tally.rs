//! What background threads did since the last tick of the controller: the bytes that they moved, and the processor time
//! that they had and waited for.

use coldstream_policy::Role;
use coldstream_policy::background::{Observed, ProcessorTime};
use std::sync::atomic::{AtomicU64, Ordering};

/// All-zero memory is nothing.
#[repr(C)]
pub(super) struct Tally {
    background_bytes: AtomicU64,
    /// Those of them that compactions moved.
    compacted_bytes: AtomicU64,
    flushed_bytes: AtomicU64,
    /// Processor time since the last look of the control thread, in nanoseconds.
    run_ns: AtomicU64,
    wait_ns: AtomicU64,
    /// A time of the clock [`monotonic_ns`](coldstream_io::sys::process::monotonic_ns). It is not taken.
    busy_until_ns: AtomicU64,
}

impl Tally {
    /// A thread of this role has moved bytes of SSTables.
    pub(super) fn record_moved(&self, bytes: u64, role: Role) {
        self.background_bytes.fetch_add(bytes, Ordering::Relaxed);
        if role == Role::Compaction {
            self.compacted_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// A flush has written an SSTable.
    pub(super) fn record_flushed(&self, bytes: u64) {
        self.flushed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A thread had processor time, and waited for it.
    pub(super) fn record_processor(&self, time: &ProcessorTime) {
        self.run_ns.fetch_add(time.run_ns, Ordering::Relaxed);
        self.wait_ns.fetch_add(time.wait_ns, Ordering::Relaxed);
    }

    /// A thread did not rest until now, though it moved no bytes.
    pub(super) fn record_busy(&self, now_ns: u64) {
        self.busy_until_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Whether bytes were moved, of whichever thread.
    pub(super) fn has_moved(&self) -> bool {
        self.background_bytes.load(Ordering::SeqCst) > 0
    }

    /// Takes the bytes.
    pub(super) fn take(&self) -> Observed<'static> {
        Observed {
            background_bytes: self.background_bytes.swap(0, Ordering::SeqCst),
            compacted_bytes: self.compacted_bytes.swap(0, Ordering::Relaxed),
            flushed_bytes: self.flushed_bytes.swap(0, Ordering::Relaxed),
            busy_until_ns: self.busy_until_ns.load(Ordering::Relaxed),
            ..Observed::default()
        }
    }

    /// Takes the processor time.
    pub(super) fn take_processor(&self) -> ProcessorTime {
        ProcessorTime {
            run_ns: self.run_ns.swap(0, Ordering::Relaxed),
            wait_ns: self.wait_ns.swap(0, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_taken_once() {
        // SAFETY: all-zero memory is a valid one: atomics.
        let tally: Tally = unsafe { std::mem::zeroed() };
        tally.record_moved(3, Role::Compaction);
        tally.record_moved(4, Role::Streaming);
        tally.record_flushed(5);
        tally.record_busy(9);
        tally.record_busy(8);
        assert!(tally.has_moved());
        let taken = tally.take();
        let bytes = [
            taken.background_bytes,
            taken.compacted_bytes,
            taken.flushed_bytes,
        ];
        assert_eq!((bytes, taken.busy_until_ns), ([7, 3, 5], 9));
        assert!(!tally.has_moved());
        let taken = tally.take();
        assert_eq!((taken.background_bytes, taken.busy_until_ns), (0, 9));
        let time = ProcessorTime {
            run_ns: 1,
            wait_ns: 2,
        };
        tally.record_processor(&time);
        let taken = tally.take_processor();
        assert_eq!((taken.run_ns, taken.wait_ns), (1, 2));
        assert!(!tally.take_processor().is_work());
    }
}
