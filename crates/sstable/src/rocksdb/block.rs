//! The contents of a block: entries whose keys share prefixes, and restart points.
//!
//! Source: `table/block_builder.cc` of LevelDB. RocksDB: `block_builder.cc`, `block_util.h` and
//! `data_block_footer.h` in `table/block_based/`.

use std::ops::Range;

use super::bytes::Bytes;
use crate::{Error, Result, memory, unsupported};

/// A block ends with a number. Its lower bits count the restart points, its upper bits are flags.
const RESTARTS_MASK: u32 = (1 << 28) - 1;
/// Flag: keys are evenly spread. A hint for searches; the format is the same.
const UNIFORM_KEYS: u32 = 1 << 29;
/// The bits of a restart point that are its offset. Pebble marks some restart points by the other one
/// (`sstable/rowblk/rowblk_iter.go`). A block is far smaller.
const RESTART_OFFSET_MASK: u32 = (1 << 31) - 1;

/// How the end of an entry's value is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueLength {
    /// The entry begins with the length of its value.
    Stated,
    /// Decoding the value finds its end: the delta-encoded values of an index.
    Implied,
}

/// A decompressed block.
#[derive(Debug)]
pub(super) struct Block {
    contents: Vec<u8>,
    entries_end: usize,
    restarts: usize,
    /// Offset of the stored block in the file, for errors.
    offset: u64,
}

/// A position between two entries of a block, and the key of the entry before it.
#[derive(Debug, Default)]
pub(super) struct Position {
    next: usize,
    /// The first restart point at or behind the position.
    restart: usize,
    key: Vec<u8>,
}

