//! Chooses the pages of an output that are worth warming.

use crate::piece::{PAGE_BYTES, Piece};
use crate::rocksdb::READ_HEAT;
use coldstream_sstable::Result;
use coldstream_sstable::memory::TryVec;
use std::ops::Range;

/// A page of an output is warmed if it gets at least a quarter of a read's heat. The keys of a hot page may be
/// far apart in the output, and only one of them was read. Otherwise it must be [one of
/// few](Piece::is_one_of_few).
pub const SHARE_MIN: f32 = READ_HEAT / 4.0;
/// At most an eighth of the memory that the process may have is warmed at once.
pub const MEMORY_SHARE: u64 = 8;
/// The least heat that is kept: the sketch knows even numbers only.
pub const KEPT_MIN: f32 = 2.0;

/// Limits of warming.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pages with less expected heat stay cold, unless they are of [one of few](Piece::is_one_of_few) pieces.
    pub heat_min: f32,
    /// Most pages of a plan. If more are hot enough, the plan has the hottest ones.
    pub pages_max: usize,
}

/// A page to warm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Page {
    /// Number of the page in the file, in pages of 4096 bytes.
    pub number: u64,
    /// Its expected heat.
    pub heat: f32,
}

/// The pages of a part of an output that should be warmed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In the order of the file, each once.
    pub pages: Vec<Page>,
    /// Number of pages that were hot enough, but beyond [`Limits::pages_max`].
    pub left_out: usize,
}

impl Plan {
    /// Chooses among the pages of `pieces`. These may overlap, and come in any order. Of a page in
    /// several pieces the highest heat counts.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](coldstream_sstable::Error::OutOfMemory).
    pub fn choose(pieces: impl IntoIterator<Item = Piece>, limits: Limits) -> Result<Self> {
        let mut pages: Vec<Page> = Vec::new();
        for piece in pieces {
            if !piece.is_worth_warming(limits.heat_min) || piece.length == 0 {
                continue;
            }
            let end = piece.offset.saturating_add(piece.length);
            let numbers = piece.offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
            pages.try_extend(numbers.map(|number| Page {
                number,
                heat: piece.heat,
            }))?;
        }
        pages.sort_unstable_by(|one, other| {
            (one.number.cmp(&other.number)).then(other.heat.total_cmp(&one.heat))
        });
        pages.dedup_by_key(|page| page.number);
        let left_out = pages.len().saturating_sub(limits.pages_max);
        if left_out > 0 {
            pages.sort_unstable_by(|one, other| other.heat.total_cmp(&one.heat));
            pages.truncate(limits.pages_max);
            pages.sort_unstable_by_key(|page| page.number);
        }
        Ok(Self { pages, left_out })
    }

    /// The pages in which pieces with at least `heat_min` begin, each with the heat of its hottest piece: a
    /// colder one must not hide it. Readers count in these pages.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](coldstream_sstable::Error::OutOfMemory).
    pub fn beginnings(pieces: &[Piece], heat_min: f32) -> Result<Vec<Page>> {
        let limits = Limits {
            heat_min,
            pages_max: usize::MAX,
        };
        let beginnings = pieces.iter().map(|piece| Piece {
            length: 1,
            heat: piece
                .heat
                .max(if piece.is_one_of_few { heat_min } else { 0.0 }),
            ..*piece
        });
        Ok(Self::choose(beginnings, limits)?.pages)
    }

