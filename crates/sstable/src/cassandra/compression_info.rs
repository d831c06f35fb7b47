//! `CompressionInfo.db`: where the chunks of a compressed `Data.db` begin.
//!
//! Source: `io/compress/CompressionMetadata.java` (Cassandra 4.1.10, 5.0.9, 6.0-alpha2) and
//! `db/compression/CompressionDictionary.java` (6.0-alpha2): the compressor's name; the number of
//! options and each one's name and value; the length of a chunk before compression; the longest
//! length of a compressed one; the length of the data before compression; the number of chunks and
//! the offset of each in the file; from 6.0 on possibly the dictionary's kind (1 byte), identifier
//! (8), length (4), bytes and checksum (4). In `Data.db` each chunk is followed by a checksum.

use std::ops::Range;

use super::compression::Compression;
use super::forward::ForwardReader;
use crate::{Error, ReadAt, Result};

/// Chunk offsets that a [`ChunkCursor`] holds at a time.
const OFFSETS_AT_A_TIME: u64 = 4096;

/// Bytes of a dictionary's description without the dictionary.
const DICTIONARY_FRAME: u64 = 1 + 8 + 4 + 4;

/// Where uncompressed positions lie in `Data.db`. It holds no offset: they are read when they are
/// needed, 4096 (32 KiB) at a time, by a [`ChunkCursor`]. On disk, and for a reader that held them
/// all, they take 8 bytes each: 512 KiB for a GiB of uncompressed data in chunks of 16 KiB, 2 MiB
/// in chunks of 4 KiB.
#[derive(Debug)]
pub struct ChunkMap<R> {
    chunks: Option<Chunks<R>>,
    uncompressed_length: u64,
    file_length: u64,
}

#[derive(Debug)]
struct Chunks<R> {
    source: R,
    /// Where the first offset is in `CompressionInfo.db`.
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
    /// The map of a table without compression, whose `Data.db` has `file_length` bytes.
    #[must_use]
    pub fn identity(file_length: u64) -> Self {
        Self {
            chunks: None,
            uncompressed_length: file_length,
            file_length,
        }
    }

    /// The map in a `CompressionInfo.db` whose `Data.db` has `file_length` bytes.
    ///
    /// # Errors
    /// If the file cannot be read or is not whole.
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
        // Running nodes of 5.0.9 write one more chunk than there is data for, an empty one, at the
        // end of every table.
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

    /// How the chunks are compressed; `None` without compression.
    #[must_use]
    pub fn compression(&self) -> Option<&Compression> {
        self.chunks.as_ref().map(|chunks| &chunks.compression)
    }

    /// Starts looking positions up.
    #[must_use]
    pub fn cursor(&self) -> ChunkCursor<'_, R> {
        ChunkCursor {
            map: self,
            offsets: Vec::new(),
            first: 0,
        }
    }
}

/// Looks positions of a [`ChunkMap`] up. Ascending positions, of either kind, read each offset at
/// most once, and a few of them alone to find the first ones.
#[derive(Debug)]
pub struct ChunkCursor<'a, R> {
    map: &'a ChunkMap<R>,
    /// Offsets in `Data.db` of the chunks from `first` on, and where the last of them ends.
    offsets: Vec<u64>,
    first: u64,
}

impl<R: ReadAt> ChunkCursor<'_, R> {
    /// The bytes of `Data.db` that have to be read for the uncompressed positions `range`: whole
    /// chunks with their checksums. What of `range` is beyond the data is ignored; of nothing the
    /// result is an empty range.
    ///
    /// # Errors
    /// If the offsets cannot be read or are not ascending.
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
        // One more offset tells where the last chunk ends: the next one's, or the file's length.
        let followed = first + count < chunks.count;
        let read = count + u64::from(followed);
        let mut bytes = vec![0; read as usize * 8];
        let at = chunks.offsets_at + first * 8;
        chunks.source.read_exact_at(&mut bytes, at)?;
        let (offsets, _) = bytes.as_chunks::<8>();
        self.first = first;
        self.offsets.clear();
        self.offsets
            .extend(offsets.iter().map(|&offset| u64::from_be_bytes(offset)));
        if !followed {
            self.offsets.push(self.map.file_length);
        }
        let ascending = self.offsets.is_sorted_by(|one, next| one < next);
        if !ascending || self.offsets.last() > Some(&self.map.file_length) {
            self.offsets.clear();
            return Err(Error::Malformed {
                what: "the chunks' offsets are not ascending up to the length of the data",
                offset: at,
            });
        }
        Ok(())
    }
}
