//! `Statistics.db`: the name of the partitioner. Nothing else is read.
//!
//! The file holds, in this order:
//!
//! - the number of components, and a checksum;
//! - the type and offset of each component, and a checksum;
//! - the components. That of type 0 begins with the class name of the partitioner.
//!
//! Every version that this reader knows has the checksums. They are not verified: only one name is
//! accepted, and damage would change it.
//!
//! Source: `io/sstable/metadata/MetadataSerializer.java`, `ValidationMetadata.java` (Cassandra
//! 4.1.10, 5.0.9 and 6.0-alpha2).

use super::forward::ForwardReader;
use crate::{Error, ReadAt, Result, unsupported};

const MURMUR3_PARTITIONER: &[u8] = b"org.apache.cassandra.dht.Murmur3Partitioner";
const VALIDATION: u32 = 0;
const CHECKSUM_BYTES: u64 = 4;

/// Makes sure that Murmur3 tokens order the SSTable's keys.
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
            let name = partitioner.escape_ascii();
            return Err(unsupported(format_args!("partitioner {name}")));
        }
    }
    Err(Error::Malformed {
        what: "no component names the partitioner",
        offset: reader.position(),
    })
}
