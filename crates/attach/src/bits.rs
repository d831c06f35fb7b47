//! A set of pages of one file.

use std::ops::Range;

/// Pages behind this one are left alone: 64 GiB of a file.
const PAGES_MAX: u64 = 1 << 24;

/// A set of page numbers. It grows with the largest one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSet {
    words: Vec<u64>,
    /// How many pages it has: each look asks each file whether it has none.
    count: u64,
}

impl PageSet {
    /// Adds pages.
    pub fn insert(&mut self, pages: Range<u64>) {
        let end = pages.end.min(PAGES_MAX);
        let words = end.div_ceil(64) as usize;
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
        self.change(pages.start..end, |word, mask| word | mask);
    }

    /// Removes pages. Returns how many of them it had.
    pub fn remove(&mut self, pages: Range<u64>) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let before = self.count;
        let end = pages.end.min(self.words.len() as u64 * 64);
        self.change(pages.start..end, |word, mask| word & !mask);
        before - self.count
    }

    /// Changes each word of a range, by the bits of its pages.
    fn change(&mut self, pages: Range<u64>, changed: impl Fn(u64, u64) -> u64) {
        for (place, mask) in masks(pages) {
            if let Some(word) = self.words.get_mut(place) {
                let after = changed(*word, mask);
                self.count =
                    self.count + u64::from(after.count_ones()) - u64::from(word.count_ones());
                *word = after;
            }
        }
    }

    /// Whether it has all of these pages.
    #[must_use]
    pub fn has_all(&self, pages: &Range<u64>) -> bool {
        let mut words = masks(pages.clone());
        words.all(|(place, mask)| {
            self.words
                .get(place)
                .is_some_and(|word| word & mask == mask)
        })
    }

    /// Whether it has no page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of pages.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether any page is in both sets.
    #[must_use]
    pub fn has_any_of(&self, other: &Self) -> bool {
        let mut words = self.words.iter().zip(&other.words);
        words.any(|(one, other)| one & other != 0)
    }

    /// Adds all pages of another set.
    pub fn unite(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            self.count += u64::from((more & !*word).count_ones());
            *word |= more;
        }
    }

    /// The pages of both.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return Self::default();
        }
        let words = self.words.iter().zip(&other.words);
        let words: Vec<u64> = words.map(|(one, other)| one & other).collect();
        let count = words.iter().map(|word| u64::from(word.count_ones())).sum();
        Self { words, count }
    }

    /// Takes all pages out.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The pages in order, neighbours joined.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        if self.is_empty() {
            return ranges;
        }
        for (place, word) in self.words.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let page = place as u64 * 64 + u64::from(rest.trailing_zeros());
                match ranges.last_mut() {
                    Some(last) if last.end == page => last.end += 1,
                    _ => ranges.push(page..page + 1),
                }
                rest &= rest - 1;
            }
        }
        ranges
    }
}

/// The words of a range, and the bits of its pages in each.
fn masks(pages: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let behind = if pages.is_empty() {
        0
    } else {
        pages.end.div_ceil(64)
    };
    let words = pages.start / 64..behind;
    words.map(move |place| {
        let first = pages.start.saturating_sub(place * 64).min(63);
        let count = (pages.end - place * 64).min(64) - first;
        (place as usize, u64::MAX >> (64 - count) << first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_all_places_and_lengths() {
        for (start, end) in (0..200).flat_map(|start| (start..200).map(move |end| (start, end))) {
            let mut set = PageSet::default();
            set.insert(start..end);
            let inserted = if start == end {
                vec![]
            } else {
                vec![start..end; 1]
            };
            assert_eq!(set.ranges(), inserted);
            assert!(set.has_all(&(start..end)) && !set.has_all(&(start..end + 1)));
            let mut rest = PageSet::default();
            rest.insert(0..256);
            rest.remove(start..end);
            assert!(rest.common(&set).is_empty());
            assert_eq!(rest.count + set.count, 256);
            rest.unite(&set);
            assert!(rest.has_all(&(0..256)) && rest.count == 256);
            assert_eq!(rest.common(&set).count, set.count);
            rest.remove(0..256);
            assert!(rest.is_empty() && rest.ranges().is_empty());
        }
    }

    #[test]
    fn pages_in_and_out() {
        let mut set = PageSet::default();
        set.insert(3..70);
        set.insert(100..101);
        assert_eq!(set.remove(10..12), 2);
        assert_eq!((set.remove(11..12), set.remove(500..600)), (0, 0));
        assert_eq!(set.ranges(), [3..10, 12..70, 100..101]);
        let mut other = PageSet::default();
        other.insert(5..11);
        assert_eq!(set.common(&other).ranges(), vec![5..10; 1]);
        set.insert(PAGES_MAX..PAGES_MAX + 9);
        set.take();
        assert!(set.is_empty());
    }
}
