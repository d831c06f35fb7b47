//! The role of a thread, as its name tells. A name that another thread changes is noticed at the next read.

use coldstream_policy::Role;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Moves on whenever a thread named another one: every thread then looks its own name up again.
/// Starts above the zero of a thread that has never looked.
static NAMES_EPOCH: AtomicU32 = AtomicU32::new(1);

/// The number of a thread's entry in [`crate::priority`] plus one; 0 is none.
pub type Slot = u16;

/// Instead of the slot of a thread whose priority is being changed, by itself.
pub const SLOT_IN_USE: Slot = Slot::MAX;

pub(super) struct KnownRole {
    /// Epoch of the names at which `role` was looked up; 0 is never.
    epoch: Cell<u32>,
    role: Cell<u8>,
    slot: Cell<Slot>,
}

impl KnownRole {
    pub(super) const fn none() -> Self {
        Self {
            epoch: Cell::new(0),
            role: Cell::new(Role::Foreground as u8),
            slot: Cell::new(0),
        }
    }

    /// Whether the role must be looked up first.
    #[inline]
    pub(super) fn is_stale(&self) -> bool {
        self.epoch.get() != NAMES_EPOCH.load(Ordering::Relaxed)
    }

    /// The role as it was looked up last.
    #[inline]
    pub(super) fn get(&self) -> Role {
        Role::from_u8(self.role.get())
    }

    /// The next look-up is due.
    pub(super) fn forget(&self) {
        self.epoch.set(0);
    }

    pub(super) fn slot(&self) -> Slot {
        self.slot.get()
    }

    pub(super) fn set_slot(&self, slot: Slot) {
        self.slot.set(slot);
    }

    /// Sets the role that `find` returns. `register` gets it, with the thread's slot, and returns the
    /// slot from now on.
    pub(super) fn look_up(&self, find: impl FnOnce() -> Role, register: fn(Role, Slot) -> Slot) {
        // The epoch comes first: if a name is set during this look-up, the next read looks it up again.
        self.epoch.set(NAMES_EPOCH.load(Ordering::Relaxed));
        let role = find();
        self.role.set(role as u8);
        let slot = self.slot.get();
        if slot == SLOT_IN_USE {
            // The thread cannot be registered now. Its next read tries again.
            self.epoch.set(0);
        } else if role != Role::Foreground || slot != 0 {
            self.slot.set(register(role, slot));
        }
    }
}

/// Every thread looks its name up again. Needs no thread-local storage.
pub fn forget_all_roles() {
    if NAMES_EPOCH.fetch_add(1, Ordering::Relaxed) == u32::MAX {
        // Zero means "never looked up".
        NAMES_EPOCH.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_registered_with_its_role_unless_its_slot_is_in_use() {
        let known = KnownRole::none();
        assert!(known.is_stale());
        known.look_up(|| Role::Foreground, |_, _| panic!("has no slot"));
        assert!(!known.is_stale());
        known.look_up(|| Role::Compaction, |_, slot| slot + 7);
        assert_eq!((known.get(), known.slot()), (Role::Compaction, 7));
        known.set_slot(SLOT_IN_USE);
        known.look_up(|| Role::Flush, |_, _| panic!("not now"));
        assert!(known.is_stale());
        assert_eq!((known.get(), known.slot()), (Role::Flush, SLOT_IN_USE));
    }
}
