//! Reads the data of an SSTable that is still being written.

use super::chunk_log::{CHECKSUM_BYTES, ChunkLog};
use super::chunks::PAGE_BYTES;
use coldstream_sstable::cassandra::Compression;
use coldstream_sstable::{ReadAt, Result, memory};
use std::ops::Range;

/// The data of an SSTable that is still being written.
#[derive(Clone, Copy, Debug)]
pub enum Growing<'a> {
    /// Compressed data: its chunks, and their compression.
    Chunks(&'a ChunkLog, &'a Compression),
    /// Data that is not compressed: the bytes written so far.
    Plain(u64),
}

impl Growing<'_> {
    /// The bytes of the file that hold a range of the uncompressed data. `None` if not all of it has
    /// been written.
    pub(super) fn file_range(&self, range: &Range<u64>) -> Option<Range<u64>> {
        match self {
            Self::Chunks(log, compression) => log.file_range(range, compression.chunk_length()),
            Self::Plain(written) => (range.end <= *written).then(|| range.clone()),
        }
    }

    /// Bytes of the uncompressed data that have been written.
    pub(super) fn written(&self) -> u64 {
        match self {
            Self::Chunks(log, compression) => log.count().unwrap_or(0) * compression.chunk_length(),
            Self::Plain(written) => *written,
        }
    }

    /// Bytes of the uncompressed data that are read together.
    pub(super) fn chunk_length(&self) -> u64 {
        match self {
            Self::Chunks(_, compression) => compression.chunk_length(),
            Self::Plain(_) => PAGE_BYTES,
        }
    }

    /// Chunk `number` of `data`, decompressed. `None` if it has not been written, does not
    /// decompress, or has the wrong length.
    ///
    /// # Errors
    /// If `data` cannot be read.
    pub(super) fn chunk<R: ReadAt>(&self, data: &R, number: u64) -> Result<Option<Vec<u8>>> {
        let is_last = match self {
            Self::Chunks(log, _) => log.count() == Some(number + 1),
            Self::Plain(_) => true,
        };
        let is_whole = |chunk: &Vec<u8>| is_last || chunk.len() as u64 == self.chunk_length();
        Ok(self.decompressed(data, number)?.filter(is_whole))
    }

    /// Whether chunk `number` of `data` does not contradict the compression. The last chunk must not
    /// be asked for: it may be shorter.
    ///
    /// True if the chunk has the right length, and also if it cannot be decompressed.
    ///
    /// # Errors
    /// If `data` cannot be read.
    pub(super) fn is_chunk_plausible<R: ReadAt>(&self, data: &R, number: u64) -> Result<bool> {
        let chunk = self.decompressed(data, number)?;
        Ok(chunk.is_none_or(|chunk| chunk.len() as u64 == self.chunk_length()))
    }

    fn decompressed<R: ReadAt>(&self, data: &R, number: u64) -> Result<Option<Vec<u8>>> {
        let start = number * self.chunk_length();
        let end = match self {
            // The last chunk may be shorter, so only its first byte must exist.
            Self::Chunks(..) => start + 1,
            Self::Plain(written) => (start + PAGE_BYTES).min(*written),
        };
        let Some(stored) = self.file_range(&(start..end)).filter(|it| !it.is_empty()) else {
            return Ok(None);
        };
        let mut bytes = memory::filled((stored.end - stored.start) as usize, 0)?;
        data.read_exact_at(&mut bytes, stored.start)?;
        match self {
            Self::Plain(_) => Ok(Some(bytes)),
            Self::Chunks(_, compression) => {
                let checksum_at = bytes.len().saturating_sub(CHECKSUM_BYTES as usize);
                compression.decompress(&bytes[..checksum_at])
            }
        }
    }
}
