//! `CompressionInfo.db`: where the chunks of a compressed `Data.db` begin.
//!
//! The file holds, in this order:
//!
//! - the compressor's name;
//! - the number of options, and the name and value of each;
//! - the length of a chunk before compression;
//! - the longest length of a compressed chunk;
//! - the length of the data before compression;
//! - the number of chunks, and the offset of each in `Data.db`;
//! - since 6.0 possibly a dictionary: kind (1 byte), identifier (8), length (4), bytes, checksum (4).
//!
//! In `Data.db` a checksum follows each chunk.
//!
//! Source: `io/compress/CompressionMetadata.java` (Cassandra 4.1.10, 5.0.9, 6.0-alpha2),
//! `db/compression/CompressionDictionary.java` (6.0-alpha2).

use std::ops::Range;

use super::compression::Compression;
use super::forward::ForwardReader;
use crate::memory::{self, TryVec};
use crate::{Error, ReadAt, Result};

/// Chunk offsets that a [`ChunkCursor`] holds at a time.
const OFFSETS_AT_A_TIME: u64 = 4096;

/// Bytes of a dictionary's description without the dictionary.
const DICTIONARY_FRAME: u64 = 1 + 8 + 4 + 4;

/// Where uncompressed positions lie in `Data.db`.
///
/// The map holds no offsets. A [`ChunkCursor`] reads 4096 of them (32 KiB) at a time. Each takes 8
/// bytes. All offsets of a GiB of data take 512 KiB in chunks of 16 KiB, and 2 MiB in chunks of 4 KiB.
#[derive(Debug)]
pub struct ChunkMap<R> {
    chunks: Option<Chunks<R>>,
    uncompressed_length: u64,
    file_length: u64,
}

#[derive(Debug)]
struct Chunks<R> {
    source: R,
    /// Where the first offset lies in `CompressionInfo.db`.
    offsets_at: u64,
    count: u64,
    compression: Compression,
}

impl<R: ReadAt> Chunks<R> {
    /// Bytes of a chunk before compression.
    fn length(&self) -> u64 {
        self.compression.chunk_length()
    }
}

impl<R: ReadAt> ChunkMap<R> {
    /// The map of an SSTable without compression. Its `Data.db` has `file_length` bytes.
    #[must_use]
    pub fn identity(file_length: u64) -> Self {
        Self {
            chunks: None,
            uncompressed_length: file_length,
            file_length,
        }
    }

    /// Reads the map from `CompressionInfo.db`. The `Data.db` beside it has `file_length` bytes.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Malformed`] if it is damaged or not
    /// complete.
    pub fn read(compression_info: R, file_length: u64) -> Result<Self> {
        let size = compression_info.size()?;
        let mut reader = ForwardReader::new(&compression_info, size, 512);
        let skip_text = |reader: &mut ForwardReader<'_, R>| {
            let length = reader.u16()?;
            reader.skip(length.into())
        };
        let name_length = reader.u16()?;
        let mut compressor = Vec::new();
        reader.read(name_length, &mut compressor)?;
        for _ in 0..reader.length()? {
            skip_text(&mut reader)?;
            skip_text(&mut reader)?;
        }
        let malformed = |what, offset| Err(Error::Malformed { what, offset });
        let at = reader.position();
        let length = u64::from(reader.length()?);
        if !length.is_power_of_two() {
            return malformed("the length of a chunk is not a power of two", at);
        }
        let longest_compressed = u64::from(reader.length()?);
        let at = reader.position();
        let uncompressed_length = reader.long_length()?;
        let count = u64::from(reader.length()?);
        // Cassandra 5.0.9 writes an additional empty chunk at the end of every SSTable.
        if count == 0 || count < uncompressed_length.div_ceil(length) {
            return malformed("fewer chunks than the data takes", at);
        }
        let offsets_at = reader.position();
        reader.skip(count * 8)?;
        let at = reader.position();
        let rest = size - at;
        if rest > 0 {
            reader.skip(1 + 8)?;
            if u64::from(reader.length()?) + DICTIONARY_FRAME != rest {
                return malformed("what follows the chunks is not a dictionary", at);
            }
        }
        Ok(Self {
            chunks: Some(Chunks {
                source: compression_info,
                offsets_at,
                count,
                compression: Compression::new(&compressor, length, longest_compressed),
            }),
            uncompressed_length,
            file_length,
        })
    }

    /// Length of the data before compression, in bytes.
    #[must_use]
    pub fn uncompressed_length(&self) -> u64 {
        self.uncompressed_length
    }

    /// How the chunks are compressed. `None` without compression.
    #[must_use]
    pub fn compression(&self) -> Option<&Compression> {
        self.chunks.as_ref().map(|chunks| &chunks.compression)
    }

    /// A cursor that looks up positions. It shares the map, and holds 32 KiB of its own.
    #[must_use]
    pub fn cursor(&self) -> ChunkCursor<'_, R> {
        ChunkCursor {
            map: self,
            offsets: Vec::new(),
            first: 0,
        }
    }
}

