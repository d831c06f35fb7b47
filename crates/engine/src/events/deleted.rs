//! A file is deleted. Where the application has closed an SSTable without a call that Coldstream saw, this is the
//! moment to give its space back: the private descriptors hold it.

use crate::core::descriptor_map::{Entry, TrackedFile};
use crate::core::errno::ErrnoGuard;
use crate::runtime::Runtime;
use crate::thread::Inside;
use coldstream_io::sys::{file, process};
use std::sync::atomic::Ordering;

/// The time between two looks at all descriptors. A look asks the kernel about each SSTable that has private ones:
/// a thousand deletions in a row would ask a million times.
const SWEEP_MILLISECONDS: u32 = 1000;

impl Runtime {
    /// Whether a deletion is to be told by [`Runtime::deleted`]. What closes without a call that is seen is rare, and a
    /// reader's descriptors are closed after a minute in any case.
    pub fn sweeps_at_deletion(&self) -> bool {
        if !self.core.has_private() {
            return false;
        }
        let now = process::coarse_milliseconds();
        let swept = self.swept_milliseconds.load(Ordering::Relaxed);
        now.wrapping_sub(swept) >= SWEEP_MILLISECONDS
            && (self.swept_milliseconds)
                .compare_exchange(swept, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// A file on `device` was deleted: ends the tracking of SSTables there whose descriptors are all closed. Their
    /// last private descriptors are closed here. The kernel may wait for the same device to delete the file.
    #[cold]
    pub fn deleted(&self, device: u64) {
        let _errno = ErrnoGuard::new();
        let Some(_inside) = Inside::enter() else {
            return;
        };
        let core = &self.core;
        if !core.owner.is_this_process() {
            return;
        }
        let mut seen = None;
        core.each_private(0, |slot| {
            let inode = core.inodes.get(slot);
            if seen != Some(slot) && inode.is_some_and(|inode| inode.is_on(device)) {
                self.forget_closed(slot);
            }
            seen = Some(slot);
        });
    }

    /// Takes those descriptors of an inode out of the map that do not name it any more. Stops at the first that does.
    /// If none does, the private descriptors are closed.
    fn forget_closed(&self, slot: u32) {
        let core = &self.core;
        let Some(inode) = core.inodes.get(slot) else {
            return;
        };
        let is_open = |descriptor| file::stamp(descriptor).is_ok_and(|stamp| inode.is(&stamp));
        let is_of_it = |entry: Entry| matches!(entry, Entry::Tracked(TrackedFile { slot: of, .. }) if of == slot);
        if let Some(likely) = inode.descriptor()
            && core.entry(likely).is_some_and(is_of_it)
            && is_open(likely)
        {
            return;
        }
        let mut is_any_open = false;
        core.each_descriptor(|descriptor, entry| {
            if is_any_open || !is_of_it(entry) {
                return;
            }
            if is_open(descriptor) {
                inode.record_descriptor(descriptor);
                is_any_open = true;
            } else if core.descriptors.take_if(descriptor, entry) {
                self.release(entry);
            }
        });
        if !is_any_open {
            // The count of its descriptors may be too high: see `Runtime::forget` and `Displaced`.
            core.close_windows(slot);
        }
    }
}
