//! Parts that every mechanism may use, and that use no mechanism: tracked files, windows, switches, the
//! status page, and memory of our own.

pub mod descriptor_map;
pub mod displaced;
pub mod errno;
pub mod fuse;
pub mod heap;
pub mod host_memory;
pub mod inherited;
pub mod inode_map;
pub mod leak_sanitizer;
pub mod owner;
mod predecessors;
mod private_descriptors;
mod reserve;
pub mod status_page;
pub mod switches;
pub mod text;

use crate::settings::Settings;
use coldstream_control::{Counter, Mechanism, PageView};
use coldstream_io::Errno;
use coldstream_io::private::{DescriptorRegistry, is_marked};
use coldstream_io::scan::{self, Event, ReadMode, ScanObserver, Scanner};
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::{Descriptor, process};
use descriptor_map::{DescriptorMap, Entry, PrivateFile, TrackedFile};
use displaced::Displaced;
use errno::ErrnoGuard;
use inode_map::InodeMap;
use owner::Owner;
use private_descriptors::PrivateDescriptors;
use status_page::StatusPage;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use switches::OwnSwitches;

/// State that several mechanisms share. All-zero memory is a valid, empty one.
#[repr(C)]
pub struct Core {
    /// What the descriptors of the process are.
    pub descriptors: DescriptorMap,
    /// The tracked files.
    pub inodes: InodeMap,
    /// The process that the state belongs to.
    pub owner: Owner,
    private: PrivateDescriptors,
    /// Entries whose numbers private descriptors have got.
    pub displaced: Displaced,
    /// The status page.
    pub status: StatusPage,
    /// Which mechanisms are off.
    pub switches: OwnSwitches,
    /// The scan reader of all background reads.
    pub scanner: Scanner,
    /// The largest request of background I/O, in bytes; 0 is no limit.
    request_bytes: AtomicUsize,
    /// Compactions are behind flushes, or wait for processors for long.
    is_behind: AtomicBool,
}

impl Core {
    /// Prepares for the first tracked file of this process.
    ///
    /// # Errors
    /// That of the memory for windows.
    pub fn open(&self, settings: &Settings) -> Result<(), Errno> {
        self.private.set_limits();
        inherited::set_first(self.private.lowest());
        let config = &settings.config;
        self.scanner.configure(scan::Settings {
            window_bytes: config.window_bytes,
            windows_in_flight: config.windows_in_flight,
            memory_bytes: config.memory_bytes,
        })
    }

    /// The entry of a descriptor in the descriptor map.
    #[inline]
    pub fn entry(&self, descriptor: i32) -> Option<Entry> {
        self.descriptors.get(descriptor)
    }

    /// The tracked file behind a descriptor of the application.
    #[inline]
    pub fn tracked(&self, descriptor: i32) -> Option<TrackedFile> {
        match self.descriptors.get(descriptor)? {
            Entry::Tracked(tracked) => Some(tracked),
            Entry::Private(_) => None,
        }
    }

    /// Calls `visit` for every descriptor in the descriptor map.
    pub fn each_descriptor(&self, visit: impl FnMut(i32, Entry)) {
        self.descriptors.each_in(0, u32::MAX, visit);
    }

    /// Changes the entry of a descriptor, unless the number names another file than that in `slot` by now. What other
    /// threads change meanwhile stays.
    pub fn update(&self, descriptor: i32, slot: u32, change: impl Fn(&mut TrackedFile)) {
        while let Some(present @ Entry::Tracked(mut tracked)) = self.descriptors.get(descriptor)
            && tracked.slot == slot
        {
            change(&mut tracked);
            let changed = Entry::Tracked(tracked);
            if self.descriptors.replace(descriptor, present, changed) {
                break;
            }
        }
    }

    /// The content of a tracked file changed, or may have.
    #[inline]
    pub fn record_change(&self, tracked: TrackedFile) {
        if let Some(inode) = self.inodes.get(tracked.slot) {
            inode.record_change();
        }
    }

    /// Whether a mechanism is on in this process.
    #[inline]
    pub fn is_on(&self, mechanism: Mechanism) -> bool {
        self.switches.is_on(mechanism)
    }

