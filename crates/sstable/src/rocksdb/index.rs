//! Entries of an index block: separators, and the handles of the blocks that they separate.
//!
//! Source: `IndexValue` in RocksDB's `table/format.cc`, `IndexBlockIter` in
//! `table/block_based/block.cc`, `ShortenedIndexBuilder` in `table/block_based/index_builder.h`.
//! LevelDB's entries are the special case without options (`table/table_builder.cc`). Pebble's are columns
//! (`sstable/colblk/index_block.go`).

use std::cmp::Ordering;
use std::ops::Range;

use super::block::{Block, Position, ValueLength};
use super::columns::{Columns, Numbers, Strings};
use super::handle::BlockHandle;
use super::order::{Order, Orders};
use crate::{Error, Result, memory};

/// Bytes of sequence number and type behind the user key of an internal key.
const TRAILER_BYTES: usize = 8;
/// Marks a separator that the engine invented between two user keys. No stored key has this number.
const MAX_SEQUENCE_NUMBER: u64 = (1 << 56) - 1;

/// The encoding of an SSTable's index blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexFormat {
    /// Separators are user keys. Otherwise they are internal keys.
    pub(super) user_keys: bool,
    /// If a separator shares bytes with the one before, its handle is the difference in size only.
    pub(super) delta_encoded: bool,
    /// The first key of each data block follows its handle.
    pub(super) first_keys: bool,
    /// Properties of the data block may follow its handle: Pebble's below its columns.
    pub(super) block_properties: bool,
    /// Blocks of columns. Separators are user keys, and may repeat.
    pub(super) columns: bool,
}

impl IndexFormat {
    /// `None` if `key` is too short for an internal key.
    pub(super) fn separator(self, key: &[u8]) -> Option<Separator<'_>> {
        if self.columns {
            return Some(Separator {
                user_key: key,
                trailer: Some(0),
            });
        }
        Separator::decode(key, self.user_keys)
    }
}

/// A separator. Of one user key the newest version comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Separator<'k> {
    pub(super) user_key: &'k [u8],
    /// Sequence number and type, where the index has them.
    trailer: Option<u64>,
}

impl<'k> Separator<'k> {
    /// `None` if `key` is too short for an internal key.
    fn decode(key: &'k [u8], user_keys: bool) -> Option<Self> {
        if user_keys {
            return Some(Self {
                user_key: key,
                trailer: None,
            });
        }
        let (user_key, trailer) = key.split_at(key.len().checked_sub(TRAILER_BYTES)?);
        Some(Self {
            user_key,
            trailer: Some(u64::from_le_bytes(trailer.try_into().ok()?)),
        })
    }

    /// Whether the block behind this separator may begin with older versions of its user key.
    pub(super) fn may_continue(self) -> bool {
        self.trailer
            .is_some_and(|trailer| trailer >> 8 != MAX_SEQUENCE_NUMBER)
    }

    /// The orders among `orders` in which the separator `next` may directly follow this one.
    pub(super) fn orders_before(self, next: Separator<'_>, orders: Orders) -> Orders {
        orders
            .admitting(self.user_key)
            .admitting(next.user_key)
            .that(|order| self.may_precede(next, order))
    }

    fn may_precede(self, next: Separator<'_>, order: Order) -> bool {
        match order.compare(self.user_key, next.user_key) {
            Ordering::Less => true,
            Ordering::Equal => self.may_continue() && self.trailer >= next.trailer,
            Ordering::Greater => false,
        }
    }
}

/// The value of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexValue {
    pub(super) handle: BlockHandle,
    /// Where the first user key of the data block lies in the index block.
    pub(super) first_key: Option<Range<usize>>,
}

/// Moves forward through one index block.
#[derive(Debug)]
pub(super) struct IndexBlockCursor {
    entries: Entries,
    format: IndexFormat,
    previous: Option<BlockHandle>,
}

/// The entries of an index block, and a place between two of them.
#[derive(Debug)]
enum Entries {
    Rows {
        block: Block,
        position: Position,
    },
    Columns {
        columns: Columns,
        separators: Strings,
        offsets: Numbers,
        sizes: Numbers,
        next: usize,
        /// The separator of the entry before.
        key: Vec<u8>,
    },
}

