//! The heat of this process's SSTables: a sketch in memory of its own, and its clock.

use crate::core::Core;
use coldstream_control::Counter;
use coldstream_io::append::Operation;
use coldstream_io::mapping::{OnFork, give_untouched_back, map_for_life};
use coldstream_io::sys::memory;
use coldstream_io::sys::process;
use coldstream_policy::heat::{Epochs, GROUP_WORDS, Heat, Touched};
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU64, AtomicUsize, Ordering};

/// Heat uses at most 1/128 of the memory that the process may have. This is enough to keep every second page
/// of a full page cache in a group of its own.
const MEMORY_SHARE: u64 = 128;
/// The least that can be configured.
const HEAT_BYTES_MIN: usize = 64 << 10;

/// A read of the foreground that is about to be made, and counts once it is.
///
/// Its group is on the way into the processor's cache meanwhile: the engine has driven it out since the last read. To
/// wait for it costs more than all else here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    key: u64,
    offset: u64,
    length_bytes: u64,
    in_scan: bool,
}

/// All-zero memory counts nothing.
#[repr(C)]
pub struct HeatMap {
    words: AtomicPtr<AtomicU64>,
    word_count: AtomicUsize,
    epoch: AtomicU16,
    pages_in_epoch: AtomicU64,
    /// Real time of the first count.
    since_ns: AtomicU64,
    epochs: Epochs,
}

/// The sketch at one moment.
#[derive(Clone, Copy)]
pub struct Present {
    /// The sketch.
    pub heat: Heat<'static>,
    /// Its clock.
    pub epoch: u16,
}

impl Present {
    /// The heat at an offset of the file `key`, if it is hot and its heat is at least `least`; else 0.
    #[inline]
    pub fn of_hot(&self, key: u64, offset: u64, least: u8) -> u8 {
        let heat = self.heat.of_hot(key, offset, self.epoch);
        if heat < least { 0 } else { heat }
    }
}

impl HeatMap {
    /// Takes memory and starts to count. An epoch has as many pages as `memory_bytes`.
    ///
    /// The sketch uses a page of its memory for each part of an SSTable that is read. Reads far apart use a page
    /// each, however little of it they need. So it gets a small part of the memory only.
    pub fn open(&self, heat_bytes: usize, memory_bytes: u64) {
        let share = usize::try_from(memory_bytes / MEMORY_SHARE).unwrap_or(usize::MAX);
        let heat_bytes = heat_bytes.min(share).max(HEAT_BYTES_MIN);
        self.pages_in_epoch
            .store((memory_bytes / 4096).max(1), Ordering::Relaxed);
        let Ok(words) = map_for_life(heat_bytes, OnFork::Wipe) else {
            return;
        };
        let word_count = heat_bytes / size_of::<AtomicU64>();
        self.word_count
            .store(word_count - word_count % GROUP_WORDS, Ordering::Relaxed);
        let now_ns = process::clock_ns(libc::CLOCK_REALTIME);
        let now_ns = u64::try_from(now_ns).unwrap_or(0);
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.words.store(words.cast(), Ordering::Release);
    }

    /// Gives pages without heat back to the system that `mlockall` has made resident. Heat that a page gets just now
    /// may be lost.
    pub fn give_untouched_back(&self) {
        let words = self.words.load(Ordering::Acquire);
        if !words.is_null() {
            let length_bytes = self.word_count.load(Ordering::Relaxed) * size_of::<AtomicU64>();
            // SAFETY: a mapping of at least this length, which lives as long as the process. Heat is an estimate.
            unsafe { give_untouched_back(words.cast(), length_bytes, |_| true) };
        }
    }

    /// The sketch; `None` if nothing is counted.
    #[inline]
    pub fn present(&self) -> Option<Present> {
        let words = self.words.load(Ordering::Acquire);
        if words.is_null() {
            return None;
        }
        // SAFETY: a zeroed mapping of at least this many words, which lives as long as the process.
        let words =
            unsafe { std::slice::from_raw_parts(words, self.word_count.load(Ordering::Relaxed)) };
        Some(Present {
            heat: Heat::new(words)?,
            epoch: self.epoch.load(Ordering::Relaxed),
        })
    }

    /// Whether the page at an offset of the file in this slot is hot.
    pub fn is_hot(&self, core: &Core, slot: u32, offset: u64) -> bool {
        let known = self.present().zip(core.inodes.get(slot));
        known.is_some_and(|(Present { heat, epoch }, inode)| {
            heat.of_hot(inode.key(), offset, epoch) > 0
        })
    }

    /// Whether enough was read to call a range without heat cold. Enough are seven reads for each range of
    /// 224 KiB that memory could hold. If reads are even, one range in a thousand then has no heat by chance.
    /// A process that has just started has read too little.
    pub fn is_known(&self) -> bool {
        self.epochs.pages() >= self.pages_in_epoch.load(Ordering::Relaxed) / 8
    }

    /// The real time since which reads are counted, in the first epoch: SSTables that are older may have hot pages without
    /// heat. `None` afterwards: what was not read for an epoch is cold.
    pub fn counted_since_ns(&self) -> Option<i128> {
        let (pages, pages_in_epoch) = self.clock();
        (pages < pages_in_epoch).then(|| i128::from(self.since_ns.load(Ordering::Relaxed)))
    }

    /// A foreground call on the file in this slot is about to be made. Returns what to [record](Self::record)
    /// afterwards. A read without a known range marks the file as one of uncounted use.
    #[inline]
    pub fn foresee(
        &self,
        core: &Core,
        slot: u32,
        operation: Operation,
        in_scan: bool,
    ) -> Option<Use> {
        let inode = core.inodes.get(slot)?;
        match operation {
            Operation::ReadAt { start, end } => {
                let Present { heat, .. } = self.present()?;
                inode.record_read();
                let key = inode.key();
                if let Some(group) = heat.group_of(key, start) {
                    memory::fetch(group);
                }
                Some(Use {
                    key,
                    offset: start,
                    length_bytes: end - start,
                    in_scan,
                })
            }
            Operation::Read => {
                inode.record_uncounted_use();
                None
            }
            _ => None,
        }
    }

    /// Records the heat of a read that was made. One within a scan counts half.
    #[inline]
    pub fn record(&self, core: &Core, made: Use) {
        let Some(Present { heat, epoch }) = self.present() else {
            return;
        };
        let Use {
            key,
            offset,
            length_bytes,
            in_scan,
        } = made;
        let touched = if in_scan {
            heat.pass(key, offset, length_bytes, epoch)
        } else {
            heat.touch(key, offset, length_bytes, epoch)
        };
        match touched {
            Touched::Plain => {}
            Touched::FirstSinceWarmed => core.count(Counter::HandoverRangesHit, 1),
            Touched::Displaced => core.count(Counter::HeatDisplaced, 1),
        }
    }

    /// The pages that the foreground has read, and how many of them are an epoch.
    pub fn clock(&self) -> (u64, u64) {
        let pages_in_epoch = self.pages_in_epoch.load(Ordering::Relaxed);
        (self.epochs.pages(), pages_in_epoch)
    }

    /// The foreground has read this many pages: the clock advances.
    pub fn advance(&self, pages: u64) {
        if self.words.load(Ordering::Relaxed).is_null() {
            return;
        }
        self.epochs.record_pages(pages);
        let epoch = self.epochs.now(self.pages_in_epoch.load(Ordering::Relaxed));
        // Every read loads what lies beside it.
        if self.epoch.load(Ordering::Relaxed) != epoch {
            self.epoch.store(epoch, Ordering::Relaxed);
        }
    }
}
