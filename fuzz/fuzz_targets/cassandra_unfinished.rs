//! SSTables that Cassandra is still writing: an unfinished index, and partitions in the
//! uncompressed data.

#![no_main]

use coldstream_sstable::cassandra::{
    GrowingIndex, IndexCursor, Key, each_possible_partition, partition_key_at,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>)| {
    let (index, data, low, high) = input;
    let index = &index[..];
    if let Ok(mut entries) = GrowingIndex::new(&index, IndexCursor::default()) {
        let mut left = 1000;
        while left > 0 && matches!(entries.next_complete(), Ok(Some(_))) {
            left -= 1;
        }
    }
    let (low, high) = (Key::from_partition_key(&low), Key::from_partition_key(&high));
    each_possible_partition(&data, &(&low..=&high), |at, key| {
        assert_eq!(partition_key_at(&data, at)?.as_ref(), Some(key));
        Ok(())
    })
    .expect("memory");
});
