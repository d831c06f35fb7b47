//! Tracked descriptors whose numbers Coldstream's own descriptors have got. Somebody had closed them without a call
//! that Coldstream saw.
//!
//! Who opens a private descriptor holds a file's lock, so it cannot release another file. The next open or close of
//! an SSTable does that.

use super::descriptor_map::{Entry, KnownDescriptor};
use coldstream_io::lock::FutexLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Further ones are lost: their inodes count a descriptor too many.
const DISPLACED_MAX: usize = 64;

/// All-zero memory holds none.
#[repr(C)]
pub struct Displaced {
    count: AtomicU32,
    /// Packed entries; 0 is none.
    entries: FutexLock<[u64; DISPLACED_MAX]>,
}

impl Displaced {
    /// Adds an entry that was displaced.
    pub fn add(&self, entry: Entry) {
        let mut entries = self.entries.lock();
        if let Some(free) = entries.iter_mut().find(|word| **word == 0) {
            *free = entry.pack();
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether there are any.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Takes one out.
    pub fn take(&self) -> Option<Entry> {
        let mut entries = self.entries.lock();
        let taken = entries.iter_mut().find(|word| **word != 0)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        KnownDescriptor::of(std::mem::take(taken)).map(KnownDescriptor::entry)
    }
}
