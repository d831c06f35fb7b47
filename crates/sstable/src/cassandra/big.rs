//! `Index.db` of the BIG format: every partition's key and position, in the order of the data.
//!
//! An entry holds, in this order:
//!
//! - the length of the key, in two bytes, and the key;
//! - the partition's position in the uncompressed data;
//! - the length of the index of the partition's rows, and that index. The reader skips it.
//!
//! Source, the same in all three versions:
//!
//! - Cassandra 5.0.9 and 6.0-alpha2: `io/sstable/format/big/BigTableWriter.java`
//!   (`IndexWriter.append`) and `RowIndexEntry.java` (`deserializePositionAndSkip`);
//! - Cassandra 4.1.10: `db/RowIndexEntry.java`.

use super::forward::ForwardReader;
use super::key::Key;
use crate::{ReadAt, Result};

/// Bytes of one read. An index of rows that is longer is skipped without reading all of it.
const PIECE: usize = 128 << 10;

/// The entries from the first to the last.
pub(super) struct Entries<'a, R> {
    index: ForwardReader<'a, R>,
    partition_key: Vec<u8>,
}

impl<'a, R: ReadAt> Entries<'a, R> {
    /// Starts at the entry that begins at `offset` of the index.
    pub(super) fn from(index: &'a R, offset: u64) -> Result<Self> {
        let mut reader = ForwardReader::new(index, index.size()?, PIECE);
        reader.seek(offset)?;
        Ok(Self {
            index: reader,
            partition_key: Vec::new(),
        })
    }

    /// Sets `key` to the next entry's, and returns its position in the uncompressed data.
    pub(super) fn advance(&mut self, key: &mut Key) -> Result<Option<u64>> {
        if self.index.is_at_end() {
            return Ok(None);
        }
        let key_length = self.index.u16()?;
        self.index.read(key_length, &mut self.partition_key)?;
        let position = self.index.variable_length()?;
        let row_index_length = self.index.variable_length()?;
        self.index.skip(row_index_length)?;
        key.set_complete(&self.partition_key)?;
        Ok(Some(position))
    }

    /// Where the next entry begins in the index.
    pub(super) fn offset(&self) -> u64 {
        self.index.position()
    }
}
