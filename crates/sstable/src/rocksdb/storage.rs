//! Reads stored blocks: checks bounds and checksum, and decompresses.

use super::block::Block;
use super::bytes::Bytes;
use super::checksum::context_modifier;
use super::columns::Columns;
use super::compression::CompressionFormat;
use super::footer::Footer;
use super::handle::{BlockHandle, TRAILER_BYTES};
use crate::decompression::{Failure, MAX_BLOCK_BYTES};
use crate::{Error, ReadAt, Result, memory, unsupported};

/// Longest read of a [`ReadAt`], in bytes.
const READ_BYTES: usize = 1 << 20;

/// Reads the blocks of one SSTable.
#[derive(Clone, Copy)]
pub(super) struct Storage<'a> {
    pub(super) source: &'a dyn ReadAt,
    pub(super) footer: Footer,
    pub(super) compression: CompressionFormat,
}

/// The bytes of a block in the file, including its trailer. Nothing is verified yet.
pub(super) struct StoredBlock {
    bytes: Vec<u8>,
    handle: BlockHandle,
}

impl Storage<'_> {
    /// The contents of the block at `handle`, verified and decompressed.
    pub(super) fn read(&self, handle: BlockHandle) -> Result<Block> {
        Block::parse(self.read_contents(handle)?, handle.offset)
    }

    /// The block of columns at `handle`, with `own_bytes` in front of its header.
    pub(super) fn read_columns(&self, handle: BlockHandle, own_bytes: usize) -> Result<Columns> {
        Columns::parse(self.read_contents(handle)?, own_bytes, handle.offset)
    }

    /// The contents of the block at `handle`, verified and decompressed, but not parsed.
    pub(super) fn read_contents(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        let stored = self.read_stored(handle)?;
        if !self.is_intact(&stored) {
            return Err(mismatch(handle));
        }
        let compression_type = stored.compression_type();
        let contents = self
            .compression
            .decompress(compression_type, stored.into_payload());
        contents.map_err(|failure| match failure {
            Failure::Unknown => unsupported(format_args!(
                "compression type {compression_type} of a block"
            )),
            Failure::TooLarge => too_large(),
            Failure::OutOfMemory => Error::OutOfMemory,
            Failure::Damaged => Error::Malformed {
                what: "a block does not decompress",
                offset: handle.offset,
            },
        })
    }

    pub(super) fn read_stored(&self, handle: BlockHandle) -> Result<StoredBlock> {
        match handle.end() {
            Some(end) if end <= self.footer.offset => {}
            _ => {
                return Err(Error::Malformed {
                    what: "a block that does not end before the footer",
                    offset: handle.offset,
                });
            }
        }
        if handle.size > MAX_BLOCK_BYTES as u64 {
            return Err(too_large());
        }
        let mut bytes = memory::filled((handle.size + TRAILER_BYTES) as usize, 0)?;
        let mut offset = handle.offset;
        for piece in bytes.chunks_mut(READ_BYTES) {
            self.source.read_exact_at(piece, offset)?;
            offset += piece.len() as u64;
        }
        Ok(StoredBlock { bytes, handle })
    }

    /// Whether the checksum matches. An SSTable without checksums stores zeros instead.
    pub(super) fn is_intact(&self, stored: &StoredBlock) -> bool {
        let Footer {
            checksum_type,
            base_context_checksum,
            ..
        } = self.footer;
        let (guarded, checksum) = stored.bytes.split_at(stored.bytes.len() - 4);
        let modifier = context_modifier(base_context_checksum, stored.handle.offset);
        let computed = checksum_type.compute(guarded).wrapping_add(modifier);
        Bytes::new(checksum).fixed32() == Some(computed)
    }
}

impl StoredBlock {
    pub(super) fn compression_type(&self) -> u8 {
        self.bytes[self.bytes.len() - TRAILER_BYTES as usize]
    }

    /// The bytes without the trailer.
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - TRAILER_BYTES as usize]
    }

    pub(super) fn payload_mut(&mut self) -> &mut [u8] {
        let payload = self.bytes.len() - TRAILER_BYTES as usize;
        &mut self.bytes[..payload]
    }

    pub(super) fn into_payload(mut self) -> Vec<u8> {
        self.bytes.truncate(self.payload().len());
        self.bytes
    }
}

pub(super) fn mismatch(handle: BlockHandle) -> Error {
    Error::Malformed {
        what: "the checksum of a block does not match",
        offset: handle.offset,
    }
}

fn too_large() -> Error {
    unsupported(format_args!("a block above {} MiB", MAX_BLOCK_BYTES >> 20))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;

    use super::super::checksum::ChecksumType;
    use super::*;

    /// A very large file of zeros that records the reads.
    #[derive(Default)]
    struct Endless(RefCell<Vec<(u64, usize)>>);

    impl ReadAt for Endless {
        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            self.0.borrow_mut().push((offset, buffer.len()));
            buffer.fill(0);
            Ok(())
        }

        fn size(&self) -> io::Result<u64> {
            Ok(u64::MAX)
        }
    }

    fn read(source: &Endless, offset: u64, size: u64) -> Result<Block> {
        let footer = Footer {
            format_version: 2,
            checksum_type: ChecksumType::None,
            base_context_checksum: 0,
            metaindex: BlockHandle { offset: 0, size: 0 },
            index: None,
            offset: 1 << 40,
            is_pebbles: false,
        };
        let compression = CompressionFormat::Uncompressed;
        Storage {
            source,
            footer,
            compression,
        }
        .read(BlockHandle { offset, size })
    }

    #[test]
    fn a_large_block_is_read_in_pieces_from_front_to_back() {
        let source = Endless::default();
        // The number of restart points is zero, so entries are not allowed.
        assert!(matches!(
            read(&source, 10, 5 << 19),
            Err(Error::Malformed { offset: 10, .. })
        ));
        let reads = source.0.into_inner();
        let piece = READ_BYTES as u64;
        let expected = [
            (10, READ_BYTES),
            (10 + piece, READ_BYTES),
            (10 + 2 * piece, READ_BYTES / 2 + TRAILER_BYTES as usize),
        ];
        assert_eq!(reads, expected);
    }

    #[test]
    fn a_block_that_cannot_exist_is_not_read() {
        let source = Endless::default();
        for (offset, size) in [(1 << 40, 0), (0, 1 << 40), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(matches!(
                read(&source, offset, size),
                Err(Error::Malformed { .. })
            ));
        }
        let too_large = MAX_BLOCK_BYTES as u64 + 1;
        assert!(matches!(
            read(&source, 0, too_large),
            Err(Error::Unsupported(_))
        ));
        assert_eq!(source.0.into_inner(), []);
    }
}
