//! `Index.db` of a BIG SSTable that is still being written.

use super::big::Entries;
use super::forward::ENDS_EARLY;
use super::key::Key;
use super::partitions::IndexCursor;
use crate::{Error, ReadAt, Result};

/// The entries of an unfinished `Index.db`.
///
/// The last entry is usually incomplete. It is not returned then. A partition ends at the position
/// of the next one.
pub struct GrowingIndex<'a, R> {
    entries: Entries<'a, R>,
    key: Key,
}

/// A complete entry of an unfinished `Index.db`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry<'k> {
    /// The partition's key.
    pub key: &'k Key,
    /// Where the partition begins in the uncompressed data, in bytes.
    pub position: u64,
    /// Where the entry begins.
    pub cursor: IndexCursor,
}

impl<'a, R: ReadAt> GrowingIndex<'a, R> {
    /// Reads `index` from `cursor` to its present end. Bytes that are written later are ignored.
    ///
    /// # Errors
    /// [`Error::Io`] if the size cannot be read, [`Error::Malformed`] if `cursor` is behind the end.
    pub fn new(index: &'a R, cursor: IndexCursor) -> Result<Self> {
        Ok(Self {
            entries: Entries::from(index, cursor.0)?,
            key: Key::default(),
        })
    }

    /// The next complete entry.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Malformed`] of the index.
    pub fn next_complete(&mut self) -> Result<Option<IndexEntry<'_>>> {
        let cursor = IndexCursor(self.entries.offset());
        match self.entries.advance(&mut self.key) {
            Ok(position) => Ok(position.map(|position| IndexEntry {
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
