//! `Statistics.db`: the partitioner, and nothing else of it.
//!
//! Source: `io/sstable/metadata/MetadataSerializer.java` and `ValidationMetadata.java` (Cassandra
//! 4.1.10, 5.0.9 and 6.0-alpha2): the number of components and a checksum; each one's type and
//! offset, and a checksum; the components. The one of type 0 begins with the class name of the
//! partitioner. Every version that this reader knows has the checksums; they are not verified, for
//! only one name is accepted.

use super::forward::ForwardReader;
use crate::{Error, ReadAt, Result};

const MURMUR3_PARTITIONER: &[u8] = b"org.apache.cassandra.dht.Murmur3Partitioner";
const VALIDATION: u32 = 0;
const CHECKSUM_BYTES: u64 = 4;

/// Makes sure that the table's keys are ordered by Murmur3 tokens.
pub(super) fn require_murmur3_partitioner<R: ReadAt>(statistics: &R) -> Result<()> {
    let mut reader = ForwardReader::new(statistics, statistics.size()?, 512);
    let count = reader.length()?;
    reader.skip(CHECKSUM_BYTES)?;
    for _ in 0..count {
        let kind = reader.length()?;
        let offset = reader.length()?;
        if kind == VALIDATION {
            reader.seek(offset.into())?;
            let length = reader.u16()?;
            let mut partitioner = Vec::new();
            reader.read(length, &mut partitioner)?;
            if partitioner == MURMUR3_PARTITIONER {
                return Ok(());
            }
            let name = String::from_utf8_lossy(&partitioner);
            return Err(Error::Unsupported(format!("partitioner {name}")));
        }
    }
    Err(Error::Malformed {
        what: "no component names the partitioner",
        offset: reader.position(),
    })
}
