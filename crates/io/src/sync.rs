//! Atomics and the futex: the machine's, or those of loom's model of it (`make loom`).

pub use imp::*;

#[cfg(not(loom))]
mod imp {
    pub use crate::sys::process::{futex_wait, futex_wake_one};
    pub use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
}

#[cfg(loom)]
mod imp {
    pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

    loom::lazy_static! {
        /// One queue of sleepers is enough: whom a wake-up does not mean sleeps on.
        static ref SLEEPERS: (loom::sync::Mutex<()>, loom::sync::Condvar) =
            (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
    }

    /// As the system call: sleeps only if the word still holds what is expected, and no wake-up
    /// can come in between.
    pub fn futex_wait(word: &AtomicU32, expected: u32) {
        let held = SLEEPERS.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(SLEEPERS.1.wait(held).unwrap());
        }
    }

    /// Wakes all: the system call, too, may wake whom nobody meant.
    pub fn futex_wake_one(_: &AtomicU32) {
        let _held = SLEEPERS.0.lock().unwrap();
        SLEEPERS.1.notify_all();
    }
}
