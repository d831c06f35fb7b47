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

impl Origin {
    /// By the thread's name, or else by what it does.
    #[must_use]
    pub fn of(event: &Event, recognition: Recognition) -> Self {
        match Profile::Auto.role_of_thread(&event.name) {
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