impl Position {
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Block {
    /// Checks the number of restart points. `offset` is that of the stored block in the file.
    pub(super) fn parse(contents: Vec<u8>, offset: u64) -> Result<Self> {
        let malformed = |what| Error::Malformed { what, offset };
        let Some(count_at) = contents.len().checked_sub(4) else {
            return Err(malformed("a block without a number of restart points"));
        };
        let packed = Bytes::from(&contents, count_at)
            .fixed32()
            .unwrap_or_default();
        let restarts = packed & RESTARTS_MASK;
        if packed & !RESTARTS_MASK & !UNIFORM_KEYS != 0 {
            let features = packed >> 28;
            return Err(unsupported(format_args!(
                "features {features:#x} of a block"
            )));
        }
        let Some(entries_end) = count_at.checked_sub(4 * restarts as usize) else {
            return Err(malformed("more restart points than fit the block"));
        };
        if restarts == 0 && entries_end != 0 {
            return Err(malformed("entries without a restart point"));
        }
        Ok(Self {
            contents,
            entries_end,
            restarts: restarts as usize,
            offset,
        })
    }

    pub(super) fn contents(&self) -> &[u8] {
        &self.contents
    }

    pub(super) fn restarts(&self) -> usize {
        self.restarts
    }

    pub(super) fn malformed(&self, what: &'static str) -> Error {
        Error::Malformed {
            what,
            offset: self.offset,
        }
    }

    /// The position before the entry at restart point `index`.
    pub(super) fn at_restart(&self, index: usize) -> Result<Position> {
        let next = self.restart(index).filter(|&next| next < self.entries_end);
        let next = next.ok_or_else(|| self.malformed("a restart point outside its block"))?;
        Ok(Position {
            next,
            restart: index,
            key: Vec::new(),
        })
    }

    fn restart(&self, index: usize) -> Option<usize> {
        if index >= self.restarts {
            return None;
        }
        Bytes::from(&self.contents, self.entries_end + 4 * index)
            .fixed32()
            .map(|at| (at & RESTART_OFFSET_MASK) as usize)
    }

    /// Moves `position` behind the next entry and sets its key. `None` at the end.
    ///
    /// `decode` gets the value, and whether the key shares bytes with the key before. It must consume
    /// the whole value. Its positions are offsets in [`Block::contents`].
    pub(super) fn step<V>(
        &self,
        position: &mut Position,
        value_length: ValueLength,
        decode: impl FnOnce(&mut Bytes<'_>, bool) -> Option<V>,
    ) -> Result<Option<V>> {
        if position.next >= self.entries_end {
            return Ok(None);
        }
        let is_restart = match self.restart(position.restart) {
            Some(at) if at < position.next => {
                return Err(self.malformed("a restart point inside an entry"));
            }
            Some(at) => at == position.next,
            None => false,
        };
        let malformed = || self.malformed("an entry of a block that cannot be decoded");
        let mut bytes = Bytes::from(&self.contents[..self.entries_end], position.next);
        let (shared, unshared) = bytes
            .varint32()
            .zip(bytes.varint32())
            .ok_or_else(malformed)?;
        let stated = match value_length {
            ValueLength::Stated => Some(bytes.varint32().ok_or_else(malformed)? as usize),
            ValueLength::Implied => None,
        };
        if shared as usize > position.key.len() || (is_restart && shared != 0) {
            return Err(malformed());
        }
        position.key.truncate(shared as usize);
        let unshared = bytes.take(unshared as usize).ok_or_else(malformed)?;
        memory::append(unshared, &mut position.key)?;

        let value_at = bytes.position();
        if let Some(length) = stated {
            let range = self.value(value_at, length).ok_or_else(malformed)?;
            bytes = Bytes::from(&self.contents[..range.end], value_at);
        }
        let value = decode(&mut bytes, shared != 0).ok_or_else(malformed)?;
        if stated.is_some() && !bytes.is_empty() {
            return Err(malformed());
        }
        position.next = bytes.position();
        position.restart += usize::from(is_restart);
        Ok(Some(value))
    }

    fn value(&self, at: usize, length: usize) -> Option<Range<usize>> {
        let end = at.checked_add(length)?;
        (end <= self.entries_end).then_some(at..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(entries: &[u8], restarts: &[u32], flags: u32) -> Vec<u8> {
        let mut block = entries.to_vec();
        restarts
            .iter()
            .for_each(|at| block.extend(at.to_le_bytes()));
        block.extend((restarts.len() as u32 | flags).to_le_bytes());
        block
    }

    fn keys(contents: Vec<u8>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let block = Block::parse(contents, 7)?;
        let mut position = Position::default();
        let mut keys = Vec::new();
        while let Some(value) = block.step(&mut position, ValueLength::Stated, |value, _| {
            Some(value.rest().to_vec())
        })? {
            keys.push((position.key().to_vec(), value));
        }
        Ok(keys)
    }

    /// "ab" -> "x", "ac" -> "", then behind a restart point "b" -> "yz".
    const ENTRIES: [u8; 15] = [
        0, 2, 1, b'a', b'b', b'x', 1, 1, 0, b'c', 0, 1, 2, b'b', b'y',
    ];

    #[test]
    fn keys_share_prefixes() {
        let mut entries = ENTRIES.to_vec();
        entries.push(b'z');
        let expected = vec![
            (b"ab".to_vec(), b"x".to_vec()),
            (b"ac".to_vec(), b"".to_vec()),
            (b"b".to_vec(), b"yz".to_vec()),
        ];
        assert_eq!(keys(block(&entries, &[0, 10], 0)).unwrap(), expected);
        assert_eq!(
            keys(block(&entries, &[0, 10], UNIFORM_KEYS)).unwrap(),
            expected
        );
        assert!(
            keys(block(&entries, &[0, 9], 0)).is_err(),
            "a restart inside an entry"
        );
        assert!(
            keys(block(&entries, &[0, 6], 0)).is_err(),
            "a restart that shares bytes"
        );
        assert!(
            keys(block(&ENTRIES, &[0, 10], 0)).is_err(),
            "a value behind the end"
        );
    }

    #[test]
    fn an_empty_block_has_no_keys() {
        assert_eq!(keys(block(&[], &[0], 0)).unwrap(), []);
        assert_eq!(keys(block(&[], &[], 0)).unwrap(), []);
        assert!(
            keys(block(&[0, 1, 0, b'a'], &[], 0)).is_err(),
            "an entry without restart points"
        );
        assert!(keys(vec![0; 3]).is_err());
    }

    #[test]
    fn too_many_restart_points_are_malformed_and_unknown_flags_declined() {
        let mut contents = block(&[], &[0], 0);
        contents[4] = 2;
        assert!(matches!(
            Block::parse(contents, 0),
            Err(Error::Malformed { .. })
        ));
        for flag in [28, 30, 31] {
            let contents = block(&[], &[0], 1 << flag);
            assert!(matches!(
                Block::parse(contents, 0),
                Err(Error::Unsupported(_))
            ));
        }
    }
}
