//! Records where the chunks of a compressed `Data.db` begin while it is being written.
//!
//! Cassandra keeps these offsets in its memory until the SSTable is finished. But each chunk is a
//! `write` of its own, and its checksum of four bytes is another one. Source: `flushData` in
//! `io/compress/CompressedSequentialWriter.java`.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of the checksum behind each chunk.
pub(super) const CHECKSUM_BYTES: u64 = 4;
/// Most chunks in a log: the last ones. An SSTable that Cassandra opens early and that has hot
/// partitions is handed over every 50 MiB. The log is cleared then. Those of 4 KiB hold 512 MiB.
const CHUNKS_MAX: usize = 1 << 17;

/// A log of the chunks that have been written and not forgotten.
///
/// The log takes 8 bytes a chunk, 1 MiB at most. One thread at a time may use it.
#[derive(Debug, Default)]
pub struct ChunkLog {
    /// Number of the first chunk in the log.
    first: u64,
    /// Where each chunk in the log begins.
    starts: VecDeque<u64>,
    /// Where the next write must begin.
    end: u64,
    /// The bytes of a chunk have been written, but not its checksum.
    awaits_checksum: bool,
    /// Chunks were dropped that were not forgotten: there was no room.
    has_lost: bool,
    /// The writes are not chunks, or not contiguous, or there is no memory. The log stays empty.
    is_invalid: bool,
}

impl ChunkLog {
    /// Records a write of `length_bytes` at `offset` of the file.
    #[inline]
    pub fn record_write(&mut self, offset: u64, length_bytes: u64) {
        if self.is_invalid {
            return;
        }
        let is_checksum = length_bytes == CHECKSUM_BYTES;
        if offset != self.end || self.awaits_checksum != is_checksum {
            self.invalidate();
            return;
        }
        if !is_checksum {
            if self.starts.len() >= CHUNKS_MAX && self.starts.pop_front().is_some() {
                self.first += 1;
                self.has_lost = true;
            }
            if self.starts.try_reserve(1).is_err() {
                self.invalidate();
                return;
            }
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            self.starts.push_back(offset);
        }
        self.awaits_checksum = !is_checksum;
        self.end = offset + length_bytes;
    }

    /// A write was made that is no chunk, or that the log did not see: it stays empty. Frees no memory, so a signal
    /// handler may call it.
    pub fn invalidate(&mut self) {
        self.is_invalid = true;
        self.starts.clear();
    }

    /// Number of complete chunks since the beginning of the file. `None` if the file is not written
    /// in chunks.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        // An invalid log has no starts, but may still await a checksum.
        let complete = (self.starts.len() as u64).checked_sub(u64::from(self.awaits_checksum))?;
        (!self.is_invalid).then_some(self.first + complete)
    }

    /// The bytes of the file that hold a range of the uncompressed data.
    ///
    /// `chunk_length` is in bytes before compression. `None` if not all chunks of the range are in
    /// the log and complete.
    #[must_use]
    pub fn file_range(&self, uncompressed: &Range<u64>, chunk_length: u64) -> Option<Range<u64>> {
        let first = uncompressed.start / chunk_length;
        let end = uncompressed.end.div_ceil(chunk_length);
        if end > self.count()? || end <= first {
            return None;
        }
        let start = |number: u64| {
            let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
            self.starts.get(index).copied()
        };
        Some(start(first)?..start(end).unwrap_or(self.end))
    }

    /// Whether chunks were dropped since the last question, because there was no room for more. What they hold is not found.
    pub fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }

    /// Forgets the chunks before the one that holds `position` of the uncompressed data.
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
            log.record_write(offset, length);
        }
        assert_eq!(log.count(), Some(2));
        assert_eq!(log.file_range(&(0..100), 100), Some(0..54));
        assert_eq!(log.file_range(&(99..101), 100), Some(0..128));
        assert_eq!(log.file_range(&(199..201), 100), None, "not complete");
        assert_eq!(log.file_range(&(10..10), 100), Some(0..54));
        log.record_write(188, 4);
        log.forget_before(150, 100);
        assert_eq!(log.count(), Some(3));
        assert_eq!(log.file_range(&(0..100), 100), None);
        assert_eq!(log.file_range(&(100..300), 100), Some(54..192));
    }

    #[test]
    fn what_there_is_no_room_for_is_lost() {
        let mut log = ChunkLog::default();
        let write = |log: &mut ChunkLog, chunks: usize| {
            for _ in 0..chunks {
                let end = log.end;
                log.record_write(end, 50);
                log.record_write(end + 50, 4);
            }
        };
        write(&mut log, CHUNKS_MAX);
        assert!(!log.take_lost());
        write(&mut log, 1);
        assert!(log.take_lost() && !log.take_lost());
        assert_eq!(log.file_range(&(0..1), 100), None);
        log.forget_before(CHUNKS_MAX as u64 * 100, 100);
        write(&mut log, CHUNKS_MAX - 1);
        assert!(!log.take_lost());
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
                log.record_write(*offset, *length);
            }
            assert_eq!(log.count(), None, "{writes:?}");
            assert_eq!(log.file_range(&(0..1), 100), None);
        }
    }
}
