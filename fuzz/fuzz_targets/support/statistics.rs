//! What the targets of Cassandra's formats share.

use coldstream_sstable::ReadAt;
use coldstream_sstable::cassandra::{Key, SsTable};

/// A `Statistics.db` that says that keys are in the order of Murmur3 tokens, without which no
/// reader goes on.
pub fn murmur3() -> Vec<u8> {
    let name = b"org.apache.cassandra.dht.Murmur3Partitioner";
    let mut bytes = Vec::new();
    // One component, the checksum of the header, its type 0 and its offset.
    for word in [1_u32, 0, 0, 16] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend((name.len() as u16).to_be_bytes());
    bytes.extend(name);
    bytes
}

/// Goes through what the handover goes through: partitions, chunks, and a key that is looked for.
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
