//! `Index.db` of a BIG table that is still being written.

use super::big::Entries;
use super::forward::ENDS_EARLY;
use super::key::Key;
use super::partitions::IndexCursor;
use crate::{Error, ReadAt, Result};

/// What has been written of an `Index.db`, entry by entry: the last one is incomplete more often
/// than not, and then not given. Where a partition ends, the next one's position tells.
pub struct GrowingIndex<'a, R> {
    entries: Entries<'a, R>,
    key: Key,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written<'k> {
    /// The partition's key.
    pub key: &'k Key,
    /// Where the partition begins in the uncompressed data, in bytes.
    pub position: u64,
    /// Where the entry is.
    pub cursor: IndexCursor,
}

impl<'a, R: ReadAt> GrowingIndex<'a, R> {
    /// Reads `index` from `cursor` on, as far as it has been written by now.
    ///
    /// # Errors
    /// If its size cannot be told, or `cursor` is behind its end.
    pub fn new(index: &'a R, cursor: IndexCursor) -> Result<Self> {
        Ok(Self {
            entries: Entries::from(index, cursor.0)?,
            key: Key::default(),
        })
    }

    /// The next entry that is there as a whole.
    ///
    /// # Errors
    /// If the index cannot be read or is malformed.
    pub fn next_written(&mut self) -> Result<Option<Written<'_>>> {
        let cursor = IndexCursor(self.entries.offset());
        match self.entries.advance(&mut self.key) {
            Ok(position) => Ok(position.map(|position| Written {
                key: &self.key,
                position,
                cursor,
            })),
            Err(Error::Malformed {
                what: ENDS_EARLY, ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
