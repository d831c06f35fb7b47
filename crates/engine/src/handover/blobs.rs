//! The handover between blob files of RocksDB, by their records.
//!
//! Garbage collection copies each record as it is. One thread reads it and writes the copy. So nothing has to be
//! read for the handover: the thread's reads show which records are hot, and its writes show where they are now.

use coldstream_handover::Piece;
use coldstream_handover::rocksdb::READ_HEAT;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_sstable::memory::{self, TryVec};
use coldstream_sstable::rocksdb::{BlobRecord, BlobRecords};
use std::collections::TryReserveError;

/// Blob files that one thread reads at the same time. The one that was read first gives way.
const INPUTS_MAX: usize = 64;
/// Blob files that one thread writes at the same time; RocksDB writes one.
const OUTPUTS_MAX: usize = 4;
/// Hot records of an output. Further ones arrive cold.
const PIECES_MAX: usize = 1 << 17;

/// Hot records that a thread has read, and not written yet: 4,096 sets of four. RocksDB writes what it has read when
/// a buffer of 1 MiB is full. Of a readahead more may be between.
const SETS: usize = 4096;
const WAYS: usize = 4;
/// Of an inherited heat, a record that gets less is not worth warming.
const INHERITED_MIN: f32 = 1.0;

/// A hot record that was read.
#[derive(Clone, Copy, Default)]
struct HotRecord {
    identity: u64,
    /// 0 is none.
    heat: u8,
}

/// A set: the last record comes first.
type Set = [HotRecord; WAYS];

/// The hot records that a thread has read lately.
#[derive(Default)]
struct HotRecords {
    /// Empty before the first record.
    sets: Vec<Set>,
}

impl HotRecords {
    fn set(&mut self, identity: u64) -> Option<&mut Set> {
        // The lower half is the checksum of the content.
        self.sets.get_mut(identity as usize % SETS)
    }

    fn put(&mut self, identity: u64, heat: u8) -> Result<(), TryReserveError> {
        if self.sets.is_empty() {
            self.sets = memory::filled(SETS, Set::default())?;
        }
        if let Some(set) = self.set(identity) {
            let known = set.iter().position(|it| it.identity == identity);
            let end = known.unwrap_or(WAYS - 1);
            set.copy_within(..end, 1);
            if let Some(first) = set.first_mut() {
                *first = HotRecord { identity, heat };
            }
        }
        Ok(())
    }

    /// The heat of a record, which is forgotten; 0 if it is not hot.
    fn take(&mut self, identity: u64) -> u8 {
        let found = self
            .set(identity)
            .and_then(|set| set.iter_mut().find(|it| it.identity == identity));
        found.map_or(0, |found| std::mem::take(&mut found.heat))
    }
}

/// A blob file that is being written.
struct Output {
    /// The number under which its heat is kept.
    key: u64,
    records: BlobRecords,
    /// Bytes that were written.
    written: u64,
    pieces: Vec<Piece>,
}

/// The blob files that a thread reads and writes.
#[derive(Default)]
pub(super) struct Blobs {
    inputs: Vec<(u64, BlobRecords)>,
    hot: HotRecords,
    outputs: Vec<Output>,
}

impl Blobs {
    /// The thread has read these bytes of the blob file whose heat is kept under `key`. `heat` returns the heat at an
    /// offset of it.
    pub(super) fn record_read(
        &mut self,
        key: u64,
        offset: u64,
        bytes: &[u8],
        heat: impl Fn(u64) -> u8,
    ) -> Result<(), TryReserveError> {
        let place = self.inputs.iter().position(|input| input.0 == key);
        let place = match place {
            Some(place) => place,
            None => {
                if self.inputs.len() >= INPUTS_MAX {
                    self.inputs.remove(0);
                }
                self.inputs.try_push((key, BlobRecords::of_pieces()))?;
                self.inputs.len() - 1
            }
        };
        let mut result = Ok(());
        if let Some((_, records)) = self.inputs.get_mut(place) {
            let hot = &mut self.hot;
            records.pass(offset, bytes, |record| {
                let heat = heat_of(&record, &heat);
                if heat > 0 && result.is_ok() {
                    result = hot.put(record.identity, heat);
                }
            });
        }
        result
    }

    /// The thread has opened a new blob file for writing.
    pub(super) fn record_output(&mut self, key: u64) {
        self.outputs.retain(|output| output.key != key);
        if self.outputs.len() >= OUTPUTS_MAX {
            self.outputs.remove(0);
        }
        let _ = self.outputs.try_push(Output {
            key,
            records: BlobRecords::of_file(),
            written: 0,
            pieces: Vec::new(),
        });
    }

