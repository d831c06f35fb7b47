//! The records of blob files (`db/blob/blob_log_format.h`, RocksDB 6.18 to 11.8).
//!
//! A blob file is a header, records and a footer. A record is a header, a key and a value, which may be
//! compressed. Nothing but the records' own lengths tells where they begin.
//!
//! Garbage collection copies a record to a new file as it is, as long as the compression stays the same.

use super::bytes::Bytes;
use super::checksum::ChecksumType;
use std::ops::Range;

/// Bytes in front of the first record.
const FILE_HEADER_BYTES: u64 = 30;
/// Bytes in front of a record's key.
const HEADER_BYTES: usize = 32;
/// Of these, the bytes that the header's checksum covers.
const SUMMED_BYTES: usize = 24;
/// A reader that reads ahead begins at most so many bytes before a record (`FilePrefetchBuffer`).
const ALIGNMENT_BYTES: usize = 4096;
/// Bytes that are zero in each header: lengths have 32 bits, and nothing expires.
const ZERO_BYTES: [Range<usize>; 2] = [4..8, 12..24];

/// A record of a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobRecord {
    /// Where its header begins in the file. With checksums, a reader reads from here.
    pub offset: u64,
    /// Where its value begins. Without checksums, a reader reads from here.
    pub value_offset: u64,
    /// The end of its value.
    pub end: u64,
    /// Its checksums. A copy has the same, and hardly any other record has.
    pub identity: u64,
}

impl BlobRecord {
    /// Reads a header at an offset of the file; `None` if it is none.
    fn read(header: &[u8; HEADER_BYTES], offset: u64) -> Option<Self> {
        let mut bytes = Bytes::new(header);
        let (key_bytes, value_bytes) = (bytes.fixed64()?, bytes.fixed64()?);
        let _expiration = bytes.fixed64()?;
        let (own, content) = (bytes.fixed32()?, bytes.fixed32()?);
        if ChecksumType::Crc32c.compute(header.get(..SUMMED_BYTES)?) != own {
            return None;
        }
        let value_offset = offset
            .checked_add(HEADER_BYTES as u64)?
            .checked_add(key_bytes)?;
        Some(Self {
            offset,
            value_offset,
            end: value_offset.checked_add(value_bytes)?,
            identity: u64::from(own) << 32 | u64::from(content),
        })
    }
}

/// The offset of the first record of a piece that begins at an offset of the file.
fn first_record(offset: u64, bytes: &[u8]) -> Option<u64> {
    if offset == 0 {
        return Some(FILE_HEADER_BYTES);
    }
    let mut headers = bytes.windows(HEADER_BYTES).take(ALIGNMENT_BYTES);
    let place = headers.position(|header| {
        let are_zero = |range: Range<usize>| {
            header
                .get(range)
                .is_some_and(|at| at.iter().all(|it| *it == 0))
        };
        ZERO_BYTES.into_iter().all(are_zero)
            && (header.try_into()).is_ok_and(|header| BlobRecord::read(header, offset).is_some())
    })?;
    offset.checked_add(place as u64)
}

/// Finds the records of a blob file that passes by in pieces.
///
/// Each header must have its checksum. After a gap it goes on with the next piece in whose first page a record begins.
#[derive(Clone, Debug)]
pub struct BlobRecords {
    /// Where the next record begins; `None` if that is not known.
    next: Option<u64>,
    /// Where the last piece ended.
    end: u64,
    /// The beginning of the next header that has passed by already.
    begun: [u8; HEADER_BYTES],
    begun_bytes: usize,
}

impl BlobRecords {
    /// Those of a whole file.
    #[must_use]
    pub fn of_file() -> Self {
        Self {
            next: Some(FILE_HEADER_BYTES),
            ..Self::of_pieces()
        }
    }

    /// Those of pieces from anywhere in the file.
    #[must_use]
    pub fn of_pieces() -> Self {
        Self {
            next: None,
            end: 0,
            begun: [0; HEADER_BYTES],
            begun_bytes: 0,
        }
    }

