//! Partition keys in the one form that both formats' keys have.

use std::cmp::Ordering;

use super::byte_comparable::{encode, encoded_token};
use super::token::hash;

/// A partition key, or as much of it as an index tells, in Cassandra's byte-comparable form: the
/// order of the bytes is the order of the partitions, which is that of tokens, then keys.
///
/// BIG indexes hold complete keys. BTI indexes hold them of partitions with an index of their
/// rows only (more than 16 KiB, by default), and of all others the shortest prefix that no other
/// partition of the same table has, and 8 bits of the key's hash. A prefix that
/// [matches](Self::matches) a key which is not of the same table may therefore belong to another
/// partition that is close to it; 255 of 256 such mistakes are excluded by the hash.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Key {
    bytes: Vec<u8>,
    complete: bool,
    filter_hash: Option<u8>,
}

impl Clone for Key {
    fn clone(&self) -> Self {
        let mut key = Self::default();
        key.clone_from(self);
        key
    }

    /// Keeps the memory: who goes through a table remembers the last key at each step.
    fn clone_from(&mut self, other: &Self) {
        self.bytes.clone_from(&other.bytes);
        self.complete = other.complete;
        self.filter_hash = other.filter_hash;
    }
}

impl Key {
    /// The key of the partition whose key is `partition_key` as tables store it: a single
    /// column's value, or each column's length in two bytes, value and a zero byte.
    #[must_use]
    pub fn from_partition_key(partition_key: &[u8]) -> Self {
        let mut key = Self::default();
        key.set_complete(partition_key);
        key
    }

    /// The byte-comparable form, or its beginning.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether [`bytes`](Self::bytes) is all of the key.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// 8 bits of the key's hash that are not part of its token.
    #[must_use]
    pub fn filter_hash(&self) -> Option<u8> {
        self.filter_hash
    }

    /// Whether both may be the same partition's: whether they are equal as far as both go. Two
    /// complete keys that match are equal.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let same_hash = match (self.filter_hash, other.filter_hash) {
            (Some(one), Some(another)) => one == another,
            _ => true,
        };
        same_hash && self.compare(other).is_eq()
    }

    /// Order of the partitions as far as it can be told: [`Ordering::Equal`] if one is incomplete
    /// and the beginning of the other.
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

    pub(super) fn set_complete(&mut self, partition_key: &[u8]) {
        let hash = hash(partition_key);
        self.bytes.clear();
        encode(partition_key, hash, &mut self.bytes);
        self.complete = true;
        self.filter_hash = Some(hash[1] as u8);
    }

    /// Makes it the token of `partition_key`, and no more of it.
    pub(super) fn set_token(&mut self, partition_key: &[u8]) {
        let token = encoded_token(partition_key, hash(partition_key));
        self.set_prefix(&token, None);
    }

    pub(super) fn set_prefix(&mut self, prefix: &[u8], filter_hash: Option<u8>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(prefix);
        self.complete = false;
        self.filter_hash = filter_hash;
    }
}
