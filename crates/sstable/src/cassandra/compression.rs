//! Decompression of the chunks of a `Data.db`.
//!
//! - LZ4: the decompressed length comes first, in four bytes, little-endian.
//! - Deflate: with zlib's header.
//! - A chunk is stored uncompressed if compression would not bring it below the maximum length that
//!   `CompressionInfo.db` names.
//!
//! Source, in `io/compress/` of Cassandra 4.1.10, 5.0.9 and 6.0-alpha2:
//! `CompressedSequentialWriter.java` (`flushData`), `LZ4Compressor.java`, `SnappyCompressor.java`,
//! `DeflateCompressor.java`, `ZstdCompressor.java`, `NoopCompressor.java`.

use crate::decompression::{self, Failure, Size};
use crate::{Error, Result, memory};

/// How an SSTable's chunks are compressed.
#[derive(Clone, Debug)]
pub struct Compression {
    algorithm: Algorithm,
    /// Bytes of a chunk before compression.
    chunk_length: u64,
    /// A chunk with at least this number of stored bytes is not compressed.
    compressed_below: u64,
}

#[derive(Clone, Copy, Debug)]
enum Algorithm {
    None,
    Lz4,
    Snappy,
    Deflate,
    Zstandard,
    /// Another class, or one with a dictionary.
    Unknown,
}

impl Compression {
    /// The compression of the class `compressor`, as `CompressionInfo.db` names it. A chunk has `chunk_length` bytes
    /// at most. If it takes `compressed_below` bytes or more in the file, it is stored as it is.
    #[must_use]
    pub fn new(compressor: &[u8], chunk_length: u64, compressed_below: u64) -> Self {
        let algorithm = match compressor {
            b"NoopCompressor" => Algorithm::None,
            b"LZ4Compressor" => Algorithm::Lz4,
            b"SnappyCompressor" => Algorithm::Snappy,
            b"DeflateCompressor" => Algorithm::Deflate,
            b"ZstdCompressor" => Algorithm::Zstandard,
            _ => Algorithm::Unknown,
        };
        Self {
            algorithm,
            chunk_length,
            compressed_below,
        }
    }

    /// Bytes of a chunk before compression. The last chunk may be shorter.
    #[must_use]
    pub fn chunk_length(&self) -> u64 {
        self.chunk_length
    }

    /// Decompresses the chunk `stored`, which comes without its checksum.
    ///
    /// `None` if the bytes are no chunk of this compression, or the compression is unknown.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn decompress(&self, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        let chunk = if stored.len() as u64 >= self.compressed_below {
            Ok(memory::copied(stored)?)
        } else {
            self.expand(stored)
        };
        match chunk {
            Err(Failure::OutOfMemory) => Err(Error::OutOfMemory),
            chunk => Ok(chunk
                .ok()
                .filter(|chunk| chunk.len() as u64 <= self.chunk_length)),
        }
    }

    fn expand(&self, stored: &[u8]) -> std::result::Result<Vec<u8>, Failure> {
        let at_most = || decompression::bounded(self.chunk_length).map(Size::AtMost);
        match self.algorithm {
            Algorithm::None => Ok(memory::copied(stored)?),
            Algorithm::Lz4 => {
                let (length, compressed) = stored.split_first_chunk().ok_or(Failure::Damaged)?;
                let length = u32::from_le_bytes(*length);
                if u64::from(length) > self.chunk_length {
                    return Err(Failure::TooLarge);
                }
                decompression::lz4(decompression::bounded(length.into())?, compressed)
            }
            Algorithm::Snappy => decompression::snappy(stored),
            Algorithm::Deflate => decompression::zlib(at_most()?, stored),
            Algorithm::Zstandard => decompression::zstandard(at_most()?, stored),
            Algorithm::Unknown => Err(Failure::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const CHUNK: u64 = 4096;

    fn contents() -> Vec<u8> {
        (0..4096_u32).map(|at| (at % 37) as u8).collect()
    }

    #[test]
    fn chunks_of_every_compressor_come_back() {
        let contents = contents();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
        zlib.write_all(&contents).unwrap();
        let lz4 = lz4_flex::block::compress(&contents);
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let stored: [(&[u8], Vec<u8>); 5] = [
            (b"NoopCompressor", contents.clone()),
            (b"LZ4Compressor", [&[0, 16, 0, 0], &lz4[..]].concat()),
            (
                b"SnappyCompressor",
                snap::raw::Encoder::new().compress_vec(&contents).unwrap(),
            ),
            (b"DeflateCompressor", zlib.finish().unwrap()),
            (
                b"ZstdCompressor",
                ruzstd::encoding::compress_to_vec(&contents[..], level),
            ),
        ];
        for (name, stored) in stored {
            let compression = Compression::new(name, CHUNK, u64::from(i32::MAX.unsigned_abs()));
            assert_eq!(
                compression.decompress(&stored).unwrap().as_ref(),
                Some(&contents)
            );
            let plain = Compression::new(name, CHUNK, 1);
            assert_eq!(plain.decompress(&stored).unwrap().as_ref(), Some(&stored));
        }
    }

    #[test]
    fn what_is_no_chunk_is_declined() {
        let lz4 = Compression::new(b"LZ4Compressor", CHUNK, u64::MAX);
        assert_eq!(lz4.decompress(&[]).unwrap(), None);
        assert_eq!(
            lz4.decompress(&[255, 255, 255, 127, 0]).unwrap(),
            None,
            "too long"
        );
        assert_eq!(lz4.decompress(&[0, 16, 0, 0, 1, 2, 3]).unwrap(), None);
        let other = Compression::new(b"ZstdDictionaryCompressor", CHUNK, u64::MAX);
        assert_eq!(other.decompress(&contents()).unwrap(), None);
    }
}