    /// The bytes from `offset` on pass by. `found` gets each record whose header ends in them.
    pub fn pass(&mut self, offset: u64, bytes: &[u8], mut found: impl FnMut(BlobRecord)) {
        let follows = offset == self.end;
        self.end = offset.saturating_add(bytes.len() as u64);
        let mut next = match self.next.take() {
            Some(next) if follows => next,
            // What is between was not seen, or is seen again.
            _ => {
                self.begun_bytes = 0;
                let Some(first) = first_record(offset, bytes) else {
                    return;
                };
                first
            }
        };
        loop {
            let place = next.saturating_add(self.begun_bytes as u64);
            let place = place.saturating_sub(offset);
            let rest = usize::try_from(place).ok().and_then(|at| bytes.get(at..));
            let rest = rest.unwrap_or_default();
            let (begun_bytes, taken) = (self.begun_bytes, rest.len());
            let taken = taken.min(HEADER_BYTES - begun_bytes);
            if let (Some(into), Some(from)) = (
                self.begun.get_mut(begun_bytes..begun_bytes + taken),
                rest.get(..taken),
            ) {
                into.copy_from_slice(from);
            }
            self.begun_bytes += taken;
            if self.begun_bytes < HEADER_BYTES {
                self.next = Some(next);
                return;
            }
            self.begun_bytes = 0;
            let Some(record) = BlobRecord::read(&self.begun, next) else {
                // The footer, or no record.
                return;
            };
            found(record);
            next = record.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((key.len() as u64).to_le_bytes());
        bytes.extend((value.len() as u64).to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(ChecksumType::Crc32c.compute(&bytes).to_le_bytes());
        let content = [key, value].concat();
        bytes.extend(ChecksumType::Crc32c.compute(&content).to_le_bytes());
        bytes.extend(content);
        bytes
    }

    /// A file of values of these lengths, and where its records begin.
    fn file(lengths: &[usize]) -> (Vec<u8>, Vec<u64>) {
        let mut bytes = vec![7; FILE_HEADER_BYTES as usize];
        let mut offsets = Vec::new();
        for (number, length) in lengths.iter().enumerate() {
            offsets.push(bytes.len() as u64);
            bytes.extend(record(format!("{number:08}").as_bytes(), &vec![9; *length]));
        }
        // A footer is as long as a header.
        bytes.extend([1; HEADER_BYTES]);
        (bytes, offsets)
    }

    fn found(records: &mut BlobRecords, offset: usize, bytes: &[u8]) -> Vec<u64> {
        let mut offsets = Vec::new();
        records.pass(offset as u64, bytes, |record| offsets.push(record.offset));
        offsets
    }

    #[test]
    fn a_copy_has_the_same_identity() {
        let (one, other) = (record(b"key", b"value"), record(b"key", b"other"));
        let read = |bytes: &[u8], offset| {
            BlobRecord::read(bytes[..HEADER_BYTES].try_into().unwrap(), offset).unwrap()
        };
        assert_eq!(read(&one, 30).identity, read(&one, 999).identity);
        assert_ne!(read(&one, 30).identity, read(&other, 30).identity);
        assert_eq!(read(&one, 30).value_offset, 30 + 32 + 3);
        assert_eq!(read(&one, 30).end, 30 + 32 + 3 + 5);
    }

    #[test]
    fn single_records_in_any_order() {
        let (bytes, offsets) = file(&[4096, 10, 5000, 0, 77]);
        let mut records = BlobRecords::of_pieces();
        for at in [2, 0, 4, 1, 3, 3] {
            let start = offsets[at] as usize;
            let length = [4096, 10, 5000, 0, 77][at] + HEADER_BYTES + 8;
            let seen = found(&mut records, start, &bytes[start..start + length]);
            assert_eq!(seen, [offsets[at]]);
        }
        // Values alone: a reader without checksums.
        assert_eq!(found(&mut records, 100, &bytes[100..500]), []);
    }

    #[test]
    fn a_readahead_begins_in_the_middle_of_a_record() {
        let (bytes, offsets) = file(&[5000, 300, 700, 20_000]);
        let mut records = BlobRecords::of_pieces();
        assert_eq!(found(&mut records, 4096, &bytes[4096..]), offsets[1..]);
        assert_eq!(found(&mut records, 0, &bytes), offsets);
        assert_eq!(found(&mut records, 8192, &bytes[8192..]), []);
    }

    #[test]
    fn damaged_headers_end_the_walk() {
        let (mut bytes, offsets) = file(&[100, 100, 100]);
        bytes[offsets[1] as usize] ^= 1;
        let seen = found(&mut BlobRecords::of_file(), 0, &bytes);
        assert_eq!(seen, offsets[..1]);
        let mut huge = record(b"k", b"v");
        huge[8..16].fill(0xff);
        let sum = ChecksumType::Crc32c.compute(&huge[..SUMMED_BYTES]);
        huge[SUMMED_BYTES..SUMMED_BYTES + 4].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(found(&mut BlobRecords::of_pieces(), 30, &huge), []);
    }

    proptest! {
        #[test]
        fn pieces_of_any_length(
            lengths in proptest::collection::vec(0_usize..300, 0..30),
            pieces in proptest::collection::vec(1_usize..200, 1..9),
        ) {
            let (bytes, offsets) = file(&lengths);
            let mut records = BlobRecords::of_file();
            let (mut at, mut seen) = (0, Vec::new());
            for piece in pieces.iter().cycle() {
                let end = (at + piece).min(bytes.len());
                seen.extend(found(&mut records, at, &bytes[at..end]));
                at = end;
                if at == bytes.len() {
                    break;
                }
            }
            prop_assert_eq!(seen, offsets);
        }

        #[test]
        fn nothing_panics(
            pieces in proptest::collection::vec(
                (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..80)), 0..9),
        ) {
            let mut records = BlobRecords::of_pieces();
            for (offset, bytes) in pieces {
                records.pass(offset, &bytes, |_| {});
            }
        }
    }
}
