//! The end of an SSTable: its format, its checksum type, and where its first blocks lie.
//!
//! Source: `Footer::DecodeFrom` in `table/format.cc` of both engines. LevelDB describes its footer in
//! `doc/table_format.md`. RocksDB describes the later layout above `kExtendedMagic`.

use super::bytes::Bytes;
use super::checksum::{ChecksumType, context_modifier};
use super::handle::BlockHandle;
use crate::{Error, ReadAt, Result, memory, unsupported};

/// LevelDB's SSTables, and RocksDB's of `format_version` 0.
const LEGACY_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const BLOCK_BASED_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// Pebble's of its table formats 1 to 7. The first four have no columns.
const PEBBLE_MAGIC: u64 = 0xf09f_aab3_f09f_aab3_u64.swap_bytes();
const PEBBLE_TABLE_FORMATS: std::ops::RangeInclusive<u32> = 1..=7;
/// RocksDB's other SSTable formats. They have no index of blocks.
const OTHER_MAGICS: [(u64, &str); 3] = [
    (0x8242_2296_63bf_9564, "RocksDB's plain table"),
    (0x4f34_18eb_7a8f_13b8, "RocksDB's plain table"),
    (0x9267_89d0_c5f1_7873, "RocksDB's cuckoo table"),
];

const LATEST_FORMAT_VERSION: u32 = 7;
/// Since `format_version` 6 this replaces the two handles. It is never a valid handle.
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0, 0x7a, 0];

/// Two handles of two 10-byte varints each, and the magic number.
const LEGACY_BYTES: usize = 48;
/// The legacy footer, with the checksum type before and the format version behind the handles.
const BLOCK_BASED_BYTES: usize = 53;
/// Pebble's since its table format 7: with attributes and a checksum before the format version.
const PEBBLE_BYTES_MAX: usize = 61;

#[derive(Clone, Copy, Debug)]
pub(super) struct Footer {
    /// 0 for LevelDB, and for RocksDB with LevelDB's magic number.
    pub(super) format_version: u32,
    pub(super) checksum_type: ChecksumType,
    /// Zero before `format_version` 6.
    pub(super) base_context_checksum: u32,
    pub(super) metaindex: BlockHandle,
    /// `None` since `format_version` 6: the metaindex then names the index.
    pub(super) index: Option<BlockHandle>,
    /// Where the footer begins, in bytes from the beginning of the file. Every block ends before it.
    pub(super) offset: u64,
    /// `format_version` is Pebble's table format.
    pub(super) is_pebbles: bool,
}

impl Footer {
    /// Whether blocks have columns that have them since this table format of Pebble.
    pub(super) fn has_columns_since(&self, table_format: u32) -> bool {
        self.is_pebbles && self.format_version >= table_format
    }

    pub(super) fn read(source: &dyn ReadAt) -> Result<Self> {
        let size = source.size()?;
        let mut footer = [0; BLOCK_BASED_BYTES];
        let (before, legacy) = footer.split_at_mut(BLOCK_BASED_BYTES - LEGACY_BYTES);
        let Some(legacy_offset) = size.checked_sub(LEGACY_BYTES as u64) else {
            return Err(Error::Unfinished);
        };
        source.read_exact_at(legacy, legacy_offset)?;
        match Bytes::from(legacy, LEGACY_BYTES - 8).fixed64() {
            Some(LEGACY_MAGIC) => decode_legacy(legacy, legacy_offset),
            Some(BLOCK_BASED_MAGIC) => {
                let Some(offset) = size.checked_sub(BLOCK_BASED_BYTES as u64) else {
                    return Err(Error::Malformed {
                        what: "the footer is cut off",
                        offset: 0,
                    });
                };
                source.read_exact_at(before, offset)?;
                decode_block_based(&footer, offset)
            }
            Some(PEBBLE_MAGIC) => read_pebbles(source, size),
            found => Err(
                match OTHER_MAGICS.iter().find(|other| Some(other.0) == found) {
                    Some((_, name)) => unsupported(format_args!("{name}")),
                    None => Error::Unfinished,
                },
            ),
        }
    }
}

fn decode_legacy(footer: &[u8], offset: u64) -> Result<Footer> {
    let (metaindex, index) = decode_handles(footer, offset)?;
    Ok(Footer {
        format_version: 0,
        checksum_type: ChecksumType::Crc32c,
        base_context_checksum: 0,
        metaindex,
        index: Some(index),
        offset,
        is_pebbles: false,
    })
}

