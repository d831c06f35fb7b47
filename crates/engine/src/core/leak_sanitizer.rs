//! The leak sanitizer of a program that was built with one. At the end it looks for blocks of the heap to which
//! no pointer leads, reports them, and ends the program with an error. It does not look into the library's own
//! mappings, and a forked child finds these empty. So the library's blocks are taken out of the search.
//!
//! <https://github.com/llvm/llvm-project/blob/main/compiler-rt/include/sanitizer/lsan_interface.h>

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `__lsan_ignore_object`; null in programs without the sanitizer.
static IGNORE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Takes the address of the sanitizer's `__lsan_ignore_object`, or null. To be called before the library's first
/// allocation.
///
/// # Safety
/// It is that function's address, or null.
pub unsafe fn set(ignore: *mut c_void) {
    IGNORE.store(ignore, Ordering::Relaxed);
}

/// The block, which was just allocated, out of the search.
fn ignored(block: *mut u8) -> *mut u8 {
    let ignore = IGNORE.load(Ordering::Relaxed);
    if !ignore.is_null() && !block.is_null() {
        // SAFETY: the sanitizer's function has this signature.
        let ignore = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_void)>(ignore)
        };
        // SAFETY: the block is in use.
        unsafe { ignore(block.cast()) };
    }
    block
}

/// The application's allocator, out of the sanitizer's sight.
pub(super) struct System;

// SAFETY: every call is the system allocator's own, and its result is passed on unchanged.
unsafe impl GlobalAlloc for System {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as our caller promises.
        ignored(unsafe { std::alloc::System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as our caller promises.
        ignored(unsafe { std::alloc::System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        // SAFETY: as our caller promises.
        ignored(unsafe { std::alloc::System.realloc(memory, layout, new_bytes) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as our caller promises.
        unsafe { std::alloc::System.dealloc(memory, layout) };
    }
}
