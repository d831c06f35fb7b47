//! Finished outputs whose hot pages are to be warmed, the first one first. Pure logic.

use crate::event::FileId;
use coldstream_policy::FileKind;
use std::collections::VecDeque;

/// Most outputs that wait to be warmed. Their inputs are held meanwhile.
const DUE_MAX: usize = 64;

/// A finished output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) id: FileId,
    pub(crate) writer: u32,
    pub(crate) kind: FileKind,
}

/// Those that wait.
#[derive(Debug, Default)]
pub(crate) struct DueOutputs(VecDeque<Due>);

impl DueOutputs {
    /// Returns whether the first one had to go, because too many wait.
    #[must_use]
    pub(crate) fn push(&mut self, due: Due) -> bool {
        self.0.push_back(due);
        let are_too_many = self.0.len() > DUE_MAX;
        if are_too_many {
            self.0.pop_front();
        }
        are_too_many
    }

    pub(crate) fn pop(&mut self) -> Option<Due> {
        self.0.pop_front()
    }

    /// It stays the first one.
    pub(crate) fn put_back(&mut self, due: Due) {
        self.0.push_front(due);
    }

    /// Who has written them.
    pub(crate) fn writers(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|due| due.writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_one_goes_where_too_many_wait_and_one_that_was_put_back_is_the_next() {
        let due = |inode| Due {
            id: FileId { device: 1, inode },
            writer: 7,
            kind: FileKind::RocksDbSsTable,
        };
        let mut outputs = DueOutputs::default();
        assert_eq!(outputs.pop(), None);
        for inode in 0..DUE_MAX as u64 {
            assert!(!outputs.push(due(inode)));
        }
        assert!(outputs.push(due(1000)));
        assert_eq!(outputs.writers().count(), DUE_MAX);
        assert_eq!(outputs.pop(), Some(due(1)));
        outputs.put_back(due(1));
        assert_eq!(outputs.pop(), Some(due(1)));
    }
}