/// Looks up positions of a [`ChunkMap`]. Ascending positions read each offset once, one in 4096
/// twice.
#[derive(Debug)]
pub struct ChunkCursor<'a, R> {
    map: &'a ChunkMap<R>,
    /// Offsets in `Data.db` of the chunks from `first` on, and the end of the last of them.
    offsets: Vec<u64>,
    first: u64,
}

impl<R: ReadAt> ChunkCursor<'_, R> {
    /// The bytes of `Data.db` that hold the uncompressed positions `range`.
    ///
    /// These are whole chunks with their checksums. Positions beyond the data are ignored. Without
    /// any position in the data the result is an empty range.
    ///
    /// # Errors
    /// [`Error::Io`] if the offsets cannot be read, [`Error::Malformed`] if they do not ascend.
    pub fn file_range(&mut self, range: Range<u64>) -> Result<Range<u64>> {
        let map = self.map;
        let range = range.start..range.end.min(map.uncompressed_length);
        if range.is_empty() {
            return Ok(0..0);
        }
        let Some(chunks) = &map.chunks else {
            return Ok(range);
        };
        let start = self.chunk(chunks, range.start / chunks.length())?.start;
        let end = self.chunk(chunks, (range.end - 1) / chunks.length())?.end;
        Ok(start..end)
    }

    /// Where a chunk lies in `Data.db`.
    fn chunk(&mut self, chunks: &Chunks<R>, number: u64) -> Result<Range<u64>> {
        let held = self.offsets.len().saturating_sub(1) as u64;
        if !(self.first..self.first + held).contains(&number) {
            self.load(chunks, number / OFFSETS_AT_A_TIME * OFFSETS_AT_A_TIME)?;
        }
        let index = (number - self.first) as usize;
        Ok(self.offsets[index]..self.offsets[index + 1])
    }

    fn load(&mut self, chunks: &Chunks<R>, first: u64) -> Result<()> {
        let count = (chunks.count - first).min(OFFSETS_AT_A_TIME);
        // The last chunk ends at the next chunk's offset, or at the end of the file.
        let has_next = first + count < chunks.count;
        let offsets_to_read = count + u64::from(has_next);
        let mut bytes = memory::filled(offsets_to_read as usize * 8, 0)?;
        let at = chunks.offsets_at + first * 8;
        chunks.source.read_exact_at(&mut bytes, at)?;
        let (offsets, _) = bytes.as_chunks::<8>();
        self.first = first;
        self.offsets.clear();
        self.offsets
            .try_extend(offsets.iter().map(|&offset| u64::from_be_bytes(offset)))?;
        if !has_next {
            self.offsets.try_push(self.map.file_length)?;
        }
        let is_ascending = self.offsets.is_sorted_by(|one, next| one < next);
        if !is_ascending || self.offsets.last() > Some(&self.map.file_length) {
            self.offsets.clear();
            return Err(Error::Malformed {
                what: "the chunks' offsets are not ascending up to the length of the data",
                offset: at,
            });
        }
        Ok(())
    }
}
