//! Shared by the targets of Cassandra's formats.

use coldstream_sstable::ReadAt;
use coldstream_sstable::cassandra::{Key, SsTable};

/// A `Statistics.db` that names the Murmur3 partitioner. Readers decline every other one.
pub fn murmur3() -> Vec<u8> {
    let name = b"org.apache.cassandra.dht.Murmur3Partitioner";
    let mut bytes = Vec::new();
    // The number of components, a checksum, the component's type and its offset.
    for word in [1_u32, 0, 0, 16] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend((name.len() as u16).to_be_bytes());
    bytes.extend(name);
    bytes
}

/// Reads as the handover does: walks partitions, looks up chunks, and finds a key.
pub fn read_all<R: ReadAt>(sstable: &SsTable<R>) {
    let Ok(mut partitions) = sstable.partitions() else {
        return;
    };
    let mut chunks = sstable.chunks();
    for _ in 0..1000 {
        let Ok(Some(partition)) = partitions.next_partition() else {
            break;
        };
        let _ = chunks.file_range(partition.uncompressed.clone());
    }
    if let Ok(mut partitions) = sstable.partitions() {
        let _ = partitions.find(&Key::from_partition_key(b"key"));
    }
}
