//! Partition keys, in the one form that BIG and BTI share.

use std::cmp::Ordering;
use std::collections::TryReserveError;

use super::byte_comparable::{encode, encoded_token};
use super::token::hash;
use crate::memory;

/// A partition key in Cassandra's byte-comparable form, or the part of it that an index holds.
///
/// The order of the bytes is the order of the partitions: by token, then by key.
///
/// BIG indexes hold complete keys. BTI indexes hold a complete key only for a partition with an
/// index of its rows (more than 16 KiB by default). For all others they hold a prefix and 8 bits of
/// the key's hash. It is the shortest prefix that no other partition of the SSTable has.
///
/// A prefix may also [match](Self::matches) a key of another SSTable that belongs to another
/// partition. That partition is close in order. The hash excludes 255 of 256 such mistakes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    bytes: Vec<u8>,
    complete: bool,
    filter_hash: Option<u8>,
}

impl Key {
    /// The key of the partition that SSTables store as `partition_key`.
    ///
    /// Those bytes are a single column's value. Of several columns each has its length in two bytes,
    /// its value and a zero byte.
    ///
    /// # Panics
    /// There is no memory for it. See [`Self::try_from_partition_key`].
    #[must_use]
    pub fn from_partition_key(partition_key: &[u8]) -> Self {
        Self::try_from_partition_key(partition_key).expect("memory for a key")
    }

    /// As [`Self::from_partition_key`].
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn try_from_partition_key(partition_key: &[u8]) -> Result<Self, TryReserveError> {
        let mut key = Self::default();
        key.set_complete(partition_key)?;
        Ok(key)
    }

    /// Makes this a copy of another key. Reuses the memory: a walk through an SSTable copies each key.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn copy_from(&mut self, other: &Self) -> Result<(), TryReserveError> {
        memory::copy(&other.bytes, &mut self.bytes)?;
        self.complete = other.complete;
        self.filter_hash = other.filter_hash;
        Ok(())
    }

    /// The byte-comparable form, or its beginning.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether [`bytes`](Self::bytes) is the complete key.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// 8 bits of the key's hash that are not part of its token, if they are known.
    #[must_use]
    pub fn filter_hash(&self) -> Option<u8> {
        self.filter_hash
    }

    /// Whether both may belong to the same partition: whether they are equal as far as both go.
    ///
    /// Two complete keys that match are equal.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let same_hash = match (self.filter_hash, other.filter_hash) {
            (Some(one), Some(another)) => one == another,
            _ => true,
        };
        same_hash && self.compare(other).is_eq()
    }

    /// Order of the partitions, as far as it is known.
    ///
    /// [`Ordering::Equal`] also if one key is incomplete and a prefix of the other.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        let shorter = if self.bytes.len() < other.bytes.len() {
            self
        } else {
            other
        };
        let common = shorter.bytes.len();
        if shorter.complete {
            self.bytes.cmp(&other.bytes)
        } else {
            self.bytes[..common].cmp(&other.bytes[..common])
        }
    }

    pub(super) fn set_complete(&mut self, partition_key: &[u8]) -> Result<(), TryReserveError> {
        let hash = hash(partition_key);
        self.bytes.clear();
        encode(partition_key, hash, &mut self.bytes)?;
        self.complete = true;
        self.filter_hash = Some(hash[1] as u8);
        Ok(())
    }

    /// Makes this the token of `partition_key`: an incomplete key.
    pub(super) fn set_token(&mut self, partition_key: &[u8]) -> Result<(), TryReserveError> {
        let token = encoded_token(partition_key, hash(partition_key));
        self.set_prefix(&token, None)
    }

    pub(super) fn set_prefix(
        &mut self,
        prefix: &[u8],
        filter_hash: Option<u8>,
    ) -> Result<(), TryReserveError> {
        memory::copy(prefix, &mut self.bytes)?;
        self.complete = false;
        self.filter_hash = filter_hash;
        Ok(())
    }
}