/// Source: `parseFooter` in `sstable/table.go` of Pebble.
fn read_pebbles(source: &dyn ReadAt, size: u64) -> Result<Footer> {
    let malformed = |what| Error::Malformed { what, offset: 0 };
    let cut_off = "the footer is cut off";
    let length_max = size.min(PEBBLE_BYTES_MAX as u64) as usize;
    let mut bytes = [0; PEBBLE_BYTES_MAX];
    source.read_exact_at(&mut bytes[..length_max], size - length_max as u64)?;
    let bytes = &bytes[..length_max];
    let table_format = Bytes::from(bytes, length_max - 12)
        .fixed32()
        .ok_or(malformed(cut_off))?;
    if !PEBBLE_TABLE_FORMATS.contains(&table_format) {
        return Err(unsupported(format_args!(
            "table format {table_format} of Pebble"
        )));
    }
    let (length, checksum_at) = match table_format {
        ..=5 => (BLOCK_BASED_BYTES, None),
        6 => (BLOCK_BASED_BYTES + 4, Some(BLOCK_BASED_BYTES - 12)),
        _ => (PEBBLE_BYTES_MAX, Some(PEBBLE_BYTES_MAX - 16)),
    };
    let footer = length_max
        .checked_sub(length)
        .and_then(|at| bytes.get(at..));
    let footer = footer.ok_or(malformed(cut_off))?;
    let offset = size - length as u64;
    if let Some(at) = checksum_at {
        let guarded = memory::collected((footer[..at].iter().chain(&footer[at + 4..])).copied())?;
        if Bytes::from(footer, at).fixed32() != Some(ChecksumType::Crc32c.compute(&guarded)) {
            return Err(Error::Malformed {
                what: "the checksum of the footer does not match",
                offset,
            });
        }
    }
    let (metaindex, index) = decode_handles(&footer[1..], offset)?;
    Ok(Footer {
        format_version: table_format,
        checksum_type: ChecksumType::from_number(footer[0])?,
        base_context_checksum: 0,
        metaindex,
        index: Some(index),
        offset,
        is_pebbles: true,
    })
}

fn decode_block_based(footer: &[u8; BLOCK_BASED_BYTES], offset: u64) -> Result<Footer> {
    let truncated = Error::Malformed {
        what: "the footer is cut off",
        offset,
    };
    let Some(format_version) = Bytes::from(footer, BLOCK_BASED_BYTES - 12).fixed32() else {
        return Err(truncated);
    };
    if !(1..=LATEST_FORMAT_VERSION).contains(&format_version) {
        return Err(unsupported(format_args!("format_version {format_version}")));
    }
    let checksum_type = ChecksumType::from_number(footer[0])?;
    if format_version >= 6 {
        return decode_extended(footer, format_version, checksum_type, offset);
    }
    let (metaindex, index) = decode_handles(&footer[1..], offset)?;
    Ok(Footer {
        format_version,
        checksum_type,
        base_context_checksum: 0,
        metaindex,
        index: Some(index),
        offset,
        is_pebbles: false,
    })
}

fn decode_handles(bytes: &[u8], offset: u64) -> Result<(BlockHandle, BlockHandle)> {
    let mut bytes = Bytes::new(bytes);
    BlockHandle::decode(&mut bytes)
        .zip(BlockHandle::decode(&mut bytes))
        .ok_or(Error::Malformed {
            what: "a block handle of the footer that cannot be decoded",
            offset,
        })
}

