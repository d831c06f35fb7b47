//! Checksums of blocks and footers (`ComputeBuiltinChecksum` in RocksDB's `table/format.cc`,
//! `util/crc32c.h` of both engines).

use twox_hash::{XxHash3_64, XxHash32, XxHash64};

use crate::{Result, unsupported};

/// The checksum of an SSTable's blocks. LevelDB has only CRC-32C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChecksumType {
    /// The SSTable was written without checksums: nothing can be verified.
    None,
    Crc32c,
    XxHash,
    XxHash64,
    Xxh3,
}

impl ChecksumType {
    /// The type that this number in the footer means.
    pub(super) fn from_number(number: u8) -> Result<Self> {
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Crc32c),
            2 => Ok(Self::XxHash),
            3 => Ok(Self::XxHash64),
            4 => Ok(Self::Xxh3),
            _ => Err(unsupported(format_args!("checksum type {number}"))),
        }
    }

    /// The checksum of `bytes`. Of 64-bit sums the format keeps the lower half.
    pub(super) fn compute(self, bytes: &[u8]) -> u32 {
        match self {
            Self::None => 0,
            Self::Crc32c => masked(crc32c::crc32c(bytes)),
            Self::XxHash => XxHash32::oneshot(0, bytes),
            Self::XxHash64 => XxHash64::oneshot(0, bytes) as u32,
            Self::Xxh3 => {
                // The engine hashes a block before it appends the compression type. It then mixes in
                // that last byte separately.
                let Some((last, bytes)) = bytes.split_last() else {
                    return 0;
                };
                XxHash3_64::oneshot(bytes) as u32 ^ u32::from(*last).wrapping_mul(0x6b90_83d9)
            }
        }
    }
}

/// Rotates a CRC and adds a constant. A CRC over data and its own plain CRC would be degenerate.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The number that `format_version` 6 and later add to a checksum (`ChecksumModifierForContext`).
///
/// It depends on the file and the offset. So an intact block of another file or offset is detected.
pub(super) fn context_modifier(base_context_checksum: u32, offset: u64) -> u32 {
    match base_context_checksum {
        0 => 0,
        base => base ^ (offset as u32).wrapping_add((offset >> 32) as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_masked() {
        // CRC-32C of "123456789" is its check value 0xe3069283.
        let expected = 0xe306_9283u32.rotate_right(15).wrapping_add(0xa282_ead8);
        assert_eq!(ChecksumType::Crc32c.compute(b"123456789"), expected);
    }

    #[test]
    fn context_is_off_without_a_base_and_uses_both_halves_of_the_offset() {
        assert_eq!(context_modifier(0, 0x1234), 0);
        assert_eq!(context_modifier(0xff, 0x1_0000_0001), 0xff ^ 2);
    }

    #[test]
    fn xxh3_of_nothing_is_zero() {
        assert_eq!(ChecksumType::Xxh3.compute(b""), 0);
        assert_ne!(
            ChecksumType::Xxh3.compute(b"a"),
            ChecksumType::Xxh3.compute(b"b")
        );
    }

    #[test]
    fn an_unknown_type_is_declined() {
        assert!(matches!(
            ChecksumType::from_number(5),
            Err(crate::Error::Unsupported(_))
        ));
    }
}
