//! The memory of the library's own code, from the application's heap.
//!
//! - The heap may refuse. Our own code uses [`coldstream_sstable::memory`], and leaves undone what it has no
//!   memory for. Refusals are counted.
//! - Code of others ends the process if it gets no memory: the readers of the configuration, and
//!   decompressors. It runs [`with_reserve`], which steps in where the heap refuses.
//! - The bytes in use are counted. If a process grows, its operator must be able to find out whether
//!   Coldstream is the reason.
//! - They have a limit, for all threads together. Beyond it the heap refuses. So many large handovers at once take
//!   no more than the documents promise.

use super::leak_sanitizer::System;
use super::reserve::{self, in_reserve};
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub use super::reserve::with_reserve;

/// The most bytes in use. An index of 64 MiB, the largest that is read, takes twice that while it is decompressed.
const BYTES_MAX: usize = 128 << 20;

/// The application's allocator, with a count of the library's bytes. It is outside the wiped region, because a
/// forked child keeps these bytes, but not the runtime that used them.
#[global_allocator]
static HEAP: CountedHeap = CountedHeap::new();

/// Bytes in use now.
pub fn used_bytes() -> usize {
    HEAP.used_bytes.load(Ordering::Relaxed)
}

/// The most bytes that were ever in use.
pub fn peak_bytes() -> usize {
    HEAP.peak_bytes.load(Ordering::Relaxed)
}

/// How often the library got no memory: the application's allocator had none, or it was too much.
pub fn refusals() -> u64 {
    HEAP.refusals.load(Ordering::Relaxed)
}

/// As [`Box::new`]. `None` if there is no memory.
pub fn boxed<T>(value: T) -> Option<Box<T>> {
    const { assert!(size_of::<T>() > 0) };
    let mut one = Vec::new();
    one.try_reserve_exact(1).ok()?;
    #[expect(clippy::disallowed_methods, reason = "there is room")]
    one.push(value);
    let one = Box::into_raw(one.into_boxed_slice());
    // SAFETY: a slice of one value, in memory of the value's own layout.
    Some(unsafe { Box::from_raw(one.cast::<T>()) })
}

struct CountedHeap {
    used_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    refusals: AtomicU64,
}

impl CountedHeap {
    const fn new() -> Self {
        Self {
            used_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// Whether so many bytes more are within the limit. Threads that ask at the same moment may exceed it.
    fn has_room(&self, bytes: usize) -> bool {
        self.used_bytes
            .load(Ordering::Relaxed)
            .saturating_add(bytes)
            <= BYTES_MAX
    }

    fn took(&self, bytes: usize) {
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak_bytes.fetch_max(used, Ordering::Relaxed);
    }

    fn gave_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Memory that the application's allocator gives by `ask`, or memory of the reserve.
    ///
    /// # Safety
    /// As for `ask`.
    unsafe fn take(&self, layout: Layout, ask: unsafe fn(Layout) -> *mut u8) -> *mut u8 {
        if self.has_room(layout.size()) {
            // SAFETY: passed on.
            let memory = unsafe { ask(layout) };
            if !memory.is_null() {
                self.took(layout.size());
                return memory;
            }
        }
        self.refusals.fetch_add(1, Ordering::Relaxed);
        reserve::take(layout)
    }
}

// SAFETY: every call is the system allocator's own, and its result is passed on unchanged. Where it has no
// memory, the reserve may have some. Such memory is told by its address, and given back to the reserve.
unsafe impl GlobalAlloc for CountedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as our caller promises.
        unsafe { self.take(layout, system_alloc) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as our caller promises.
        let memory = unsafe { self.take(layout, system_alloc_zeroed) };
        // Memory of the reserve may have been used before.
        if in_reserve(memory) {
            // SAFETY: just taken, with this size.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if !in_reserve(memory) && self.has_room(new_bytes.saturating_sub(layout.size())) {
            // SAFETY: as our caller promises.
            let moved = unsafe { system_realloc(memory, layout, new_bytes) };
            if !moved.is_null() {
                let bytes = layout.size();
                self.took(new_bytes.saturating_sub(bytes));
                self.gave_back(bytes.saturating_sub(new_bytes));
                return moved;
            }
        }
        // SAFETY: our caller promises that this is a layout.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_bytes, layout.align()) };
        // SAFETY: as our caller promises.
        let moved = unsafe { self.alloc(new_layout) };
        if !moved.is_null() {
            // SAFETY: both are valid for the shorter length, and do not overlap.
            unsafe { moved.copy_from_nonoverlapping(memory, layout.size().min(new_bytes)) };
            // SAFETY: as our caller promises.
            unsafe { self.dealloc(memory, layout) };
        }
        moved
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if in_reserve(memory) {
            reserve::give_back(memory, layout);
            return;
        }
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(memory, layout) };
        self.gave_back(layout.size());
    }
}

/// # Safety
/// As [`GlobalAlloc::alloc`].
unsafe fn system_alloc(layout: Layout) -> *mut u8 {
    #[cfg(test)]
    if reserve::tests::heap_is_exhausted() {
        return std::ptr::null_mut();
    }
    // SAFETY: as our caller promises.
    unsafe { System.alloc(layout) }
}

/// # Safety
/// As [`GlobalAlloc::alloc_zeroed`].
unsafe fn system_alloc_zeroed(layout: Layout) -> *mut u8 {
    #[cfg(test)]
    if reserve::tests::heap_is_exhausted() {
        return std::ptr::null_mut();
    }
    // SAFETY: as our caller promises.
    unsafe { System.alloc_zeroed(layout) }
}

/// # Safety
/// As [`GlobalAlloc::realloc`].
unsafe fn system_realloc(memory: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
    #[cfg(test)]
    if reserve::tests::heap_is_exhausted() {
        return std::ptr::null_mut();
    }
    // SAFETY: as our caller promises.
    unsafe { System.realloc(memory, layout, new_bytes) }
}

#[cfg(test)]
pub use reserve::tests::without_heap;

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
    fn more_than_the_limit_is_refused() {
        let heap = CountedHeap::new();
        let half = Layout::from_size_align(BYTES_MAX / 2, 8).unwrap();
        let whole = Layout::from_size_align(BYTES_MAX, 8).unwrap();
        // SAFETY: layouts of some bytes; each memory is freed with the layout that it has.
        unsafe {
            let first = heap.alloc(half);
            let second = heap.alloc_zeroed(half);
            assert!(!first.is_null() && !second.is_null());
            let beyond = Layout::from_size_align(4096, 8).unwrap();
            assert!(heap.alloc(beyond).is_null() && heap.alloc_zeroed(beyond).is_null());
            assert!(heap.realloc(first, half, half.size() + 4096).is_null());
            assert_eq!(heap.refusals.load(Ordering::Relaxed), 3);
            heap.dealloc(second, half);
            let first = heap.realloc(first, half, whole.size());
            assert!(!first.is_null());
            heap.dealloc(first, whole);
        }
        assert_eq!(heap.used_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn this_executable_has_a_heap() {
        assert!(used_bytes() > 0 && peak_bytes() >= used_bytes());
    }
}
