//! Whether flushes go around the page cache just now, with `--flush auto` ([`FlushWatch`]).
//!
//! A flush's thread looks when it makes an SSTable, once in five seconds at most.

use crate::core::Core;
use crate::core::host_memory;
use crate::heat::HeatMap;
use coldstream_control::Counter;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::lock::FutexLock;
use coldstream_io::sys::file;
use coldstream_io::sys::process;
use coldstream_policy::{FlushInterval, FlushWatch};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Two looks are at least so far apart.
const LOOK_NS: u64 = 5_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;
/// Flushes that are remembered.
const RECENT: usize = 4;
/// Pages of a flush that are looked at for reads of the foreground.
const SAMPLES: u64 = 64;

/// The flushes of the process; all-zero memory is a new one.
#[repr(C)]
pub struct Flushes {
    looks: FutexLock<Looks>,
    goes_around: AtomicBool,
    flushed_bytes: AtomicU64,
    recent: [Recent; RECENT],
    next: AtomicUsize,
}

/// An SSTable that was flushed. Two threads may mix up two of them: the figures are estimates.
#[repr(C)]
struct Recent {
    key: AtomicU64,
    size_bytes: AtomicU64,
}

/// The last look.
#[repr(C)]
struct Looks {
    watch: FlushWatch,
    /// 0 before the first.
    looked_ns: u64,
    refaulted_pages: u64,
}

impl Flushes {
    /// A flush's thread is about to close an SSTable that it wrote.
    pub fn record(&self, core: &Core, descriptor: i32) {
        let inode = (core.tracked(descriptor)).and_then(|tracked| core.inodes.get(tracked.slot));
        if let Some(inode) = inode
            && let Ok(stamp) = file::stamp(descriptor)
        {
            self.flushed_bytes
                .fetch_add(stamp.size_bytes, Ordering::Relaxed);
            let turn = self.next.fetch_add(1, Ordering::Relaxed) % RECENT;
            if let Some(recent) = self.recent.get(turn) {
                recent.key.store(inode.key(), Ordering::Relaxed);
                recent.size_bytes.store(stamp.size_bytes, Ordering::Relaxed);
            }
        }
    }

    /// Whether the next SSTable of a flush goes around the page cache.
    pub fn go_around(&self, core: &Core, heat: &HeatMap) -> bool {
        // Whoever comes while another one looks does as before.
        if let Some(mut looks) = self.looks.try_lock() {
            let now_ns = process::monotonic_ns();
            if now_ns - looks.looked_ns >= LOOK_NS {
                let goes_around = self.look(&mut looks, heat, now_ns);
                self.goes_around.store(goes_around, Ordering::Relaxed);
            }
        }
        let goes_around = self.goes_around.load(Ordering::Relaxed);
        core.count(Counter::FlushesBypassed, u64::from(goes_around));
        goes_around
    }

    fn look(&self, looks: &mut Looks, heat: &HeatMap, now_ns: u64) -> bool {
        let refaulted_pages = host_memory::refaulted_pages().unwrap_or(0);
        let flushed_bytes = self.flushed_bytes.swap(0, Ordering::Relaxed);
        let is_first = looks.looked_ns == 0;
        let seen = FlushInterval {
            refaulted_pages: refaulted_pages.saturating_sub(looks.refaulted_pages),
            flushed_pages: flushed_bytes / PAGE_BYTES,
            read_percent: self.read_percent(heat),
            is_full: !host_memory::has_room(),
        };
        looks.looked_ns = now_ns;
        looks.refaulted_pages = refaulted_pages;
        // Before the first look nobody has counted.
        !is_first && looks.watch.look(now_ns / MILLISECOND_NS, &seen)
    }

    /// The percentage of pages that the foreground has read, of the flush that it has read most.
    fn read_percent(&self, heat: &HeatMap) -> u64 {
        let Some(present) = heat.present() else {
            // Nobody knows what is read: it stays in the page cache.
            return 100;
        };
        let of = |recent: &Recent| {
            let key = recent.key.load(Ordering::Relaxed);
            let pages = recent.size_bytes.load(Ordering::Relaxed) / PAGE_BYTES;
            let samples = pages.min(SAMPLES);
            let read = (0..samples).filter(|sample| {
                let page = pages * sample / samples;
                present.of_hot(key, page * PAGE_BYTES, 1) > 0
            });
            (read.count() as u64 * 100)
                .checked_div(samples)
                .unwrap_or(0)
        };
        self.recent.iter().map(of).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_last_flushes_the_one_that_was_read_most_counts() {
        // SAFETY: all-zero memory is a valid one.
        let flushes: Box<Flushes> = unsafe { Box::new_zeroed().assume_init() };
        // SAFETY: as above.
        let heat: Box<HeatMap> = unsafe { Box::new_zeroed().assume_init() };
        assert_eq!(flushes.read_percent(&heat), 100, "nothing is counted");
        heat.open(1 << 20, 1 << 30);
        assert_eq!(flushes.read_percent(&heat), 0, "nothing was flushed");
        let Some(present) = heat.present() else {
            panic!("it is open");
        };
        for (recent, (key, read_pages)) in flushes.recent.iter().zip([(7, 64), (8, 256), (9, 0)]) {
            recent.key.store(key, Ordering::Relaxed);
            recent.size_bytes.store(512 * PAGE_BYTES, Ordering::Relaxed);
            for page in 0..read_pages {
                (present.heat).touch(key, page * PAGE_BYTES, 100, present.epoch);
            }
        }
        assert_eq!(flushes.read_percent(&heat), 50);
    }
}
