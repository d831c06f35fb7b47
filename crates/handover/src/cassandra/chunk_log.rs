//! Where the chunks of a compressed `Data.db` begin, while it is being written: Cassandra keeps them
//! in its own memory until the table is finished, but each is a `write` of its own
//! (`io/compress/CompressedSequentialWriter.java`, `flushData`: the compressed bytes, then four of
//! checksum).

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of the checksum behind each chunk.
pub(super) const CHECKSUM_BYTES: u64 = 4;
/// Chunks that are remembered, the last ones; a table that is opened early is rid of them every 50 MiB
/// if anything of it is hot.
const CHUNKS_MAX: usize = 1 << 20;

/// The log of the chunks that were written since the last that were forgotten.
#[derive(Debug, Default)]
pub struct ChunkLog {
    /// Number of the first one that is known.
    first: u64,
    /// Where each one that is known begins.
    starts: VecDeque<u64>,
    /// Where the next write must begin.
    end: u64,
    /// The bytes of a chunk have been written, not its checksum.
    within: bool,
    /// What was written is not chunks, or not one behind the other.
    is_useless: bool,
}

impl ChunkLog {
    /// So many bytes were written at `offset` of the file.
    #[inline]
    pub fn note_write(&mut self, offset: u64, length_bytes: u64) {
        if self.is_useless {
            return;
        }
        let is_checksum = length_bytes == CHECKSUM_BYTES;
        if offset != self.end || self.within != is_checksum {
            self.is_useless = true;
            self.starts = VecDeque::new();
            return;
        }
        if !is_checksum {
            if self.starts.len() >= CHUNKS_MAX && self.starts.pop_front().is_some() {
                self.first += 1;
            }
            self.starts.push_back(offset);
        }
        self.within = !is_checksum;
        self.end = offset + length_bytes;
    }

    /// Number of complete chunks since the beginning of the file; `None` if the file is not written
    /// in chunks.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        // A log that is of no use has no starts, and may be within a chunk all the same.
        let known = (self.starts.len() as u64).checked_sub(u64::from(self.within))?;
        (!self.is_useless).then_some(self.first + known)
    }

    /// The bytes of the file for a range of the uncompressed data, if all of its chunks, of so many
    /// bytes before compression, are known and complete.
    #[must_use]
    pub fn file_range(&self, uncompressed: &Range<u64>, chunk_length: u64) -> Option<Range<u64>> {
        let first = uncompressed.start / chunk_length;
        let behind = uncompressed.end.div_ceil(chunk_length);
        if behind > self.count()? || behind <= first {
            return None;
        }
        let start = |number: u64| {
            let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
            self.starts.get(place).copied()
        };
        Some(start(first)?..start(behind).unwrap_or(self.end))
    }

    /// Forgets the chunks before the one with this position of the uncompressed data.
    pub fn forget_before(&mut self, position: u64, chunk_length: u64) {
        let keep = position / chunk_length;
        while self.first < keep && self.starts.pop_front().is_some() {
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_until_they_are_forgotten() {
        let mut log = ChunkLog::default();
        for (offset, length) in [(0, 50), (50, 4), (54, 70), (124, 4), (128, 60)] {
            log.note_write(offset, length);
        }
        assert_eq!(log.count(), Some(2));
        assert_eq!(log.file_range(&(0..100), 100), Some(0..54));
        assert_eq!(log.file_range(&(99..101), 100), Some(0..128));
        assert_eq!(log.file_range(&(199..201), 100), None, "not complete");
        assert_eq!(log.file_range(&(10..10), 100), Some(0..54));
        log.note_write(188, 4);
        log.forget_before(150, 100);
        assert_eq!(log.count(), Some(3));
        assert_eq!(log.file_range(&(0..100), 100), None);
        assert_eq!(log.file_range(&(100..300), 100), Some(54..192));
    }

    #[test]
    fn other_writes_are_no_chunks() {
        for writes in [
            &[(0, 65_536), (65_536, 65_536)][..],
            &[(0, 4)],
            &[(0, 50), (50, 4), (10, 50)],
        ] {
            let mut log = ChunkLog::default();
            for (offset, length) in writes {
                log.note_write(*offset, *length);
            }
            assert_eq!(log.count(), None, "{writes:?}");
            assert_eq!(log.file_range(&(0..1), 100), None);
        }
    }
}
