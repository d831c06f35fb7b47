//! Atomics and the futex: those of the machine, or those of loom's model (`make loom`).

pub use imp::*;

#[cfg(not(loom))]
mod imp {
    pub use crate::sys::futex::{futex_wait, futex_wait_for, futex_wake_one};
    pub use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
}

#[cfg(loom)]
mod imp {
    pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    loom::lazy_static! {
        /// One queue is enough for all words: a sleeper of another word sleeps again.
        static ref SLEEPERS: (loom::sync::Mutex<()>, loom::sync::Condvar) =
            (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
    }

    /// As the system call: sleeps only if the word still holds `expected`. No wake-up can come between
    /// the comparison and the sleep.
    pub fn futex_wait(word: &AtomicU32, expected: u32) {
        let held = SLEEPERS.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(SLEEPERS.1.wait(held).unwrap());
        }
    }

    /// As [`futex_wait`]: a model has no time.
    pub fn futex_wait_for(word: &AtomicU32, expected: u32, _milliseconds: u32) {
        futex_wait(word, expected);
    }

    /// Wakes all sleepers. The system call may also wake a thread without a reason.
    pub fn futex_wake_one(_: &AtomicU32) {
        let _held = SLEEPERS.0.lock().unwrap();
        SLEEPERS.1.notify_all();
    }
}
