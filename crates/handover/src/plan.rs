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
    /// Pages that were hot enough, but beyond [`Limits::pages_max`], in the order of the file.
    pub left_out: Vec<Page>,
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
        let mut left_out = Vec::new();
        if pages.len() > limits.pages_max {
            pages.sort_unstable_by(|one, other| other.heat.total_cmp(&one.heat));
            left_out.try_extend(pages.drain(limits.pages_max..))?;
            pages.sort_unstable_by_key(|page| page.number);
            left_out.sort_unstable_by_key(|page| page.number);
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
        ranges(self.pages.iter().map(|page| page.number), length_max)
    }

    /// Pages that were hot enough, with those that were left out.
    #[must_use]
    pub fn hot_pages(&self) -> u64 {
        (self.pages.len() + self.left_out.len()) as u64
    }

    /// What stays cold if only pages below `end_page` are warmed: what was left out, and the others. As [`Self::ranges`].
    pub fn remainder(&self, end_page: u64, length_max: u64) -> impl Iterator<Item = Range<u64>> {
        let mut left_out = self.left_out.iter().map(|page| page.number).peekable();
        let too_late = self.pages.iter().map(|page| page.number);
        let mut too_late = too_late
            .skip_while(move |number| *number < end_page)
            .peekable();
        let merged = std::iter::from_fn(move || match (left_out.peek(), too_late.peek()) {
            (Some(one), Some(other)) if one < other => left_out.next(),
            (Some(_), None) => left_out.next(),
            _ => too_late.next(),
        });
        ranges(merged, length_max)
    }

    /// Whether [`Self::remainder`] is empty.
    #[must_use]
    pub fn is_whole(&self, end_page: u64) -> bool {
        let last = self.pages.last();
        self.left_out.is_empty() && last.is_none_or(|last| last.number < end_page)
    }
}

/// The ranges of bytes of pages, whose `numbers` ascend.
fn ranges(numbers: impl Iterator<Item = u64>, length_max: u64) -> impl Iterator<Item = Range<u64>> {
    let mut numbers = numbers.peekable();
    std::iter::from_fn(move || {
        let first = numbers.next()?;
        let mut end = first + 1;
        while (end - first) * PAGE_BYTES < length_max && numbers.next_if_eq(&end).is_some() {
            end += 1;
        }
        Some(first * PAGE_BYTES..end * PAGE_BYTES)
    })
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
        let left_out: Vec<_> = plan.left_out.iter().map(|page| page.number).collect();
        assert_eq!(left_out, [4, 6, 8, 10, 12]);
    }

    #[test]
    fn what_was_left_out_and_what_came_too_late_is_the_remainder() {
        let hot = [(0, 9.0), (1, 3.0), (4, 8.0), (5, 2.0), (6, 7.0), (9, 2.5)];
        let pieces = hot.map(|(page, heat)| piece(page * PAGE_BYTES, 1, heat));
        let limits = Limits {
            heat_min: 1.0,
            pages_max: 3,
        };
        let plan = Plan::choose(pieces, limits).unwrap();
        let remainder = |end_page| -> Vec<_> {
            let ranges = plan.remainder(end_page, 4 * PAGE_BYTES);
            ranges
                .map(|range| range.start / PAGE_BYTES..range.end / PAGE_BYTES)
                .collect()
        };
        assert_eq!(remainder(u64::MAX), [1..2, 5..6, 9..10]);
        assert_eq!(remainder(5), [1..2, 5..7, 9..10]);
        assert_eq!(remainder(0), [0..2, 4..7, 9..10]);
        assert!(!plan.is_whole(u64::MAX));
        let whole = Plan::choose(pieces, ALL).unwrap();
        assert!(whole.is_whole(10) && !whole.is_whole(9) && Plan::default().is_whole(0));
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
