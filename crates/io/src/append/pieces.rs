//! Cuts staged bytes into pieces: unaligned ends go through the page cache, whole blocks directly.

use crate::alignment::Alignment;

/// The smallest direct write in bytes. Fewer bytes go through the page cache, and wait there for the
/// application's next sync.
pub const DIRECT_BYTES_MIN: u64 = 64 * 1024;

/// How many of the staged bytes to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// All bytes before the block in which the file ends.
    WholeBlocks,
    /// All bytes.
    Everything,
}

/// How a piece goes to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the page cache.
    Cached,
    /// Around the page cache.
    Direct,
}

/// A range of bytes that goes one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// How it goes to the device.
    pub way: Way,
    /// File offset of the first byte.
    pub start: u64,
    /// File offset after the last byte.
    pub end: u64,
}

/// Cuts the staged bytes `[start, end)`, in the order in which they must be written.
///
/// If an earlier piece ended within a block, its rest goes through the page cache, too. So a direct write
/// never meets a block that has a page there.
pub fn pieces(
    start: u64,
    end: u64,
    alignment: Alignment,
    portion: Portion,
) -> impl Iterator<Item = Piece> {
    let head_end = alignment.up(start).min(end);
    let blocks_end = alignment.down(end).max(head_end);
    let cut = if portion == Portion::Everything && blocks_end - head_end < DIRECT_BYTES_MIN {
        // One piece.
        [
            (Way::Cached, start, end),
            (Way::Direct, end, end),
            (Way::Cached, end, end),
        ]
    } else {
        let tail_end = if portion == Portion::Everything {
            end
        } else {
            blocks_end
        };
        [
            (Way::Cached, start, head_end),
            (Way::Direct, head_end, blocks_end),
            (Way::Cached, blocks_end, tail_end),
        ]
    };
    cut.into_iter()
        .filter(|(_, start, end)| start < end)
        .map(|(way, start, end)| Piece { way, start, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_contiguous_and_direct_ones_aligned(
            start in 0_u64..10 << 20, length in 0_u64..3 << 20, power in 12_u32..=16,
            everything in any::<bool>(),
        ) {
            let alignment = Alignment::covering(1, 1 << power).unwrap();
            let end = start + length;
            let portion = if everything { Portion::Everything } else { Portion::WholeBlocks };
            let mut at = start;
            for piece in pieces(start, end, alignment, portion) {
                prop_assert_eq!(piece.start, at);
                prop_assert!(piece.end > piece.start && piece.end <= end);
                if piece.way == Way::Direct {
                    prop_assert_eq!(piece.start % alignment.bytes(), 0);
                    prop_assert_eq!(piece.end % alignment.bytes(), 0);
                }
                at = piece.end;
            }
            match portion {
                Portion::Everything => prop_assert_eq!(at, end),
                Portion::WholeBlocks => prop_assert!(end - at < alignment.bytes()),
            }
        }
    }
}