    /// The thread has written these bytes to the end of a blob file.
    pub(super) fn record_written(&mut self, key: u64, bytes: &[u8]) {
        let Some(output) = self.outputs.iter_mut().find(|output| output.key == key) else {
            return;
        };
        let (hot, pieces) = (&mut self.hot, &mut output.pieces);
        output.records.pass(output.written, bytes, |record| {
            let heat = hot.take(record.identity);
            if heat > 0 && pieces.len() < PIECES_MAX {
                let _ = pieces.try_push(piece_of(&record, heat));
            }
        });
        output.written += bytes.len() as u64;
    }

    /// The hot records of a blob file that is finished and has this size. `None` if not all of its writes were seen.
    pub(super) fn finish(&mut self, key: u64, size_bytes: u64) -> Option<Vec<Piece>> {
        let place = self.outputs.iter().position(|output| output.key == key)?;
        let output = self.outputs.swap_remove(place);
        (output.written == size_bytes).then_some(output.pieces)
    }
}

/// Heat is counted for the page in which a read begins. That is the record's own begin, or its value's.
fn heat_of(record: &BlobRecord, heat: impl Fn(u64) -> u8) -> u8 {
    let own = heat(record.offset);
    if record.value_offset / PAGE_BYTES == record.offset / PAGE_BYTES {
        return own;
    }
    own.max(heat(record.value_offset))
}

/// The place of a record in the output. Short records share the heat of a page.
fn piece_of(record: &BlobRecord, heat: u8) -> Piece {
    let length = record.end - record.offset;
    let share = (length as f32 / PAGE_BYTES as f32).min(1.0);
    let (heat, share) = (f32::from(heat), f32::from(heat) * share);
    Piece {
        offset: record.offset,
        length,
        heat: share,
        is_one_of_few: heat >= READ_HEAT || share >= INHERITED_MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn record(number: u64) -> BlobRecord {
        BlobRecord {
            offset: number * 5000,
            value_offset: number * 5000 + 50,
            end: number * 5000 + 5000,
            identity: number.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        }
    }

    #[test]
    fn what_was_read_is_known_until_it_is_written() {
        let mut hot = HotRecords::default();
        assert_eq!(hot.take(7), 0);
        for number in 1..=2000 {
            hot.put(record(number).identity, number as u8 | 1).unwrap();
        }
        for number in 1..=2000 {
            assert_eq!(hot.take(record(number).identity), number as u8 | 1);
            assert_eq!(hot.take(record(number).identity), 0, "once");
        }
    }

    #[test]
    fn the_oldest_of_a_set_gives_way() {
        let mut hot = HotRecords::default();
        let of_one_set = |number: u64| number * SETS as u64;
        for number in 1..=5 {
            hot.put(of_one_set(number), 9).unwrap();
        }
        hot.put(of_one_set(5), 11).unwrap();
        let taken: Vec<u8> = (1..=5).map(|number| hot.take(of_one_set(number))).collect();
        assert_eq!(taken, [0, 9, 9, 9, 11]);
    }

    #[test]
    fn heat_where_a_read_begins() {
        let second_page = |offset: u64| if offset >= 4096 { 20 } else { 0 };
        let with_long_key = BlobRecord {
            offset: 4000,
            value_offset: 4200,
            end: 9000,
            identity: 1,
        };
        assert_eq!(heat_of(&with_long_key, second_page), 20);
        assert_eq!(heat_of(&record(0), second_page), 0);
        assert_eq!(heat_of(&record(1), second_page), 20);
    }

    #[test]
    fn short_records_share_the_heat_of_a_page() {
        let short = BlobRecord {
            end: 1024,
            ..record(0)
        };
        let piece = piece_of(&short, 32);
        assert_eq!((piece.heat, piece.is_one_of_few), (8.0, true));
        assert!(!piece_of(&short, 3).is_one_of_few, "inherited");
        assert_eq!(piece_of(&record(1), 32).heat, 32.0);
    }

    #[test]
    fn a_file_with_an_unseen_write_gets_nothing() {
        let mut blobs = Blobs::default();
        blobs.record_output(1);
        blobs.record_written(1, &[0; 40]);
        assert!(blobs.finish(1, 50).is_none());
        blobs.record_output(1);
        blobs.record_written(1, &[0; 40]);
        blobs.record_written(1, &[0; 10]);
        assert_eq!(blobs.finish(1, 50), Some(Vec::new()));
        assert!(blobs.finish(1, 50).is_none());
    }
}