impl IndexBlockCursor {
    /// A cursor in `contents`, the decompressed block at `offset` of the file.
    pub(super) fn new(contents: Vec<u8>, offset: u64, format: IndexFormat) -> Result<Self> {
        let entries = if format.columns {
            let columns = Columns::parse(contents, 0, offset)?;
            Entries::Columns {
                separators: columns.strings(0)?,
                offsets: columns.numbers(1)?,
                sizes: columns.numbers(2)?,
                columns,
                next: 0,
                key: Vec::new(),
            }
        } else {
            Entries::Rows {
                block: Block::parse(contents, offset)?,
                position: Position::default(),
            }
        };
        Ok(Self {
            entries,
            format,
            previous: None,
        })
    }

    /// Moves before the first entry.
    pub(super) fn rewind(&mut self) {
        match &mut self.entries {
            Entries::Rows { position, .. } => *position = Position::default(),
            Entries::Columns { next, .. } => *next = 0,
        }
        self.previous = None;
    }

    fn key(&self) -> &[u8] {
        match &self.entries {
            Entries::Rows { position, .. } => position.key(),
            Entries::Columns { key, .. } => key,
        }
    }

    /// The stored key of the entry that [`Self::step`] returned last.
    pub(super) fn stored_key(&self) -> Option<&[u8]> {
        self.previous.map(|_| self.key())
    }

    /// The bytes at the range of an [`IndexValue`] of this block.
    pub(super) fn slice(&self, range: Range<usize>) -> &[u8] {
        match &self.entries {
            Entries::Rows { block, .. } => &block.contents()[range],
            Entries::Columns { columns, .. } => &columns.contents()[range],
        }
    }

    pub(super) fn malformed(&self, what: &'static str) -> Error {
        match &self.entries {
            Entries::Rows { block, .. } => block.malformed(what),
            Entries::Columns { columns, .. } => columns.malformed(what),
        }
    }

