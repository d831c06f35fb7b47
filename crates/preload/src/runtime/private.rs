//! Descriptors of Coldstream's own: counted, hidden from the application, and given up when it needs room.

use super::Runtime;
use crate::core::descriptor_map::Entry;
use crate::core::errno::ErrnoGuard;
use crate::thread::Inside;
use coldstream_control::Counter;
use coldstream_io::private::{DescriptorRegistry, is_marked};
use coldstream_io::scan::{Event, ReadMode, ScanObserver};
use coldstream_io::sys::process;
use std::sync::atomic::Ordering;

/// Descriptors of our own start here, or where the last eighth of what the process may open does.
const LOWEST_DESCRIPTOR_MAX: u64 = 8192;
/// Of the descriptors that a process may open, Coldstream takes one in so many at most.
const DESCRIPTORS_SHARE: u64 = 8;
/// A process that may open fewer gets no descriptors of ours at all.
const DESCRIPTORS_MIN: u64 = 256;

impl Runtime {
    /// How many there may be, and from which number on, by what the process may open.
    pub(super) fn limit_private_descriptors(&self) {
        let limit = process::descriptor_limit();
        let most = (limit / DESCRIPTORS_SHARE).min(LOWEST_DESCRIPTOR_MAX);
        let lowest = (limit - most).min(LOWEST_DESCRIPTOR_MAX);
        self.lowest_descriptor
            .store(lowest as i32, Ordering::Relaxed);
        if limit >= DESCRIPTORS_MIN {
            self.private_descriptors_max
                .store(most as u32, Ordering::Relaxed);
        }
    }

    /// Gives up what an inode has private descriptors for. A stage that cannot be brought to the kernel
    /// keeps its own.
    pub(super) fn give_up_private(&self, slot: u32) {
        if let Some(_inside) = Inside::enter() {
            self.scanner.close(slot, self);
            let _ = self.fall_back_slot(slot, Counter::StagingEndedRoom);
        }
    }

    /// The application has run out of descriptors (`EMFILE`): gives all of Coldstream's own up,
    /// and says whether there were any, so that the call is worth another try.
    #[cold]
    pub(crate) fn make_room(&self) -> bool {
        let any = self.private_descriptors.load(Ordering::Relaxed) > 0 && self.are_ours();
        if any {
            self.descriptors.each_in(0, u32::MAX, |_, entry| {
                if let Entry::Private(slot) = entry {
                    self.give_up_private(slot);
                }
            });
        }
        any
    }

    /// The application asks for the first free number from `lowest` on: gives Coldstream's own up there.
    /// From below them on there is another one, until the application has used all of those up.
    pub(crate) fn make_room_from(&self, lowest: i32) {
        let private = self.private_descriptors.load(Ordering::Relaxed) > 0;
        if private && lowest >= self.lowest_descriptor() && self.are_ours() {
            self.descriptors
                .each_in(lowest as u32, u32::MAX, |_, entry| {
                    if let Entry::Private(slot) = entry {
                        self.give_up_private(slot);
                    }
                });
        }
    }

    /// Gives every window and every private descriptor of a reader up. Needs no thread-local
    /// storage.
    pub(crate) fn close_all_windows(&self) {
        self.descriptors.each_in(0, u32::MAX, |_, entry| {
            if let Entry::Private(slot) = entry {
                self.scanner.close(slot, self);
            }
        });
        self.note_memory();
    }

    /// Whether a descriptor is Coldstream's own: to the application it is not open.
    #[inline]
    pub(crate) fn is_private(&self, descriptor: i32) -> bool {
        matches!(self.descriptors.get(descriptor), Some(Entry::Private(_)))
            && self.is_private_still(descriptor)
    }

    /// Whether what is entered as Coldstream's own has not become the application's unseen.
    #[cold]
    pub(crate) fn is_private_still(&self, descriptor: i32) -> bool {
        let _errno = ErrnoGuard::new();
        is_marked(descriptor)
    }
}

impl ScanObserver for Runtime {
    fn count(&self, event: Event, amount: u64) {
        match event {
            Event::WindowRead(mode) => {
                self.count(Counter::WindowsRead, 1);
                if matches!(mode, ReadMode::Direct(_)) {
                    self.count(Counter::DeviceBytesDirect, amount);
                }
                self.note_memory();
            }
            Event::WindowWaited => self.count(Counter::WindowsWaited, amount),
            Event::Wasted => self.count(Counter::ReadAheadWastedBytes, amount),
            Event::AsynchronousUnavailable => self.count(Counter::AioUnavailable, amount),
        }
    }
}

impl DescriptorRegistry for Runtime {
    fn may_open(&self, slot: u32) -> bool {
        // Record locks are lost with any descriptor of the file that is closed: see `before_lock`.
        let is_locked = self.inodes.get(slot).is_some_and(|inode| inode.is_locked());
        !is_locked
            && self.private_descriptors.load(Ordering::Relaxed)
                < self.private_descriptors_max.load(Ordering::Relaxed)
    }

    fn register(&self, descriptor: i32, slot: u32) {
        self.private_descriptors.fetch_add(1, Ordering::Relaxed);
        // If there is no room for it in the table it is simply not hidden.
        let _ = self.descriptors.put(descriptor, Entry::Private(slot));
    }

    fn unregister(&self, descriptor: i32) {
        self.private_descriptors.fetch_sub(1, Ordering::Relaxed);
        if let Some(Entry::Private(_)) = self.descriptors.get(descriptor) {
            self.descriptors.take(descriptor);
        }
    }

    fn lowest_descriptor(&self) -> i32 {
        self.lowest_descriptor.load(Ordering::Relaxed)
    }
}
