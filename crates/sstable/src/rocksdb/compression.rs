//! Decompression of a block by its compression type.
//!
//! - The number of a type depends on the engine: 2 is Zstandard in LevelDB, zlib in RocksDB.
//! - RocksDB's `format_version` 2 put the decompressed size before the compressed bytes
//!   (`compress_format_version` in `util/compression.h`).
//! - Only data blocks are compressed with a dictionary, index blocks never
//!   (`BlockBasedTableBuilder::WriteBlock`).

use super::bytes::Bytes;
use crate::decompression::{Failure, Size, bounded, bzip2, deflate, lz4, snappy, zstandard};

/// The numbering of compression types, and the framing of compressed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompressionFormat {
    LevelDb,
    /// RocksDB before `format_version` 2.
    RocksDbVersion1,
    /// RocksDB since `format_version` 2, without a compression manager or with the built-in one.
    RocksDbVersion2,
    /// Only uncompressed blocks can be read. The application's own compression manager defines the
    /// others.
    Uncompressed,
}

impl CompressionFormat {
    /// The contents of a block that is stored as `stored` with `compression_type`.
    pub(super) fn decompress(
        self,
        compression_type: u8,
        stored: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        use CompressionFormat::{LevelDb, RocksDbVersion1, RocksDbVersion2};

        let mut compressed = Bytes::new(&stored);
        match (self, compression_type) {
            (_, 0) => Ok(stored),
            (LevelDb | RocksDbVersion1 | RocksDbVersion2, 1) => snappy(&stored),
            (LevelDb, 2) => zstandard(Size::Unknown, &stored),
            (RocksDbVersion1, 2) => deflate(Size::Unknown, &stored),
            (RocksDbVersion1, 3) => bzip2(Size::Unknown, &stored),
            (RocksDbVersion1, 4 | 5) => {
                let size = compressed.fixed64().ok_or(Failure::Damaged)?;
                lz4(bounded(size)?, compressed.rest())
            }
            (RocksDbVersion1 | RocksDbVersion2, 7 | 0x40) => {
                let size = size_before(&mut compressed)?;
                zstandard(Size::Exactly(size), compressed.rest())
            }
            (RocksDbVersion2, 2..=5) => {
                let size = size_before(&mut compressed)?;
                let compressed = compressed.rest();
                match compression_type {
                    2 => deflate(Size::Exactly(size), compressed),
                    3 => bzip2(Size::Exactly(size), compressed),
                    _ => lz4(size, compressed),
                }
            }
            _ => Err(Failure::Unknown),
        }
    }
}

fn size_before(compressed: &mut Bytes<'_>) -> Result<usize, Failure> {
    bounded(compressed.varint32().ok_or(Failure::Damaged)?.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::CompressionFormat::*;
    use super::*;
    use crate::decompression::MAX_BLOCK_BYTES;

    /// Repeats itself, so that every compression makes it smaller.
    fn contents() -> Vec<u8> {
        (0..4000u32).map(|at| (at % 37) as u8).collect()
    }

    fn deflated(contents: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
        encoder.write_all(contents).unwrap();
        encoder.finish().unwrap()
    }

    fn zstandard_frame(contents: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(contents, ruzstd::encoding::CompressionLevel::Fastest)
    }

    /// 4000 as varint32.
    const SIZE: [u8; 2] = [0xa0, 0x1f];

    fn with_size(size: &[u8], compressed: &[u8]) -> Vec<u8> {
        [size, compressed].concat()
    }

    #[test]
    fn the_same_number_means_different_things() {
        let contents = contents();
        let snappy = snap::raw::Encoder::new().compress_vec(&contents).unwrap();
        let zstandard = zstandard_frame(&contents);
        let deflate = deflated(&contents);
        let cases = [
            (LevelDb, 1, snappy.clone()),
            (LevelDb, 2, zstandard.clone()),
            (RocksDbVersion1, 1, snappy.clone()),
            (RocksDbVersion1, 2, deflate.clone()),
            (RocksDbVersion2, 1, snappy.clone()),
            (RocksDbVersion2, 2, with_size(&SIZE, &deflate)),
            (RocksDbVersion2, 7, with_size(&SIZE, &zstandard)),
            (RocksDbVersion2, 0x40, with_size(&SIZE, &zstandard)),
        ];
        for (format, number, stored) in cases {
            let result = format.decompress(number, stored);
            assert_eq!(result.as_ref(), Ok(&contents), "{format:?} {number}");
        }
        for (format, number, stored) in [
            (LevelDb, 2, deflate.clone()),
            (RocksDbVersion1, 2, zstandard),
            (RocksDbVersion2, 2, deflate),
        ] {
            let result = format.decompress(number, stored);
            assert_eq!(result, Err(Failure::Damaged), "{format:?} {number}");
        }
        for (format, number) in [
            (LevelDb, 3),
            (RocksDbVersion2, 6),
            (RocksDbVersion2, 0x80),
            (Uncompressed, 1),
        ] {
            assert_eq!(
                format.decompress(number, snappy.clone()),
                Err(Failure::Unknown)
            );
        }
    }

    #[test]
    fn a_size_that_does_not_fit_is_damage() {
        for number in [2, 7] {
            let compressed = match number {
                2 => deflated(&contents()),
                _ => zstandard_frame(&contents()),
            };
            for size in [[0x9f, 0x1f], [0xa1, 0x1f]] {
                let stored = with_size(&size, &compressed);
                assert_eq!(
                    RocksDbVersion2.decompress(number, stored),
                    Err(Failure::Damaged)
                );
            }
        }
    }

    #[test]
    fn what_would_be_too_large_is_not_made() {
        // 64 MiB and one byte.
        let size = [0x81, 0x80, 0x80, 0x20];
        for number in [2, 3, 4, 5, 7] {
            let result = RocksDbVersion2.decompress(number, with_size(&size, &[0; 20]));
            assert_eq!(result, Err(Failure::TooLarge), "{number}");
        }
        assert_eq!(LevelDb.decompress(1, size.to_vec()), Err(Failure::TooLarge));
        let bomb = deflated(&vec![0; MAX_BLOCK_BYTES + 1]);
        assert_eq!(RocksDbVersion1.decompress(2, bomb), Err(Failure::TooLarge));
    }
}