    /// Whether it has a page of this number.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.pages
            .binary_search_by_key(&number, |page| page.number)
            .is_ok()
    }

    /// The ranges of bytes of the pages, in the order of the file. Neighbouring pages are joined.
    ///
    /// A range is aligned to pages of 4096 bytes. None is longer than `length_max` bytes, which is a
    /// multiple of a page.
    pub fn ranges(&self, length_max: u64) -> impl Iterator<Item = Range<u64>> {
        let mut pages = self.pages.iter().map(|page| page.number).peekable();
        std::iter::from_fn(move || {
            let first = pages.next()?;
            let mut end = first + 1;
            while (end - first) * PAGE_BYTES < length_max && pages.next_if_eq(&end).is_some() {
                end += 1;
            }
            Some(first * PAGE_BYTES..end * PAGE_BYTES)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: Limits = Limits {
        heat_min: 1.0,
        pages_max: usize::MAX,
    };

    fn piece(offset: u64, length: u64, heat: f32) -> Piece {
        Piece {
            offset,
            length,
            heat,
            is_one_of_few: false,
        }
    }

    #[test]
    fn pages_of_hot_pieces_once_each() {
        let pieces = [
            piece(5000, 4000, 2.0),
            piece(0, 4096, 9.0),
            piece(8191, 2, 3.0),
            piece(40_960, 10, 0.5),
            piece(20_480, 0, 50.0),
        ];
        let plan = Plan::choose(pieces, ALL).unwrap();
        let pages: Vec<_> = plan
            .pages
            .iter()
            .map(|page| (page.number, page.heat))
            .collect();
        assert_eq!(pages, [(0, 9.0), (1, 3.0), (2, 3.0)]);
        assert_eq!(plan.ranges(1 << 20).count(), 1);
        assert_eq!(
            plan.ranges(8192).collect::<Vec<_>>(),
            [0..8192, 8192..12_288]
        );
    }

    #[test]
    fn one_of_few_is_warmed_with_little_heat() {
        let few = Piece {
            is_one_of_few: true,
            ..piece(4096, 4096, 0.1)
        };
        let plan = Plan::choose([piece(0, 4096, 0.9), few], ALL).unwrap();
        let numbers: Vec<_> = plan.pages.iter().map(|page| page.number).collect();
        assert_eq!(numbers, [1]);
    }

    #[test]
    fn the_hottest_piece_that_begins_in_a_page_counts() {
        let few = Piece {
            is_one_of_few: true,
            ..piece(20_480, 4000, 0.2)
        };
        let pieces = [
            piece(4096, 2000, 187.0),
            piece(6000, 2000, 12.0),
            piece(9000, 2000, 1.0),
            piece(0, 2000, 3.0),
            piece(100, 2000, 9.0),
            few,
        ];
        let pages: Vec<_> = (Plan::beginnings(&pieces, 2.0).unwrap().into_iter())
            .map(|page| (page.number, page.heat))
            .collect();
        assert_eq!(pages, [(0, 9.0), (1, 187.0), (5, 2.0)]);
    }

    #[test]
    fn the_hottest_of_too_many() {
        let pieces = (0..10_u8).map(|page| piece(u64::from(page) * 8192, 1, f32::from(page)));
        let limits = Limits {
            heat_min: 2.0,
            pages_max: 3,
        };
        let plan = Plan::choose(pieces, limits).unwrap();
        let numbers: Vec<_> = plan.pages.iter().map(|page| page.number).collect();
        assert_eq!(numbers, [14, 16, 18]);
        assert_eq!(plan.left_out, 5);
    }

    proptest! {
        #[test]
        fn ranges_are_the_pages(
            pieces in proptest::collection::vec((0_u64..400_000, 0_u64..30_000, 0.0_f32..3.0), 0..60),
            pages_in_a_range in 1_u64..9,
        ) {
            let pieces = pieces.into_iter().map(|(offset, length, heat)| piece(offset, length, heat));
            let plan = Plan::choose(pieces, ALL).unwrap();
            let mut numbers = Vec::new();
            for range in plan.ranges(pages_in_a_range * PAGE_BYTES) {
                prop_assert!(range.end - range.start <= pages_in_a_range * PAGE_BYTES);
                numbers.extend(range.start / PAGE_BYTES..range.end / PAGE_BYTES);
            }
            let expected: Vec<_> = plan.pages.iter().map(|page| page.number).collect();
            prop_assert_eq!(numbers, expected);
        }
    }
}