    /// The status page; `None` before the first tracked file.
    pub fn page(&self) -> Option<&PageView<'static>> {
        self.status.page()
    }

    /// The process ends: removes its status page. A child, which may share this memory, leaves its parent's.
    pub fn remove_page(&self) {
        if self.page().is_some() && self.owner.is_this_process() {
            self.status.remove();
        }
    }

    /// Removes the pages that ended processes of this user left behind.
    pub fn remove_predecessors(&self) {
        predecessors::remove_pages(&self.status.address());
    }

    /// Adds to a counter of the status page.
    pub fn count(&self, counter: Counter, amount: u64) {
        if let Some(page) = self.page() {
            page.add(counter, amount);
        }
    }

    /// Runs `work` under the fuse, and counts a panic. `None` after one.
    pub fn protect<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        fuse::protect(|| self.count(Counter::FallbackPanic, 1), work)
    }

    /// Wakes the control thread: there is a request to answer, or a thread without its priority.
    pub fn wake_control_thread(&self) {
        if let Some(page) = self.page() {
            page.ring();
            if let Some(bell) = page.bell() {
                process::futex_wake_shared(bell);
            }
        }
    }

    /// Whether compactions are behind: their threads should not lose any more time.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// Says whether compactions are behind.
    pub fn set_behind(&self, is_behind: bool) {
        self.is_behind.store(is_behind, Ordering::Relaxed);
    }

    /// Limits the requests of background I/O: bytes of one, and requests in flight; 0 is no limit.
    pub fn limit_requests(&self, request_bytes: usize, in_flight: usize) {
        self.request_bytes.store(request_bytes, Ordering::Relaxed);
        self.scanner.limit_requests(request_bytes, in_flight);
    }

    /// The largest request of a write; 0 is no limit.
    pub fn request_bytes(&self) -> usize {
        self.request_bytes.load(Ordering::Relaxed)
    }

    /// Puts the library's own use of memory, windows and heap, on the status page.
    pub fn publish_memory(&self) {
        if let Some(page) = self.page() {
            let pool = self.scanner.pool();
            page.set(Counter::WindowMemoryBytes, pool.used_bytes() as u64);
            page.set(Counter::WindowMemoryPeakBytes, pool.peak_bytes() as u64);
            page.set(Counter::HeapBytes, heap::used_bytes() as u64);
            page.set(Counter::HeapPeakBytes, heap::peak_bytes() as u64);
            page.set(Counter::HeapRefusals, heap::refusals());
        }
    }

    /// Gives unused pages of window memory back to the system.
    pub fn give_free_memory_back(&self) {
        self.scanner.pool().give_free_to_system();
    }

    /// Gives back what readers do not need any more. Returns whether there is more to give back later. Needs no
    /// thread-local storage.
    pub fn tend_readers(&self, now_milliseconds: u32) -> bool {
        let has_contexts = self.scanner.tend(now_milliseconds, self);
        self.each_private(self.private.lowest() as u32, |slot| {
            self.scanner.close_abandoned(slot, now_milliseconds, self);
        });
        has_contexts || self.private.any()
    }

    /// Gives bookkeeping back to the system that was never used, and windows that nobody uses.
    ///
    /// # Safety
    /// This must lie in a mapping of `map_for_life`.
    pub unsafe fn give_untouched_back(&self) {
        // SAFETY: passed on. The scanner is called with slots in use only.
        unsafe {
            self.inodes.give_untouched_back(|is_in_use| {
                self.scanner.give_untouched_back(is_in_use);
            });
        }
        self.give_free_memory_back();
    }

    /// Closes the windows and private descriptors of a file's readers.
    pub fn close_windows(&self, slot: u32) {
        self.scanner.close(slot, self);
    }

    /// Closes every window, and every private descriptor of a reader. Waits for the device. Needs no thread-local
    /// storage.
    pub fn close_all_windows(&self) {
        self.each_private(0, |slot| self.close_windows(slot));
        self.scanner.wait_for_orphans(self);
        self.publish_memory();
    }

    /// Whether there are private descriptors at present.
    pub fn has_private(&self) -> bool {
        self.private.any()
    }

    /// The lowest number of a private descriptor.
    pub fn lowest_private(&self) -> i32 {
        self.private.lowest()
    }

    /// Calls `visit` with the slot of each private descriptor from number `first` on.
    pub fn each_private(&self, first: u32, mut visit: impl FnMut(u32)) {
        self.descriptors.each_in(first, u32::MAX, |_, entry| {
            if let Entry::Private(private) = entry {
                visit(private.slot);
            }
        });
    }

    /// Whether a descriptor is Coldstream's own. The application sees a closed descriptor.
    #[inline]
    pub fn is_private(&self, descriptor: i32) -> bool {
        match self.descriptors.get(descriptor) {
            Some(Entry::Private(private)) => is_private_still(descriptor, private),
            _ => false,
        }
    }
}

/// Whether a descriptor that is entered as private still is. The application may have got the number after a
/// close that Coldstream did not see, perhaps for a socket that does not wait: it has the mark too.
#[cold]
pub fn is_private_still(descriptor: i32, private: PrivateFile) -> bool {
    let _errno = ErrnoGuard::new();
    let is_same = |stamp: FileStamp| PrivateFile::identity_of(&stamp) == private.identity;
    is_marked(descriptor) && file::stamp(descriptor).is_ok_and(is_same)
}

