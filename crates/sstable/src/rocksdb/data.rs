//! The user keys in a data block.
//!
//! A block may have a hash index between its restart points and its last number. The highest bit of
//! that number is then set. The hash index holds a byte for each bucket, and the number of buckets
//! in two bytes. Source: `data_block_footer.cc` and `data_block_hash_index.h` in
//! `table/block_based/` of RocksDB.

use super::block::{Block, Position, ValueLength};
use super::bytes::Bytes;
use super::handle::{BlockHandle, TRAILER_BYTES};
use super::sstable::SsTable;
use crate::{Error, Result, memory, unsupported};

/// Flag in a block's last number: the block has a hash index.
const HASH_INDEX: u32 = 1 << 31;
/// Bytes of sequence number and type behind every user key.
const INTERNAL_BYTES: usize = 8;
/// In front of the columns of a data block: the length of its longest key.
const KEY_LENGTH_BYTES: usize = 4;
/// Bits of the type, below those of the sequence number.
const TYPE_BITS: u32 = 8;

impl SsTable<'_> {
    /// Reads a data block, and calls `visit` with each of its user keys in order.
    ///
    /// `offset` and `length` are those of a [`DataBlock`](super::DataBlock), in bytes. A key with
    /// several versions is visited once.
    ///
    /// # Errors
    /// Those of reading the block. [`Error::Unsupported`] for values that are stored apart from
    /// their keys, and for compression with a dictionary.
    pub fn user_keys(&self, offset: u64, length: u64, mut visit: impl FnMut(&[u8])) -> Result<()> {
        let mut last: Option<Vec<u8>> = None;
        self.versions(offset, length, |user_key, _| {
            if last.as_deref() != Some(user_key) {
                visit(user_key);
                memory::copy(user_key, last.get_or_insert_default())?;
            }
            Ok(())
        })
    }

    /// As [`Self::user_keys`], with each version of a key, and its sequence number.
    ///
    /// # Errors
    /// As of [`Self::user_keys`], and those of `visit`.
    pub fn versions(
        &self,
        offset: u64,
        length: u64,
        mut visit: impl FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let malformed = |what| Error::Malformed { what, offset };
        if self.dictionary {
            return Err(unsupported(format_args!("a compression dictionary")));
        }
        let size = length
            .checked_sub(TRAILER_BYTES)
            .ok_or(malformed("a data block without a trailer"))?;
        if self.has_columns() {
            return self.versions_of_columns(BlockHandle { offset, size }, visit);
        }
        let contents = self.storage.read_contents(BlockHandle { offset, size })?;
        let block = Block::parse(without_hash_index(contents, offset)?, offset)?;
        let mut position = Position::default();
        let decode = |value: &mut Bytes<'_>, _| Some(value.rest().len());
        while block
            .step(&mut position, ValueLength::Stated, decode)?
            .is_some()
        {
            let (user_key, packed) = position
                .key()
                .split_last_chunk::<INTERNAL_BYTES>()
                .ok_or(malformed("a key without a sequence number"))?;
            visit(user_key, u64::from_le_bytes(*packed) >> TYPE_BITS)?;
        }
        Ok(())
    }
}

impl SsTable<'_> {
    /// Of a block of columns: prefix and suffix of the key are the first ones, the trailer is the third.
    fn versions_of_columns(
        &self,
        handle: BlockHandle,
        mut visit: impl FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        if !self.has_default_keys {
            return Err(unsupported(format_args!("keys in columns of their own")));
        }
        let columns = self.storage.read_columns(handle, KEY_LENGTH_BYTES)?;
        let (prefixes, suffixes) = (columns.prefixed_strings(0)?, columns.strings(1)?);
        let trailers = columns.numbers(2)?;
        let mut key = Vec::new();
        for row in 0..columns.rows() {
            key.clear();
            columns.append_prefixed(prefixes, row, &mut key)?;
            let suffix = columns.string(suffixes, row);
            let (suffix, trailer) = suffix
                .zip(columns.number(trailers, row))
                .ok_or_else(|| columns.malformed("a key that does not fit its block"))?;
            memory::append(suffix, &mut key)?;
            visit(&key, trailer >> TYPE_BITS)?;
        }
        Ok(())
    }
}

/// Removes the hash index from a block, if it has one.
fn without_hash_index(mut contents: Vec<u8>, offset: u64) -> Result<Vec<u8>> {
    let Some(packed_at) = contents.len().checked_sub(4) else {
        return Ok(contents);
    };
    let packed = Bytes::from(&contents, packed_at)
        .fixed32()
        .unwrap_or_default();
    if packed & HASH_INDEX == 0 {
        return Ok(contents);
    }
    let index_at = packed_at.checked_sub(2).and_then(|count_at| {
        let count = contents.get(count_at..packed_at)?;
        let buckets = u16::from_le_bytes(count.try_into().ok()?);
        count_at.checked_sub(usize::from(buckets))
    });
    let index_at = index_at.ok_or(Error::Malformed {
        what: "a hash index that does not fit its block",
        offset,
    })?;
    contents.truncate(index_at);
    memory::append(&(packed & !HASH_INDEX).to_le_bytes(), &mut contents)?;
    Ok(contents)
}
