//! Threads with a role: their former priorities, and those that Coldstream sets.
//!
//! A thread registers itself when its role is looked up. The control thread sets and restores priorities
//! by thread id. So idle threads get their former priorities back too.
//!
//! A thread that ends leaves its entry behind, and the kernel may give its id to another thread. So there
//! are three rules:
//!
//! - a thread gets a priority only just after it has registered itself;
//! - otherwise a value is changed only while it is still the one that was set here;
//! - the id must be that of a thread of this process.

mod changes;

use crate::core::Core;
use crate::thread::Slot;
use changes::Changes;
use coldstream_control::{Counter, PageView};
use coldstream_io::lock::FutexLock;
use coldstream_io::sys::{process, thread_priority};
use coldstream_policy::{Priorities, PriorityMode, Role};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};

/// The most threads with a priority of ours at once. Further threads are left alone.
const THREADS_MAX: usize = 256;

/// The id of an entry that a thread is filling.
const CLAIMED: i32 = -1;

/// The threads; all-zero memory has none.
#[repr(C)]
pub struct Threads {
    entries: [Entry; THREADS_MAX],
}

#[repr(C)]
struct Entry {
    /// The thread's id; 0 is a free entry.
    id: AtomicI32,
    role: AtomicU8,
    /// The thread has registered itself since the control thread last looked.
    is_fresh: AtomicBool,
    /// The thread's present I/O priority, in the kernel's format; 0 is none.
    io_priority: AtomicI32,
    changes: FutexLock<Changes>,
}

impl Threads {
    /// The calling thread's role was looked up. `slot` is that of its entry, if it has one. Returns the new
    /// slot.
    #[cold]
    pub fn register(&self, core: &Core, role: Role, slot: Slot) -> Slot {
        // A `vfork` child shares the memory, and is another thread.
        if !core.owner.is_this_process() {
            return slot;
        }
        let id = process::thread_id();
        let slot = match self.entry(slot, id) {
            Some(entry) => {
                entry.role.store(role as u8, Ordering::Relaxed);
                entry.is_fresh.store(true, Ordering::Release);
                slot
            }
            None if role == Role::Foreground => return 0,
            None => match self.enter(id, role) {
                Some(slot) => slot,
                None => {
                    core.count(Counter::PriorityLimit, 1);
                    return 0;
                }
            },
        };
        core.wake_control_thread();
        slot
    }

    /// Runs `work`, which creates a thread. Meanwhile the calling thread has its former priority, because
    /// the new thread inherits it and may serve requests.
    #[cold]
    pub fn with_former_priority<T>(&self, core: &Core, slot: Slot, work: impl FnOnce() -> T) -> T {
        let entry = self.entry(slot, process::thread_id());
        match entry.filter(|_| core.owner.is_this_process()) {
            // The lock keeps the control thread from restoring a value that is about to be set again.
            Some(entry) => entry.changes.lock().suspend(work),
            None => work(),
        }
    }

    /// The entry in a slot, if it is this thread's.
    fn entry(&self, slot: Slot, id: i32) -> Option<&Entry> {
        self.entries
            .get(usize::from(slot).checked_sub(1)?)
            .filter(|entry| entry.id.load(Ordering::Acquire) == id)
    }

    /// I/O priority of the thread in a slot; 0 is none of its own.
    pub fn io_priority(&self, slot: Slot) -> i32 {
        let entry = usize::from(slot)
            .checked_sub(1)
            .and_then(|number| self.entries.get(number));
        entry.map_or(0, |entry| entry.io_priority.load(Ordering::Relaxed))
    }