fn decode_extended(
    footer: &[u8; BLOCK_BASED_BYTES],
    format_version: u32,
    checksum_type: ChecksumType,
    offset: u64,
) -> Result<Footer> {
    let malformed = |what| Error::Malformed { what, offset };
    let mut bytes = Bytes::from(footer, 1);
    if bytes.take(4) != Some(&EXTENDED_MAGIC) {
        return Err(malformed("no extended magic number in the footer"));
    }
    let checksum_at = bytes.position();
    let (Some(checksum), Some(base_context_checksum), Some(metaindex_size), Some(_), Some(future)) = (
        bytes.fixed32(),
        bytes.fixed32(),
        bytes.fixed32(),
        bytes.take(16),
        bytes.fixed64(),
    ) else {
        return Err(malformed("the footer is cut off"));
    };
    if base_context_checksum == 0 {
        return Err(malformed("no context checksum in the footer"));
    }
    let mut guarded = *footer;
    guarded[checksum_at..checksum_at + 4].fill(0);
    let computed = checksum_type
        .compute(&guarded)
        .wrapping_add(context_modifier(base_context_checksum, offset));
    if computed != checksum {
        return Err(malformed("the checksum of the footer does not match"));
    }
    if future != 0 {
        return Err(unsupported(format_args!("a later feature of the footer")));
    }
    let metaindex = BlockHandle::ending_at(offset, metaindex_size.into())
        .ok_or(malformed("the metaindex does not fit before the footer"))?;
    Ok(Footer {
        format_version,
        checksum_type,
        base_context_checksum,
        metaindex,
        index: None,
        offset,
        is_pebbles: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The footer of a file of `size` bytes that ends with `footer`.
    fn decode(footer: &[u8], size: usize) -> Result<Footer> {
        let mut file = vec![9; size - footer.len()];
        file.extend(footer);
        Footer::read(&&file[..])
    }

    #[test]
    fn a_file_without_an_end_is_unfinished() {
        for size in [0, 7, LEGACY_BYTES - 1, LEGACY_BYTES, 4096] {
            let found = Footer::read(&&vec![9; size][..]);
            assert!(matches!(found, Err(Error::Unfinished)), "{size}: {found:?}");
        }
    }

    fn block_based(format_version: u32, checksum_type: u8) -> Vec<u8> {
        let mut footer = vec![checksum_type, 10, 20, 40, 50];
        footer.resize(41, 0);
        footer.extend(format_version.to_le_bytes());
        footer.extend(BLOCK_BASED_MAGIC.to_le_bytes());
        footer
    }

    /// A footer at offset 1000, with a metaindex of 20 bytes.
    fn extended(checksum_type: u8, future: u64) -> Vec<u8> {
        let mut footer = vec![checksum_type];
        footer.extend(EXTENDED_MAGIC);
        footer.extend([0; 4]);
        footer.extend(77u32.to_le_bytes());
        footer.extend(20u32.to_le_bytes());
        footer.extend([0; 16]);
        footer.extend(future.to_le_bytes());
        footer.extend(6u32.to_le_bytes());
        footer.extend(BLOCK_BASED_MAGIC.to_le_bytes());
        let checksum = ChecksumType::from_number(checksum_type)
            .unwrap()
            .compute(&footer);
        let checksum = checksum.wrapping_add(context_modifier(77, 1000));
        footer[5..9].copy_from_slice(&checksum.to_le_bytes());
        footer
    }

    #[test]
    fn handles_stand_in_the_footer_before_version_6() {
        let footer = decode(&block_based(5, 4), 1053).unwrap();
        assert_eq!(footer.checksum_type, ChecksumType::Xxh3);
        assert_eq!(
            footer.metaindex,
            BlockHandle {
                offset: 10,
                size: 20
            }
        );
        assert_eq!(
            footer.index,
            Some(BlockHandle {
                offset: 40,
                size: 50
            })
        );
        assert_eq!(footer.offset, 1000);
    }

    #[test]
    fn leveldb_has_no_checksum_type() {
        let mut footer = vec![10, 20, 40, 50];
        footer.resize(40, 0);
        footer.extend(LEGACY_MAGIC.to_le_bytes());
        let read = decode(&footer, 48).unwrap();
        assert_eq!((read.format_version, read.offset), (0, 0));
        assert_eq!(
            read.index,
            Some(BlockHandle {
                offset: 40,
                size: 50
            })
        );
    }

    #[test]
    fn pebbles_first_five_table_formats_have_rocksdbs_footer() {
        let pebbles = |table_format| {
            let mut footer = block_based(table_format, 1);
            footer[45..].copy_from_slice(&PEBBLE_MAGIC.to_le_bytes());
            decode(&footer, 1053)
        };
        for table_format in 1..=5 {
            let footer = pebbles(table_format).unwrap();
            assert_eq!((footer.format_version, footer.offset), (table_format, 1000));
            assert_eq!(footer.has_columns_since(5), table_format == 5);
        }
        for table_format in [0, 8] {
            assert!(matches!(pebbles(table_format), Err(Error::Unsupported(_))));
        }
    }

    #[test]
    fn version_6_names_the_metaindex_only() {
        for checksum_type in 0..=4 {
            let footer = decode(&extended(checksum_type, 0), 1053).unwrap();
            assert_eq!(
                footer.metaindex,
                BlockHandle {
                    offset: 975,
                    size: 20
                }
            );
            assert_eq!(footer.index, None);
        }
    }

    #[test]
    fn every_byte_of_a_guarded_footer_matters() {
        let good = extended(1, 0);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(decode(&bad, 1053).is_err(), "byte {at}");
        }
        assert!(decode(&good, 1054).is_err(), "another offset");
    }

    #[test]
    fn the_unknown_is_declined() {
        let mut plain = block_based(0, 1);
        plain[45..].copy_from_slice(&OTHER_MAGICS[0].0.to_le_bytes());
        for footer in [
            block_based(8, 1),
            block_based(0, 1),
            block_based(5, 5),
            extended(1, 1),
            plain,
        ] {
            assert!(matches!(decode(&footer, 1053), Err(Error::Unsupported(_))));
        }
    }
}
