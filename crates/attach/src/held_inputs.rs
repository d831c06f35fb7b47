//! Inputs of compactions that go on, held open, and how long they are held after they were deleted. Pure logic.

use crate::event::FileId;
use crate::look::REST_LOOKS;
use coldstream_policy::FileKind;
use std::collections::{HashMap, HashSet};
use std::fs::File;

/// A deleted input is held so long, for outputs that were published at once. Half a second.
const HELD_LOOKS: u64 = REST_LOOKS / 2;
/// Longer only for outputs that still need it. Its space is not free meanwhile. Ten seconds.
const HELD_LOOKS_MAX: u64 = 10 * REST_LOOKS;

/// An input.
#[derive(Debug)]
struct HeldInput<F> {
    file: F,
    kind: FileKind,
    /// The look at which it was found deleted.
    deleted_at: Option<u64>,
}

/// Those that are held. `F` is an open file.
#[derive(Debug)]
pub(crate) struct HeldInputs<F = File> {
    held: HashMap<FileId, HeldInput<F>>,
    /// Those for which there was no room.
    refused: HashSet<FileId>,
    max: usize,
}

impl<F> HeldInputs<F> {
    /// It has room for so many.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            held: HashMap::new(),
            refused: HashSet::new(),
            max,
        }
    }

    /// Closes the others. Also one that no output needs any more is known: its number may be given out again.
    pub(crate) fn keep_known(&mut self, is_known: impl Fn(FileId) -> bool) {
        self.held.retain(|id, _| is_known(*id));
        self.refused.retain(|id| is_known(*id));
    }

    pub(crate) fn has_room(&self) -> bool {
        self.held.len() < self.max
    }

    /// There is no room for this one. Returns whether that is new.
    pub(crate) fn refuse(&mut self, id: FileId) -> bool {
        self.refused.insert(id)
    }

    pub(crate) fn hold(&mut self, id: FileId, file: F, kind: FileKind) {
        let held = HeldInput {
            file,
            kind,
            deleted_at: None,
        };
        self.refused.remove(&id);
        self.held.insert(id, held);
    }

    pub(crate) fn file(&self, id: FileId) -> Option<&F> {
        self.held.get(&id).map(|held| &held.file)
    }

    pub(crate) fn kind(&self, id: FileId) -> Option<FileKind> {
        self.held.get(&id).map(|held| held.kind)
    }

    /// Whether any of them was found deleted.
    #[must_use]
    pub(crate) fn has_deleted(&self) -> bool {
        self.held.values().any(|held| held.deleted_at.is_some())
    }

    /// Takes out those that have been deleted for long enough. One of `wanted` stays for longer.
    #[must_use]
    pub(crate) fn expire(
        &mut self,
        look: u64,
        wanted: &HashSet<FileId>,
        is_deleted: impl Fn(FileId, &F) -> bool,
    ) -> Vec<(FileId, F)> {
        let mut expired = Vec::new();
        for (id, held) in &mut self.held {
            if !is_deleted(*id, &held.file) {
                held.deleted_at = None;
                continue;
            }
            let deleted_for = look - *held.deleted_at.get_or_insert(look);
            let held_for = if wanted.contains(id) {
                HELD_LOOKS_MAX
            } else {
                HELD_LOOKS
            };
            if deleted_for > held_for {
                expired.push(*id);
            }
        }
        let take = |id| self.held.remove(&id).map(|held| (id, held.file));
        expired.into_iter().filter_map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: FileId = FileId {
        device: 1,
        inode: 2,
    };
    const OTHER: FileId = FileId {
        device: 1,
        inode: 3,
    };

    #[test]
    fn a_deleted_input_is_held_for_half_a_second_and_a_wanted_one_for_ten() {
        let mut inputs = HeldInputs::new(2);
        for id in [WANTED, OTHER] {
            assert!(inputs.has_room());
            inputs.hold(id, (), FileKind::RocksDbSsTable);
        }
        assert!(!inputs.has_room());
        let wanted = HashSet::from([WANTED]);
        let mut expired = |look, is_deleted| inputs.expire(look, &wanted, |_, ()| is_deleted);
        assert!(expired(5, true).is_empty());
        assert!(inputs.has_deleted());
        let mut expired = |look, is_deleted| inputs.expire(look, &wanted, |_, ()| is_deleted);
        // It has a name again: a snapshot's.
        assert!(expired(6, false).is_empty());
        assert!(expired(100, true).is_empty());
        assert!(expired(100 + HELD_LOOKS, true).is_empty());
        assert_eq!(expired(101 + HELD_LOOKS, true), [(OTHER, ())]);
        assert!(expired(100 + HELD_LOOKS_MAX, true).is_empty());
        assert_eq!(expired(101 + HELD_LOOKS_MAX, true), [(WANTED, ())]);
        assert!(inputs.has_room());
    }

    #[test]
    fn an_input_that_is_not_known_any_more_is_closed() {
        let mut inputs = HeldInputs::new(2);
        for id in [WANTED, OTHER] {
            inputs.hold(id, (), FileKind::RocksDbSsTable);
        }
        inputs.keep_known(|id| id == OTHER);
        assert_eq!(inputs.file(WANTED), None);
        assert_eq!(inputs.kind(OTHER), Some(FileKind::RocksDbSsTable));
    }
}
