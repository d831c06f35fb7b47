//! Re-entrancy: whether the calling thread is in the middle of Coldstream's own work.
//!
//! A signal handler may interrupt that work while a lock is held. It must never wait for its own thread.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread as inside Coldstream's own work, as long as it lives. A signal handler that
/// interrupts the work finds no lock to wait for: it makes the plain call.
pub struct Inside(());

impl Inside {
    /// `None` if the thread is inside already.
    pub fn enter() -> Option<Self> {
        // Lazily: a mark that is made in vain would remove the outer one when it is dropped.
        let entered = IS_INSIDE.with(|inside| (!inside.replace(true)).then(|| Self(())));
        // A lock may be taken from here on: a signal must not find it held and the mark unset.
        compiler_fence(Ordering::SeqCst);
        entered
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Every lock has been released. Without the fence the mark could be removed earlier.
        compiler_fence(Ordering::SeqCst);
        IS_INSIDE.with(|inside| inside.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_inside_once() {
        let inside = Inside::enter();
        assert!(inside.is_some());
        assert!(Inside::enter().is_none());
        drop(inside);
        assert!(Inside::enter().is_some());
    }
}
