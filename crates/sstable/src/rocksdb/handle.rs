//! Offset and size of a block (`BlockHandle` in `table/format.h` of both engines).

use super::bytes::Bytes;

/// Bytes of compression type and checksum behind every block.
pub(super) const TRAILER_BYTES: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHandle {
    /// Bytes from the beginning of the file.
    pub(super) offset: u64,
    /// Bytes, without the trailer.
    pub(super) size: u64,
}

impl BlockHandle {
    pub(super) fn decode(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self {
            offset: bytes.varint64()?,
            size: bytes.varint64()?,
        })
    }

    /// The handle of a block of `size` bytes whose trailer ends at `end`.
    pub(super) fn ending_at(end: u64, size: u64) -> Option<Self> {
        Some(Self {
            offset: end.checked_sub(TRAILER_BYTES)?.checked_sub(size)?,
            size,
        })
    }

    /// The handle of the block directly behind this one. Its size differs by `growth`.
    pub(super) fn next(self, growth: i64) -> Option<Self> {
        Some(Self {
            offset: self.end()?,
            size: self.size.checked_add_signed(growth)?,
        })
    }

    /// The end of the trailer, in bytes from the beginning of the file.
    pub(super) fn end(self) -> Option<u64> {
        self.offset
            .checked_add(self.size)?
            .checked_add(TRAILER_BYTES)
    }
}
