//! Counts the bytes of the application's heap that the library itself uses.
//!
//! Three things allocate: the start of the runtime, handovers, and the lineage that they need. If a process
//! grows, its operator must be able to find out whether Coldstream is the reason.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The application's allocator, with a count of the library's bytes. It is outside the wiped region, because a
/// forked child keeps these bytes, but not the runtime that used them.
#[global_allocator]
static HEAP: CountedHeap = CountedHeap::new();

/// Bytes in use now.
pub(crate) fn used_bytes() -> usize {
    HEAP.used_bytes.load(Ordering::Relaxed)
}

/// The most bytes that were ever in use.
pub(crate) fn peak_bytes() -> usize {
    HEAP.peak_bytes.load(Ordering::Relaxed)
}

struct CountedHeap {
    used_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
}

impl CountedHeap {
    const fn new() -> Self {
        Self {
            used_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
        }
    }

    fn took(&self, bytes: usize) {
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_bytes.fetch_max(used, Ordering::Relaxed);
    }

    fn gave_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is the system allocator's own, and its result is passed on unchanged.
unsafe impl GlobalAlloc for CountedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as our caller promises.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            self.took(layout.size());
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as our caller promises.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            self.took(layout.size());
        }
        memory
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: as our caller promises.
        let moved = unsafe { System.realloc(memory, layout, new_bytes) };
        if !moved.is_null() {
            let bytes = layout.size();
            self.took(new_bytes.saturating_sub(bytes));
            self.gave_back(bytes.saturating_sub(new_bytes));
        }
        moved
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(memory, layout) };
        self.gave_back(layout.size());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_and_given_back_is_counted() {
        let heap = CountedHeap::new();
        let counted = || {
            let used = heap.used_bytes.load(Ordering::Relaxed);
            (used, heap.peak_bytes.load(Ordering::Relaxed))
        };
        let layout = Layout::from_size_align(1000, 8).unwrap();
        let grown = Layout::from_size_align(3000, 8).unwrap();
        // SAFETY: layouts of some bytes; each memory is freed with the layout that it has.
        unsafe {
            let first = heap.alloc(layout);
            let second = heap.alloc_zeroed(layout);
            assert_eq!((*second, counted()), (0, (2000, 2000)));
            let second = heap.realloc(second, layout, grown.size());
            assert_eq!(counted().0, 4000);
            heap.dealloc(first, layout);
            heap.dealloc(second, grown);
        }
        assert_eq!(counted(), (0, 4000));
    }

    #[test]
    fn this_executable_has_a_heap() {
        assert!(used_bytes() > 0 && peak_bytes() >= used_bytes());
    }
}