impl ScanObserver for Core {
    fn count(&self, event: Event, amount: u64) {
        match event {
            Event::WindowRead(mode) => {
                self.count(Counter::WindowsRead, 1);
                if matches!(mode, ReadMode::Direct(_)) {
                    self.count(Counter::DeviceBytesDirect, amount);
                }
                self.publish_memory();
            }
            Event::WindowWaited => self.count(Counter::WindowsWaited, amount),
            Event::ReadAheadWasted => self.count(Counter::ReadAheadWastedBytes, amount),
            Event::AsynchronousUnavailable => self.count(Counter::AioUnavailable, amount),
        }
    }
}

impl DescriptorRegistry for Core {
    fn may_open(&self, slot: u32) -> bool {
        // Closing any descriptor of a file drops the process's record locks on it (POSIX).
        let is_locked = self.inodes.get(slot).is_some_and(|inode| inode.is_locked());
        !is_locked && self.private.has_room()
    }

    fn has_room_to_keep(&self) -> bool {
        self.private.has_room_to_keep()
    }

    fn lowest_descriptor(&self) -> i32 {
        self.private.lowest()
    }

    fn register(&self, descriptor: Descriptor, slot: u32, stamp: &FileStamp) {
        if self.private.add() {
            // It closes what readers abandon.
            self.wake_control_thread();
        }
        inherited::record(descriptor.number(), stamp);
        let identity = PrivateFile::identity_of(stamp);
        let private = Entry::Private(PrivateFile { slot, identity });
        // If the map has no room for the descriptor, it is not hidden from the application.
        if let Ok(Some(closed @ Entry::Tracked(_))) =
            (self.descriptors).put(descriptor.number(), private)
        {
            self.displaced.add(closed);
        }
    }

    fn unregister(&self, descriptor: Descriptor) {
        let number = descriptor.number();
        self.private.remove();
        inherited::forget(number);
        if let Some(Entry::Private(_)) = self.descriptors.get(number) {
            self.descriptors.take(number);
        }
    }
}

#[cfg(test)]
impl Core {
    /// An empty one, for tests of mechanisms without a process around them.
    pub fn empty() -> Box<Self> {
        // SAFETY: all-zero memory is a valid, empty one.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// An empty one that may open private descriptors.
    pub fn with_private() -> Box<Self> {
        let core = Self::empty();
        core.private.set_limits();
        core
    }

    /// An empty one in which a file is tracked by a descriptor.
    pub fn with_file(descriptor: i32) -> (Box<Self>, TrackedFile) {
        let core = Self::empty();
        let stamp = coldstream_io::sys::file::FileStamp {
            inode: 7,
            ..Default::default()
        };
        let tracked = TrackedFile {
            slot: core.inodes.attach(&stamp, false).unwrap(),
            kind: coldstream_policy::FileKind::RocksDbSsTable,
            writable: false,
            servable: true,
            watched: false,
            advice: 0,
            in_sequence: false,
            at_offsets: false,
        };
        let entry = Entry::Tracked(tracked);
        core.descriptors.put(descriptor, entry).unwrap();
        (core, tracked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_file_gets_no_private_descriptor() {
        let (core, tracked) = Core::with_file(3);
        assert!(!core.may_open(tracked.slot), "none without a limit");
        core.private.set_limits();
        assert!(core.may_open(tracked.slot));
        core.inodes.get(tracked.slot).unwrap().record_lock();
        assert!(!core.may_open(tracked.slot));
    }

    #[test]
    fn what_another_thread_changes_meanwhile_stays() {
        let (core, tracked) = Core::with_file(3);
        let other = std::cell::Cell::new(true);
        core.update(3, tracked.slot, |file| {
            if other.take() {
                core.update(3, tracked.slot, |file| file.in_sequence = true);
            }
            file.advice = 1;
        });
        let both = TrackedFile {
            advice: 1,
            in_sequence: true,
            ..tracked
        };
        assert_eq!(core.tracked(3), Some(both));
    }

    #[test]
    fn a_file_that_has_lost_its_number_is_not_updated() {
        let (core, tracked) = Core::with_file(3);
        let advised = TrackedFile {
            advice: 1,
            ..tracked
        };
        core.update(3, tracked.slot, |file| file.advice = 1);
        assert_eq!(core.tracked(3), Some(advised));
        core.update(3, tracked.slot + 1, |file| file.advice = 2);
        assert_eq!(core.tracked(3), Some(advised));
        core.update(4, tracked.slot, |file| file.advice = 2);
        assert_eq!(core.tracked(4), None);
    }
}
