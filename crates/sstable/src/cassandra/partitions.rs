//! The partitions of a table one after another.

use std::ops::Range;

use super::key::Key;
use super::{big, bti};
use crate::{Error, ReadAt, Result};

/// Entries of an index between two looks at the time.
const ENTRIES_A_LOOK: u32 = 1024;

/// A partition of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition<'a> {
    /// Its key, or the beginning of it.
    pub key: &'a Key,
    /// Where it lies in the uncompressed data, in bytes: up to the next one, or to the end.
    pub uncompressed: Range<u64>,
}

/// The partitions of a table in the order of their keys, which is that of their positions. Memory
/// is bounded whatever the table's size: two keys, and either 128 KiB of a BIG index or 1 MiB of
/// a BTI one.
///
/// After an error there are no more partitions.
pub struct Partitions<'a, R> {
    entries: Entries<'a, R>,
    uncompressed_length: u64,
    started: bool,
    /// Whether `current` has been given.
    given: bool,
    current: Entry,
    /// The one after `current`: it tells where that one ends.
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

/// A place in a table, to go on from later: 0 is the beginning. Of a BIG table a place in its index;
/// of a BTI table, whose index is no sequence, one in the uncompressed data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexCursor(pub(super) u64);

impl IndexCursor {
    /// Of a BTI table, the partition at this position of its uncompressed data, in bytes.
    #[must_use]
    pub fn in_data(position: u64) -> Self {
        Self(position)
    }

    /// Of a BTI table, the position in its uncompressed data, in bytes.
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
            started: false,
            given: false,
            current: Entry::default(),
            following: Entry::default(),
        }
    }

    /// The next partition.
    ///
    /// # Errors
    /// If the index cannot be read or is malformed.
    pub fn next_partition(&mut self) -> Result<Option<Partition<'_>>> {
        self.pass_given()?;
        self.given = self.current.position.is_some();
        Ok(self.current_partition())
    }

    /// The next partition, which will be given once more.
    ///
    /// # Errors
    /// If the index cannot be read or is malformed.
    pub fn peek(&mut self) -> Result<Option<Partition<'_>>> {
        self.pass_given()?;
        Ok(self.current_partition())
    }

    fn current_partition(&self) -> Option<Partition<'_>> {
        let start = self.current.position?;
        Some(Partition {
            key: &self.current.key,
            uncompressed: start..self.following.position.unwrap_or(self.uncompressed_length),
        })
    }

    /// The place of the partition that is given next; the beginning of a BTI table, in which passing
    /// over partitions takes no time.
    ///
    /// # Errors
    /// If the index cannot be read or is malformed.
    pub fn cursor(&mut self) -> Result<IndexCursor> {
        self.pass_given()?;
        Ok(self.current.cursor)
    }

    /// Passes over all partitions that end at `position` of the uncompressed data or before it, so
    /// that the next one is the one that holds it. It never goes back. A BTI index takes a few
    /// steps for it; of a BIG one all entries between are read.
    ///
    /// # Errors
    /// If the index cannot be read or is malformed.
    pub fn skip_to_position(&mut self, position: u64) -> Result<()> {
        self.pass_given()?;
        if position >= self.uncompressed_length {
            self.end();
            return Ok(());
        }
        let before = |entry: &Entry| entry.position.is_some_and(|start| start <= position);
        if before(&self.following)
            && let Entries::Bti(entries) = &mut self.entries
        {
            let sought = entries.seek_position(position);
            self.go_on_from(sought)?;
        }
        while before(&self.following) {
            self.shift()?;
        }
        Ok(())
    }

    /// Passes over all partitions that are before the one of `key`, so that the next one is that
    /// partition, if there is such a one: whether the next one's key [matches](Key::matches)
    /// tells. If `key` is not complete, the one after it may match as well, and so on. It never
    /// goes back. A BTI index takes a few steps for it; of a BIG one all entries between are read.
    ///
    /// # Errors
    /// If the index cannot be read or is malformed.
    pub fn skip_to_key(&mut self, key: &Key) -> Result<()> {
        self.skip_to_key_within(key, &|| false).map(|_| ())
    }

    /// As [`Self::skip_to_key`], as far as it gets before it `is_over`, which is asked now and then;
    /// whether it got there. Otherwise it goes on from there the next time.
    ///
    /// # Errors
    /// If the index cannot be read or is malformed.
    pub fn skip_to_key_within(&mut self, key: &Key, is_over: &dyn Fn() -> bool) -> Result<bool> {
        self.pass_given()?;
        let before = |entry: &Entry| entry.position.is_some() && entry.key.compare(key).is_lt();
        if before(&self.following)
            && let Entries::Bti(entries) = &mut self.entries
        {
            let sought = entries.seek_key(key);
            self.go_on_from(sought)?;
        }
        let mut passed = 0_u32;
        while before(&self.current) {
            passed = passed.wrapping_add(1);
            if passed.is_multiple_of(ENTRIES_A_LOOK) && is_over() {
                return Ok(false);
            }
            self.shift()?;
        }
        Ok(true)
    }

    /// Where the partition of `key` lies in the uncompressed data, if it is there; all that are
    /// before it are passed over, and it itself is given next. It never goes back. If `key` or the
    /// index's key is not complete, it may be another partition, close to it.
    ///
    /// # Errors
    /// If the index cannot be read or is malformed.
    pub fn find(&mut self, key: &Key) -> Result<Option<Range<u64>>> {
        self.skip_to_key(key)?;
        let found = self
            .current
            .position
            .filter(|_| self.current.key.matches(key));
        Ok(found.map(|start| start..self.following.position.unwrap_or(self.uncompressed_length)))
    }

    /// Makes `current` the one that is to be given next.
    fn pass_given(&mut self) -> Result<()> {
        if !self.started {
            self.started = true;
            self.read_following()?;
            self.shift()?;
        }
        if self.given {
            self.shift()?;
        }
        Ok(())
    }

    /// Makes the entry that the index has been moved to, which is after `current`, the current one.
    fn go_on_from(&mut self, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.end();
        }
        moved?;
        self.read_following()?;
        self.shift()
    }

    fn shift(&mut self) -> Result<()> {
        self.given = false;
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

    /// The entry after `current` must be, and the last one must lie in the data.
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
        self.started = true;
        self.given = false;
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
