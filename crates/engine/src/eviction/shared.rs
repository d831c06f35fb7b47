//! State that other threads share with the eviction thread.

use super::moment::Moment;
use crate::core::Core;
use crate::core::descriptor_map::TrackedFile;
use crate::thread;
use coldstream_io::lock::FutexLock;
use coldstream_io::sys::process;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The number of SSTables that are remembered because background threads lately read them.
pub(super) const LATELY_READ: usize = 64;
/// A read that starts further ahead than this starts a new scan.
const SCAN_GAP_BYTES: u64 = 1 << 20;

/// The shared state. All-zero memory means that there is no eviction thread.
#[repr(C)]
pub struct Eviction {
    /// The eviction thread sleeps on the lower half of this word.
    pub(super) bell: AtomicU64,
    pub(super) is_running: AtomicBool,
    /// The time at which the thread last woke up ([`process::coarse_milliseconds`]). Saves others that call.
    pub(super) clock: AtomicU32,
    /// The lock is held while pages are dropped.
    pub(super) dropping: FutexLock<()>,
    /// Slots plus one of files that background threads lately read by plain calls.
    pub(super) lately_read: [AtomicU32; LATELY_READ],
}

impl Eviction {
    /// Wakes the thread.
    pub fn wake(&self) {
        self.bell.fetch_add(1, Ordering::AcqRel);
        process::futex_wake_shared(&self.bell);
    }

    /// The switch was changed. When this function returns, the change is in effect.
    pub fn switched(&self) {
        self.wake();
        drop(self.dropping.lock());
    }

    /// A background thread has read a file by a plain call, from `offset` up to `end`.
    #[inline]
    pub fn record_scan(&self, core: &Core, tracked: TrackedFile, offset: u64, end: u64) {
        if self.is_running.load(Ordering::Relaxed) && end > offset {
            self.record_plain_scan(core, tracked, offset, end);
        }
    }

    #[cold]
    fn record_plain_scan(&self, core: &Core, tracked: TrackedFile, offset: u64, end: u64) {
        let Some(inode) = core.inodes.get(tracked.slot) else {
            return;
        };
        let mixed = thread::own_number().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let Some(scan) = inode.scans.get(mixed % inode.scans.len()) else {
            return;
        };
        let before = Moment(scan.last.load(Ordering::Relaxed)).offset();
        // Threads that share an entry disturb each other's scans. Then fewer pages are dropped early.
        if offset + Moment::PAGE_BYTES <= before || offset > before + SCAN_GAP_BYTES {
            scan.started.store(offset, Ordering::Relaxed);
        }
        let clock = self.clock.load(Ordering::Relaxed);
        scan.last
            .store(Moment::new(clock, end).0, Ordering::Relaxed);
        let index = tracked.slot as usize % LATELY_READ;
        if let Some(lately) = self.lately_read.get(index)
            && lately.load(Ordering::Relaxed) != tracked.slot + 1
        {
            lately.store(tracked.slot + 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_on_until_there_is_a_gap() {
        let (core, tracked) = Core::with_file(3);
        // SAFETY: all-zero memory is a valid one.
        let eviction: Box<Eviction> = unsafe { Box::new_zeroed().assume_init() };
        let scan = || {
            let inode = core.inodes.get(tracked.slot).unwrap();
            let started = |scan: &crate::core::inode_map::Scan| {
                let last = Moment(scan.last.load(Ordering::Relaxed));
                (scan.started.load(Ordering::Relaxed), last.offset())
            };
            inode
                .scans
                .iter()
                .map(started)
                .max_by_key(|(_, last)| *last)
        };
        eviction.record_scan(&core, tracked, 0, 4096);
        assert_eq!(scan(), Some((0, 0)), "no thread drops pages");
        eviction.is_running.store(true, Ordering::Relaxed);
        eviction.record_scan(&core, tracked, 4 << 20, 5 << 20);
        eviction.record_scan(&core, tracked, 5 << 20, 6 << 20);
        assert_eq!(scan(), Some((4 << 20, 6 << 20)));
        eviction.record_scan(&core, tracked, 9 << 20, 10 << 20);
        assert_eq!(scan(), Some((9 << 20, 10 << 20)));
        let lately = &eviction.lately_read[tracked.slot as usize % LATELY_READ];
        assert_eq!(lately.load(Ordering::Relaxed), tracked.slot + 1);
    }
}
