//! The position of a stream and its next window: pure logic.

use crate::alignment::Alignment;

/// The smallest window in bytes. A single read that continues no other reads this much.
pub const WINDOW_BYTES_MIN: usize = crate::pool::BLOCK_BYTES;

/// Growth factor of windows while a sequence goes on: 64 KiB, 256 KiB, 1 MiB. Like kernel readahead it
/// starts small, so that a short range stays cheap.
const GROWTH: usize = 4;

/// The position and the window size of one sequential consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    /// The first byte that the stream's windows cover.
    pub(super) cover_start: u64,
    /// One past the last byte that was requested.
    pub(super) cover_end: u64,
    /// Size of the next window in bytes; 0 before the first.
    fill_bytes: usize,
    /// Whether the sequence has had a read.
    started: bool,
    /// Whether a read has continued another one. Only then the stream reads ahead.
    pub(super) continued: bool,
}

/// The relation of a read to the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It starts within the covered range, or at its end.
    Continues,
    /// It skips a little ahead of the covered range: the window size is kept, the windows are not.
    SkipsAhead,
    /// It is unrelated.
    Elsewhere,
}

/// The relation of `offset` to a covered range. A gap of up to one smallest window continues a scan: index
/// blocks between data blocks, or chunks that a reader skips.
pub(super) fn relation(cover_start: u64, cover_end: u64, offset: u64) -> Relation {
    if (cover_start..=cover_end).contains(&offset) {
        Relation::Continues
    } else if offset > cover_end && offset - cover_end <= WINDOW_BYTES_MIN as u64 {
        Relation::SkipsAhead
    } else {
        Relation::Elsewhere
    }
}

impl Sequence {
    /// Starts over at `offset`. A skip keeps the window size.
    pub(super) fn restart(&mut self, offset: u64, alignment: Alignment, relation: Relation) {
        let start = alignment.down(offset);
        let keep = relation == Relation::SkipsAhead;
        *self = Self {
            cover_start: start,
            cover_end: start,
            fill_bytes: if keep { self.fill_bytes } else { 0 },
            started: keep,
            continued: keep && self.continued,
        };
    }

    /// Records a read that starts within the covered range.
    pub(super) fn record_read(&mut self) {
        self.continued |= self.started;
        self.started = true;
    }

    /// Covers nothing: the next read starts over.
    pub(super) fn end(&mut self) {
        self.cover_start = u64::MAX;
        self.cover_end = u64::MAX;
    }

    /// The length of the next window in bytes: a multiple of the alignment, `limit_bytes` at most. The last
    /// one ends at the end of the file, rounded up. `None` at the end of the file.
    pub(super) fn next_window(
        &mut self,
        size_bytes: u64,
        limit_bytes: usize,
        alignment: Alignment,
    ) -> Option<usize> {
        let left = alignment.up(size_bytes).checked_sub(self.cover_end)?;
        if left == 0 {
            return None;
        }
        self.fill_bytes = match self.fill_bytes {
            0 => WINDOW_BYTES_MIN,
            bytes if self.continued => bytes.saturating_mul(GROWTH),
            bytes => bytes,
        }
        .min(limit_bytes.max(WINDOW_BYTES_MIN));
        Some(left.min(self.fill_bytes as u64) as usize)
    }
}

/// The largest window with which `streams` streams of `windows` windows each fit under the cap: a power of
/// two between the smallest window and `window_bytes`.
pub(super) fn fair_share(
    cap_bytes: usize,
    streams: usize,
    windows: usize,
    window_bytes: usize,
) -> usize {
    let share = cap_bytes / streams.max(1) / windows.max(1);
    let power = if share == 0 { 0 } else { 1 << share.ilog2() };
    power.clamp(WINDOW_BYTES_MIN, window_bytes.max(WINDOW_BYTES_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page() -> Alignment {
        Alignment::covering(1, 1).unwrap()
    }

    #[test]
    fn windows_grow_only_while_the_scan_goes_on() {
        let mut sequence = Sequence::default();
        sequence.restart(5000, page(), Relation::Elsewhere);
        assert_eq!(sequence.cover_start, 4096);
        let mut lengths = Vec::new();
        for _ in 0..4 {
            let length = sequence.next_window(1 << 30, 1 << 20, page()).unwrap();
            sequence.cover_end += length as u64;
            sequence.continued = true;
            lengths.push(length);
        }
        assert_eq!(lengths, [1 << 16, 1 << 18, 1 << 20, 1 << 20]);
        sequence.restart(100, page(), Relation::Elsewhere);
        assert_eq!(
            sequence.next_window(1 << 30, 1 << 20, page()),
            Some(1 << 16)
        );
    }

    #[test]
    fn the_end_of_the_file_is_rounded_up_and_final() {
        let mut sequence = Sequence::default();
        sequence.restart(0, page(), Relation::Elsewhere);
        assert_eq!(sequence.next_window(5000, 1 << 20, page()), Some(8192));
        sequence.cover_end = 8192;
        assert_eq!(sequence.next_window(5000, 1 << 20, page()), None);
    }

    #[test]
    fn two_hundred_streams_share_the_default_cap() {
        let share = fair_share(64 << 20, 200, 2, 1 << 20);
        assert_eq!(share, 128 << 10);
        assert!(200 * 2 * share <= 64 << 20);
        assert_eq!(fair_share(64 << 20, 1, 2, 1 << 20), 1 << 20);
        assert_eq!(fair_share(0, 0, 0, 0), WINDOW_BYTES_MIN);
    }

    proptest! {
        #[test]
        fn windows_tile_the_file(
            size in 1_u64..1 << 24,
            start in 0_u64..1 << 24,
            limit in 16_usize..=21,
        ) {
            let start = start % size;
            let mut sequence = Sequence::default();
            sequence.restart(start, page(), Relation::Elsewhere);
            let mut end = sequence.cover_start;
            prop_assert!(end <= start);
            while let Some(length) = sequence.next_window(size, 1 << limit, page()) {
                prop_assert!(length > 0 && length <= 1 << limit && length % 4096 == 0);
                end += length as u64;
                sequence.cover_end = end;
                sequence.continued = true;
            }
            prop_assert_eq!(end, size.div_ceil(4096) * 4096);
        }
    }
}
