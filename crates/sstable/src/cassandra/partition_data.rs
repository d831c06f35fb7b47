//! Finds partitions in the uncompressed data, where there is no index yet.
//!
//! A partition begins with the length of its key in two bytes, and the key. Source:
//! `io/sstable/SSTableWriter` and `io/sstable/format/SortedTablePartitionWriter.java` (`start`) of
//! Cassandra 5.0.9 and 6.0-alpha2.

use std::ops::RangeInclusive;

use super::key::Key;
use crate::Result;

/// Longest key, in bytes, that is recognised. With longer ones allowed, most bytes would look like
/// a key.
const KEY_BYTES_MAX: usize = 512;

/// Calls `visit` with each offset in `data` where a partition with a key in `keys` may begin.
///
/// `visit` gets the offset and the key. Other bytes may look like a partition. The narrower `keys`
/// are, the less likely that is.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn each_possible_partition(
    data: &[u8],
    keys: &RangeInclusive<&Key>,
    mut visit: impl FnMut(usize, &Key) -> Result<()>,
) -> Result<()> {
    let is_among = |key: &Key| key.compare(keys.start()).is_ge() && key.compare(keys.end()).is_le();
    let mut key = Key::default();
    for at in 0..data.len() {
        let Some(partition_key) = bytes_at(data, at) else {
            continue;
        };
        // The token alone excludes most candidates, and takes less time than the whole key.
        key.set_token(partition_key)?;
        if is_among(&key) {
            key.set_complete(partition_key)?;
            if is_among(&key) {
                visit(at, &key)?;
            }
        }
    }
    Ok(())
}

/// The key of the partition that begins at offset `at` of `data`. `None` if none can begin there.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
pub fn partition_key_at(data: &[u8], at: usize) -> Result<Option<Key>> {
    let key = bytes_at(data, at).map(Key::try_from_partition_key);
    Ok(key.transpose()?)
}

fn bytes_at(data: &[u8], at: usize) -> Option<&[u8]> {
    let (length, rest) = data.get(at..)?.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    rest.get(..length)
        .filter(|_| (1..=KEY_BYTES_MAX).contains(&length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_found_by_their_keys() {
        let mut keys: Vec<(Key, [u8; 8])> = (0..1000_u64)
            .map(|number| number.to_be_bytes())
            .map(|bytes| (Key::from_partition_key(&bytes), bytes))
            .collect();
        keys.sort_by(|one, other| one.0.compare(&other.0));
        let mut data = Vec::new();
        let mut offsets = Vec::new();
        for (_, bytes) in &keys {
            offsets.push(data.len());
            data.extend([0, 8]);
            data.extend(bytes);
            data.extend((0..90).map(|at| bytes[7].wrapping_mul(31).wrapping_add(at)));
        }
        let (first, last) = (&keys[200].0, &keys[299].0);
        let mut found = Vec::new();
        each_possible_partition(&data, &(first..=last), |at, key| {
            // Other bytes may look like a partition.
            if offsets.contains(&at) {
                found.push((at, key.clone()));
            }
            Ok(())
        })
        .unwrap();
        let expected: Vec<_> = (200..300)
            .map(|it| (offsets[it], keys[it].0.clone()))
            .collect();
        assert_eq!(found, expected);
        let key = partition_key_at(&data, offsets[7]).unwrap();
        assert_eq!(key.as_ref(), Some(&keys[7].0));
        assert_eq!(partition_key_at(&data, data.len() - 5).unwrap(), None);
        assert_eq!(partition_key_at(&data, usize::MAX).unwrap(), None);
    }
}
