//! How staged bytes are cut: unaligned ends through the page cache, whole blocks directly.

use crate::alignment::Alignment;

/// Fewer bytes than this are not worth a direct write of their own: they wait for the
/// application's next sync in the page cache.
pub const DIRECT_BYTES_MIN: u64 = 64 * 1024;

/// How much is to leave the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What can be written without touching the block in which the file ends.
    WholeBlocks,
    /// Everything.
    Everything,
}

/// The way of a piece to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the page cache.
    Cached,
    /// Around it.
    Direct,
}

/// Bytes that go the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Their way.
    pub way: Way,
    /// File offset of the first.
    pub start: u64,
    /// File offset behind the last.
    pub end: u64,
}

/// Cuts the staged bytes `[start, end)`, in the order in which they must be written. A block in
/// which an earlier piece ended is finished through the page cache, where it began: direct writes
/// only ever meet blocks that have no page there.
pub fn pieces(
    start: u64,
    end: u64,
    alignment: Alignment,
    extent: Extent,
) -> impl Iterator<Item = Piece> {
    let head_end = alignment.up(start).min(end);
    let blocks_end = alignment.down(end).max(head_end);
    let cut = if extent == Extent::Everything && blocks_end - head_end < DIRECT_BYTES_MIN {
        // One piece.
        [
            (Way::Cached, start, end),
            (Way::Direct, end, end),
            (Way::Cached, end, end),
        ]
    } else {
        let tail_end = if extent == Extent::Everything {
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
            let extent = if everything { Extent::Everything } else { Extent::WholeBlocks };
            let mut at = start;
            for piece in pieces(start, end, alignment, extent) {
                prop_assert_eq!(piece.start, at);
                prop_assert!(piece.end > piece.start && piece.end <= end);
                if piece.way == Way::Direct {
                    prop_assert_eq!(piece.start % alignment.bytes(), 0);
                    prop_assert_eq!(piece.end % alignment.bytes(), 0);
                }
                at = piece.end;
            }
            match extent {
                Extent::Everything => prop_assert_eq!(at, end),
                Extent::WholeBlocks => prop_assert!(end - at < alignment.bytes()),
            }
        }
    }
}