    /// Enters a thread: in the last entry of its id, in a free one, or in that of a thread that has ended.
    fn enter(&self, id: i32, role: Role) -> Option<Slot> {
        let claim = |is_wanted: &dyn Fn(i32) -> bool| {
            self.entries.iter().position(|entry| {
                let found = entry.id.load(Ordering::Acquire);
                is_wanted(found)
                    && entry
                        .id
                        .compare_exchange(found, CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
                        .is_ok()
            })
        };
        let number = claim(&|found| found == id)
            .or_else(|| claim(&|found| found == 0))
            .or_else(|| claim(&|found| found > 0 && !thread_priority::is_own_thread(found)))?;
        let entry = self.entries.get(number)?;
        // Nothing was changed for this thread yet. The entry's former thread does not count.
        *entry.changes.lock() = Changes::default();
        entry.io_priority.store(0, Ordering::Relaxed);
        entry.role.store(role as u8, Ordering::Relaxed);
        entry.is_fresh.store(true, Ordering::Relaxed);
        entry.id.store(id, Ordering::Release);
        Some(number as Slot + 1)
    }

    /// Sets or restores the priority of every thread. Returns whether everything was restored that had to
    /// be. Only the control thread calls this.
    pub fn tend(&self, mode: PriorityMode, priorities: &Priorities, page: &PageView<'_>) -> bool {
        let mut all_given_back = true;
        let mut changed_threads = 0;
        for entry in &self.entries {
            let id = entry.id.load(Ordering::Acquire);
            if id <= 0 {
                continue;
            }
            let mut changes = entry.changes.lock();
            if !thread_priority::is_own_thread(id) {
                *changes = Changes::default();
                entry.io_priority.store(0, Ordering::Relaxed);
                // Unless another thread has claimed it meanwhile.
                let _ = entry
                    .id
                    .compare_exchange(id, 0, Ordering::AcqRel, Ordering::Relaxed);
                continue;
            }
            let is_fresh = entry.is_fresh.swap(false, Ordering::AcqRel);
            let wanted = priorities.of(Role::from_u8(entry.role.load(Ordering::Relaxed)));
            let nice = wanted.nice.map(i32::from);
            all_given_back &= changes.tend_nice(id, is_fresh, mode, nice, page);
            let io_priority = changes.tend_io(id, is_fresh, wanted.io.map(|io| io.kernel_value()));
            entry.io_priority.store(io_priority, Ordering::Relaxed);
            changed_threads += u64::from(changes.any());
        }
        page.set(Counter::PriorityThreads, changed_threads);
        all_given_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_control::{PAGE_WORDS, PageView};
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    fn threads() -> Box<Threads> {
        // SAFETY: all-zero memory is an empty list.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// A thread that lives until its end is requested.
    fn with_thread(work: impl FnOnce(i32)) {
        let (say, hear) = mpsc::channel();
        let (end, wait) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            say.send(process::thread_id()).unwrap();
            let _ = wait.recv();
        });
        let id = hear.recv().unwrap();
        work(id);
        drop(end);
        thread.join().unwrap();
        // A join returns a moment before the kernel has forgotten the id.
        let started = Instant::now();
        while thread_priority::nice(id).is_ok() {
            assert!(started.elapsed() < Duration::from_secs(60), "{id} lives");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thread_gets_what_its_role_gets_and_what_it_had() {
        let words: Vec<_> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let page = PageView::new(&words).unwrap();
        let threads = threads();
        let wanted = Priorities::default().with_nice("19").unwrap();
        with_thread(|id| {
            let slot = threads.enter(id, Role::Compaction).unwrap();
            // The tests themselves may run with the lowest nice value.
            let _ = thread_priority::set_nice(id, 5);
            let before = thread_priority::nice(id).unwrap();
            // In a thread of its own: it tries out on itself what may be taken back.
            let tend = |mode, priorities: &Priorities| {
                std::thread::scope(|scope| {
                    let work = scope.spawn(|| threads.tend(mode, priorities, &page));
                    work.join().unwrap()
                })
            };
            assert!(tend(PriorityMode::Auto, &wanted));
            assert_eq!(thread_priority::io_priority(id), Ok(2 << 13 | 7));
            assert_eq!(threads.io_priority(slot), 2 << 13 | 7);
            assert_eq!(page.get(Counter::PriorityThreads), 1);
            let refused = page.get(Counter::PriorityRefused) > 0;
            let after = thread_priority::nice(id).unwrap();
            assert_eq!(after, if refused { before } else { 19 });
            assert!(tend(PriorityMode::Auto, &Priorities::none()));
            let is_as_before = || {
                assert_eq!(
                    thread_priority::io_priority(id).map(|value| value >> 13),
                    Ok(0)
                );
                assert_eq!(thread_priority::nice(id), Ok(before));
                assert_eq!(page.get(Counter::PriorityThreads), 0);
            };
            is_as_before();
            // The id may be another thread's by now: not before it says itself who it is.
            assert!(tend(PriorityMode::Auto, &wanted));
            is_as_before();
            assert_eq!(threads.enter(id, Role::Compaction), Some(slot));
            assert!(tend(PriorityMode::Auto, &wanted));
            assert_eq!(thread_priority::nice(id), Ok(after));
        });
    }

    #[test]
    fn a_place_is_for_the_living() {
        let threads = threads();
        with_thread(|id| {
            let slot = threads.enter(id, Role::Compaction).unwrap();
            assert_eq!(threads.enter(id, Role::Flush), Some(slot));
            for entry in &threads.entries {
                entry.id.store(id, Ordering::Relaxed);
            }
            assert_eq!(threads.enter(id + 1, Role::Flush), None, "all are alive");
            assert!(threads.entry(slot, id).is_some());
            assert!(threads.entry(slot, id + 1).is_none());
        });
        // It has ended: any of its slots will do.
        assert!(threads.enter(1, Role::Flush).is_some());
    }
}
