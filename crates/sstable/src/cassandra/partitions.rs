//! Walks the partitions of an SSTable in order.

use std::ops::Range;

use super::key::Key;
use super::{big, bti};
use crate::{Error, ReadAt, Result};

/// Entries of an index between two checks of the deadline.
const ENTRIES_A_CHECK: u32 = 1024;

/// A partition of an SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition<'a> {
    /// Its key, or a prefix of it.
    pub key: &'a Key,
    /// Where it lies in the uncompressed data, in bytes. It ends at the next one, or at the end of
    /// the data.
    pub uncompressed: Range<u64>,
}

/// The partitions of an SSTable in the order of their keys. Their positions have the same order.
///
/// Memory does not depend on the size of the SSTable. It takes two keys, and 128 KiB of a BIG index
/// or 1 MiB of a BTI index.
///
/// No method goes back. After an error there are no more partitions.
pub struct Partitions<'a, R> {
    entries: Entries<'a, R>,
    uncompressed_length: u64,
    is_started: bool,
    /// Whether `current` has been returned.
    is_returned: bool,
    current: Entry,
    /// The entry after `current`. The partition of `current` ends where it begins.
    following: Entry,
}

/// The index of either format.
pub(super) enum Entries<'a, R> {
    Big(big::Entries<'a, R>),
    Bti(bti::Entries<'a, R>),
}

#[derive(Default)]
struct Entry {
    key: Key,
    /// `None` after the last entry.
    position: Option<u64>,
    /// Where it begins in a BIG index.
    cursor: IndexCursor,
}

/// Where a later walk of an SSTable goes on. The default is the beginning.
///
/// In a BIG SSTable it is an offset in the index. The index of a BTI SSTable is not a sequence:
/// there it is a position in the uncompressed data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexCursor(pub(super) u64);

impl IndexCursor {
    /// In a BTI SSTable: the partition at this position of the uncompressed data, in bytes.
    #[must_use]
    pub fn in_data(position: u64) -> Self {
        Self(position)
    }

    /// In a BTI SSTable: the position in the uncompressed data, in bytes.
    #[must_use]
    pub fn position_in_data(self) -> u64 {
        self.0
    }
}

impl<'a, R: ReadAt> Partitions<'a, R> {
    pub(super) fn new(entries: Entries<'a, R>, uncompressed_length: u64) -> Self {
        Self {
            entries,
            uncompressed_length,
            is_started: false,
            is_returned: false,
            current: Entry::default(),
            following: Entry::default(),
        }
    }

    /// The next partition. `None` at the end.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`] of the index.
    pub fn next_partition(&mut self) -> Result<Option<Partition<'_>>> {
        self.pass_returned()?;
        self.is_returned = self.current.position.is_some();
        Ok(self.current_partition())
    }

    /// The next partition, without passing over it.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`] of the index.
    pub fn peek(&mut self) -> Result<Option<Partition<'_>>> {
        self.pass_returned()?;
        Ok(self.current_partition())
    }

    fn current_partition(&self) -> Option<Partition<'_>> {
        let start = self.current.position?;
        Some(Partition {
            key: &self.current.key,
            uncompressed: start..self.following.position.unwrap_or(self.uncompressed_length),
        })
    }

    /// The cursor of the next partition.
    ///
    /// In a BTI SSTable it is always the beginning: passing over partitions costs nothing there.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`] of the index.
    pub fn cursor(&mut self) -> Result<IndexCursor> {
        self.pass_returned()?;
        Ok(self.current.cursor)
    }

    /// Passes over all partitions that end at or before `position` of the uncompressed data.
    ///
    /// The next partition is then the one that holds `position`. A BTI index needs a few steps. A
    /// BIG index is read entry by entry.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`] of the index.
    pub fn skip_to_position(&mut self, position: u64) -> Result<()> {
        self.pass_returned()?;
        if position >= self.uncompressed_length {
            self.end();
            return Ok(());
        }
        let before = |entry: &Entry| entry.position.is_some_and(|start| start <= position);
        if before(&self.following)
            && let Entries::Bti(entries) = &mut self.entries
        {
            let seek = entries.seek_position(position);
            self.continue_after(seek)?;
        }
        while before(&self.following) {
            self.shift()?;
        }
        Ok(())
    }

    /// Passes over all partitions before the one of `key`.
    ///
    /// If the partition exists, it is the next one: its key [matches](Key::matches) `key`. If `key`
    /// is not complete, the partitions behind it may match too. A BTI index needs a few steps. A
    /// BIG index is read entry by entry.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`] of the index.
    pub fn skip_to_key(&mut self, key: &Key) -> Result<()> {
        self.skip_to_key_within(key, &|| false).map(|_| ())
    }

    /// As [`Self::skip_to_key`], but stops when `is_over` returns true. Returns whether it arrived.
    ///
    /// `is_over` is called every 1024 entries. The next call goes on from where this one stopped.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`] of the index.
    pub fn skip_to_key_within(&mut self, key: &Key, is_over: &dyn Fn() -> bool) -> Result<bool> {
        self.pass_returned()?;
        let before = |entry: &Entry| entry.position.is_some() && entry.key.compare(key).is_lt();
        if before(&self.following)
            && let Entries::Bti(entries) = &mut self.entries
        {
            let seek = entries.seek_key(key);
            self.continue_after(seek)?;
        }
        let mut passed = 0_u32;
        while before(&self.current) {
            passed = passed.wrapping_add(1);
            if passed.is_multiple_of(ENTRIES_A_CHECK) && is_over() {
                return Ok(false);
            }
            self.shift()?;
        }
        Ok(true)
    }

    /// Where the partition of `key` lies in the uncompressed data. `None` if there is none.
    ///
    /// Passes over the partitions before it; the partition itself is the next one. If `key` or the
    /// index's key is not complete, the result may be another partition close to it.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`] of the index.
    pub fn find(&mut self, key: &Key) -> Result<Option<Range<u64>>> {
        self.skip_to_key(key)?;
        let partition = self.current_partition();
        let partition = partition.filter(|partition| partition.key.matches(key));
        Ok(partition.map(|partition| partition.uncompressed))
    }

    /// Makes `current` the entry that the next call returns.
    fn pass_returned(&mut self) -> Result<()> {
        if !self.is_started {
            self.is_started = true;
            self.read_following()?;
            self.shift()?;
        }
        if self.is_returned {
            self.shift()?;
        }
        Ok(())
    }

    /// Makes the entry that a seek of the index arrived at the current one. It is after `current`.
    fn continue_after(&mut self, seek: Result<()>) -> Result<()> {
        if seek.is_err() {
            self.end();
        }
        seek?;
        self.read_following()?;
        self.shift()
    }

    fn shift(&mut self) -> Result<()> {
        self.is_returned = false;
        std::mem::swap(&mut self.current, &mut self.following);
        self.read_following()
    }

    fn read_following(&mut self) -> Result<()> {
        if let Entries::Big(entries) = &self.entries {
            self.following.cursor = IndexCursor(entries.offset());
        }
        let read = match &mut self.entries {
            Entries::Big(entries) => entries.advance(&mut self.following.key),
            Entries::Bti(entries) => entries.advance(&mut self.following.key),
        };
        let checked = read.and_then(|position| {
            self.following.position = position;
            self.check_following()
        });
        if checked.is_err() {
            self.end();
        }
        checked
    }

    /// Checks that `following` is after `current` in key and position, and lies in the data.
    fn check_following(&self) -> Result<()> {
        let Some(position) = self.following.position else {
            return Ok(());
        };
        let malformed = |what| {
            Err(Error::Malformed {
                what,
                offset: self.entries.offset(),
            })
        };
        if position >= self.uncompressed_length {
            return malformed("a partition beyond the end of the data");
        }
        if let Some(current) = self.current.position {
            if position <= current {
                return malformed("partitions are not in the order of their positions");
            }
            if !self.current.key.compare(&self.following.key).is_lt() {
                return malformed("partitions are not in the order of their keys");
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        self.is_started = true;
        self.is_returned = false;
        self.current.position = None;
        self.following.position = None;
    }
}

impl<R: ReadAt> Entries<'_, R> {
    fn offset(&self) -> u64 {
        match self {
            Self::Big(entries) => entries.offset(),
            Self::Bti(entries) => entries.offset(),
        }
    }
}
