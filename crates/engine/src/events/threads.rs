//! Threads of the application: named, and made.

use crate::core::errno::ErrnoGuard;
use crate::runtime::{self, Runtime};
use crate::thread::{self, SLOT_IN_USE};

/// The calling thread got a name.
pub fn named_itself() {
    let _errno = ErrnoGuard::new();
    thread::forget_role(|slot| {
        slot != 0 && runtime::get().is_some_and(|runtime| runtime.core.owner.is_this_process())
    });
}

impl Runtime {
    /// Runs `make`, which makes a thread, with the priority that the calling thread had before Coldstream
    /// changed it: the new thread inherits it.
    #[inline]
    pub fn make_thread<T>(&self, make: impl FnOnce() -> T) -> T {
        match thread::priority_slot() {
            0 | SLOT_IN_USE => make(),
            slot => thread::with_slot_in_use(|| {
                self.priority.with_former_priority(&self.core, slot, make)
            }),
        }
    }
}
