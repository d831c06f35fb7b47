//! Who did what an event tells, as far as the event itself shows it. Pure logic.

use crate::event::{Call, Event};
use coldstream_policy::{Profile, Role};

/// By what a compaction's reads differ from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// By the names of threads.
    Names,
    /// By `FADV_SEQUENTIAL` on the descriptor, as the kernel's readahead shows it.
    Advice,
}

/// Who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A compaction, or another reader of whole SSTables.
    Background,
    /// A memtable flush: its output stays cached.
    Flush,
    /// All other threads.
    Foreground,
    /// By a descriptor whose advice may tell. [`crate::model::Model::record`] does.
    Descriptor(u32),
    /// A read in order, of a compaction or a scan. It protects its pages, and is no sign of heat.
    InOrder,
}

/// Roles by names of threads. To find one takes longer than the rest of an event, and most events are of few names.
#[derive(Debug)]
pub struct Roles([Option<([u8; 16], Role)>; ROLES_KEPT]);

/// A power of two.
const ROLES_KEPT: usize = 64;

impl Default for Roles {
    fn default() -> Self {
        Self([None; ROLES_KEPT])
    }
}

impl Roles {
    /// The role of a thread with this name.
    pub fn of(&mut self, name: &[u8; 16]) -> Role {
        let number = u128::from_ne_bytes(*name);
        let mixed = (number as u64 ^ (number >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let place = (mixed >> (64 - ROLES_KEPT.ilog2())) as usize;
        match self.0.get_mut(place) {
            Some(Some((kept, role))) if kept == name => *role,
            kept => {
                let role = Profile::Auto.role_of_thread(name);
                if let Some(kept) = kept {
                    *kept = Some((*name, role));
                }
                role
            }
        }
    }
}

impl Origin {
    /// By the role that the thread's name tells, or else by what it does.
    #[must_use]
    pub fn of(event: &Event, role: Role, recognition: Recognition) -> Self {
        match role {
            Role::Flush => return Self::Flush,
            role if role.is_background_reader() => return Self::Background,
            _ => {}
        }
        match event.call {
            _ if recognition == Recognition::Names => Self::Foreground,
            Some(Call::Read(descriptor)) => Self::Descriptor(descriptor),
            // A compaction or a flush: goroutines do not tell.
            Some(Call::Write(_) | Call::Other) | None => Self::Foreground,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_role_is_that_of_its_name() {
        let mut roles = Roles::default();
        // More names than are kept.
        let names: Vec<[u8; 16]> = (0..4 * ROLES_KEPT)
            .map(|number| {
                let kind = ["rocksdb:low", "rocksdb:high", "client"][number % 3];
                let mut name = [0; 16];
                let text = format!("{kind}{}", number % 100);
                name[..text.len()].copy_from_slice(text.as_bytes());
                name
            })
            .collect();
        for name in names.iter().chain(&names) {
            let known = Profile::Auto.role_of_thread(name);
            assert_eq!([roles.of(name), roles.of(name)], [known; 2]);
        }
    }
}
