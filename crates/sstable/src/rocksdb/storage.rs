//! Blocks as they are stored: bounds, checksum, compression.

use super::block::Block;
use super::bytes::Bytes;
use super::checksum::context_modifier;
use super::compression::{CompressionFormat, Failure, MAX_BLOCK_BYTES};
use super::footer::Footer;
use super::handle::{BlockHandle, TRAILER_BYTES};
use crate::{Error, ReadAt, Result};

/// Most that is asked of a [`ReadAt`] at once, in bytes.
const READ_BYTES: usize = 1 << 20;

/// Reads the blocks of one table.
#[derive(Clone, Copy)]
pub(super) struct Storage<'a> {
    pub(super) source: &'a dyn ReadAt,
    pub(super) footer: Footer,
    pub(super) compression: CompressionFormat,
}

/// The bytes of a block in the file, with its trailer. Nothing is verified yet.
pub(super) struct StoredBlock {
    bytes: Vec<u8>,
    handle: BlockHandle,
}

impl Storage<'_> {
    /// The contents of the block at `handle`, verified and decompressed.
    pub(super) fn read(&self, handle: BlockHandle) -> Result<Block> {
        let stored = self.read_stored(handle)?;
        if !self.is_intact(&stored) {
            return Err(mismatch(handle));
        }
        let compression_type = stored.compression_type();
        let contents = self
            .compression
            .decompress(compression_type, stored.into_payload());
        let contents = contents.map_err(|failure| match failure {
            Failure::Unknown => {
                Error::Unsupported(format!("compression type {compression_type} of an index"))
            }
            Failure::TooLarge => too_large(),
            Failure::Damaged => Error::Malformed {
                what: "a block does not decompress",
                offset: handle.offset,
            },
        })?;
        Block::parse(contents, handle.offset)
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
        let mut bytes = vec![0; (handle.size + TRAILER_BYTES) as usize];
        let mut offset = handle.offset;
        for piece in bytes.chunks_mut(READ_BYTES) {
            self.source.read_exact_at(piece, offset)?;
            offset += piece.len() as u64;
        }
        Ok(StoredBlock { bytes, handle })
    }

    /// Whether the checksum fits. A table without checksums has zeros in their place.
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

    /// Without the trailer.
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
        what: "checksum mismatch of a block",
        offset: handle.offset,
    }
}

fn too_large() -> Error {
    Error::Unsupported(format!(
        "an index block of more than {} MiB",
        MAX_BLOCK_BYTES >> 20
    ))
}