    /// The separator of the entry that [`Self::step`] returned last.
    pub(super) fn separator(&self) -> Result<Separator<'_>> {
        let separator = self.format.separator(self.key());
        separator.ok_or_else(|| self.malformed("a separator too short for an internal key"))
    }

    pub(super) fn step(&mut self) -> Result<Option<IndexValue>> {
        let value = match &mut self.entries {
            Entries::Rows { block, position } => {
                step_row(block, position, self.format, self.previous)?
            }
            Entries::Columns { columns, next, .. } if *next >= columns.rows() => None,
            Entries::Columns {
                columns,
                separators,
                offsets,
                sizes,
                next,
                key,
            } => {
                let malformed = || columns.malformed("an entry of an index that cannot be decoded");
                let row = *next;
                *next += 1;
                let separator = columns.string(*separators, row).ok_or_else(malformed)?;
                memory::copy(separator, key)?;
                let offset = columns.number(*offsets, row);
                let (offset, size) = offset
                    .zip(columns.number(*sizes, row))
                    .ok_or_else(malformed)?;
                Some(IndexValue {
                    handle: BlockHandle { offset, size },
                    first_key: None,
                })
            }
        };
        if let Some(value) = &value {
            self.previous = Some(value.handle);
        }
        Ok(value)
    }

    /// Moves to the last restart point whose entry is `before` the target, or to the first entry.
    /// `before` must be true for a prefix of the entries, and false for all others.
    pub(super) fn skip(&mut self, before: impl Fn(&Separator<'_>) -> bool) -> Result<()> {
        self.rewind();
        let restarts = match &self.entries {
            Entries::Rows { block, .. } => block.restarts(),
            Entries::Columns { columns, .. } => columns.rows(),
        };
        let (mut low, mut high) = (0, restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            self.move_to_restart(middle)?;
            let has_entry = self.step()?.is_some();
            if has_entry && self.separator().is_ok_and(|separator| before(&separator)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        if low > 0 {
            self.move_to_restart(low)
        } else {
            self.rewind();
            Ok(())
        }
    }

    /// In columns each entry is one.
    fn move_to_restart(&mut self, restart: usize) -> Result<()> {
        match &mut self.entries {
            Entries::Rows { block, position } => *position = block.at_restart(restart)?,
            Entries::Columns { next, .. } => *next = restart,
        }
        self.previous = None;
        Ok(())
    }
}

fn step_row(
    block: &Block,
    position: &mut Position,
    format: IndexFormat,
    previous: Option<BlockHandle>,
) -> Result<Option<IndexValue>> {
    let IndexFormat {
        delta_encoded,
        first_keys,
        block_properties,
        ..
    } = format;
    let length = if delta_encoded {
        ValueLength::Implied
    } else {
        ValueLength::Stated
    };
    block.step(position, length, |bytes, shares| {
        let handle = if delta_encoded && shares {
            previous?.next(bytes.signed_varint64()?)?
        } else {
            BlockHandle::decode(bytes)?
        };
        let first_key = if first_keys {
            let length = bytes.length_prefixed()?.len();
            let end = bytes.position();
            // Always an internal key, even if the separators are user keys.
            Some(end - length..end - length + length.checked_sub(TRAILER_BYTES)?)
        } else {
            None
        };
        if block_properties {
            bytes.rest();
        }
        Some(IndexValue { handle, first_key })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_KEYS: IndexFormat = IndexFormat {
        user_keys: true,
        delta_encoded: true,
        first_keys: true,
        block_properties: false,
        columns: false,
    };

    fn internal(user_key: &str, sequence_number: u64) -> Vec<u8> {
        let mut key = user_key.as_bytes().to_vec();
        key.extend((sequence_number << 8 | 1).to_le_bytes());
        key
    }

    fn may_precede(one: &[u8], next: &[u8], user_keys: bool) -> bool {
        let separator = |key| Separator::decode(key, user_keys).unwrap();
        separator(one).may_precede(separator(next), Order::Bytewise)
    }

    #[test]
    fn versions_of_a_key_are_in_order_newest_first() {
        assert!(may_precede(&internal("a", 5), &internal("a", 4), false));
        assert!(!may_precede(&internal("a", 4), &internal("a", 5), false));
        assert!(may_precede(&internal("a", 4), &internal("b", 5), false));
        assert!(!may_precede(&internal("b", 5), &internal("a", 4), false));
        assert!(may_precede(b"a", b"b", true));
        assert!(
            !may_precede(b"a", b"a", true),
            "a user key in two blocks needs internal keys"
        );
    }

    #[test]
    fn nothing_continues_behind_an_invented_separator() {
        let invented = internal("a", MAX_SEQUENCE_NUMBER);
        assert!(!Separator::decode(&invented, false).unwrap().may_continue());
        assert!(
            Separator::decode(&internal("a", 1), false)
                .unwrap()
                .may_continue()
        );
        assert!(!Separator::decode(b"a", true).unwrap().may_continue());
        assert!(!may_precede(&invented, &internal("a", 1), false));
        assert_eq!(Separator::decode(&invented[2..], false), None, "too short");
    }

    /// Two data blocks. The second separator shares bytes, so its handle is a size difference: -1.
    #[test]
    fn handles_follow_one_another() {
        let mut contents = vec![0, 2, b'a', b'b', 0, 100, 9];
        contents.extend(internal("a", 3));
        contents.extend([1, 1, b'c', 1, 9]);
        contents.extend(internal("b", 2));
        contents.extend([0, 0, 0, 0, 1, 0, 0, 0]);
        let mut cursor = IndexBlockCursor::new(contents, 0, FIRST_KEYS).unwrap();

        let value = cursor.step().unwrap().unwrap();
        assert_eq!(
            value.handle,
            BlockHandle {
                offset: 0,
                size: 100
            }
        );
        assert_eq!(cursor.slice(value.first_key.unwrap()), b"a");
        assert_eq!(cursor.separator().unwrap().user_key, b"ab");

        let value = cursor.step().unwrap().unwrap();
        assert_eq!(
            value.handle,
            BlockHandle {
                offset: 105,
                size: 99
            }
        );
        assert_eq!(cursor.slice(value.first_key.unwrap()), b"b");
        assert_eq!(cursor.separator().unwrap().user_key, b"ac");
        assert_eq!(cursor.step().unwrap(), None);
    }

    /// CockroachDB stores the times of a block's versions there.
    #[test]
    fn properties_of_pebbles_blocks_may_follow_their_handles() {
        let block_properties = IndexFormat {
            user_keys: false,
            delta_encoded: false,
            first_keys: false,
            block_properties: true,
            columns: false,
        };
        let key = internal("a", 3);
        let mut contents = vec![0, key.len() as u8, 5, 0];
        contents.splice(3.., key);
        contents.extend([7, 100, 1, 2, 3]);
        contents.extend([0, 0, 0, 0, 1, 0, 0, 0]);
        let step = |format| {
            let mut cursor = IndexBlockCursor::new(contents.clone(), 0, format)?;
            Ok(cursor.step()?.map(|value| value.handle))
        };
        let handle = BlockHandle {
            offset: 7,
            size: 100,
        };
        assert_eq!(step(block_properties).unwrap(), Some(handle));
        let of_rocksdb = IndexFormat {
            block_properties: false,
            ..block_properties
        };
        assert!(matches!(step(of_rocksdb), Err(Error::Malformed { .. })));
    }
}
