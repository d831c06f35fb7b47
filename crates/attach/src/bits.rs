//! A set of pages of one file.

use std::ops::Range;

/// Pages behind this one are left alone: 64 GiB of a file.
const PAGES_MAX: u64 = 1 << 24;

/// A set of page numbers. It grows with the largest one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSet(Vec<u64>);

impl PageSet {
    /// Adds pages.
    pub fn insert(&mut self, pages: Range<u64>) {
        let end = pages.end.min(PAGES_MAX);
        let words = end.div_ceil(64) as usize;
        if words > self.0.len() {
            self.0.resize(words, 0);
        }
        self.each_word(pages.start..end, |word, mask| *word |= mask);
    }

    /// Removes pages.
    pub fn remove(&mut self, pages: Range<u64>) {
        let end = pages.end.min(self.0.len() as u64 * 64);
        self.each_word(pages.start..end, |word, mask| *word &= !mask);
    }

    /// Whether it has all of these pages.
    #[must_use]
    pub fn has_all(&self, pages: &Range<u64>) -> bool {
        let mut words = masks(pages.clone());
        words.all(|(place, mask)| self.0.get(place).is_some_and(|word| word & mask == mask))
    }

    /// Changes each word of a range, by the bits of its pages.
    fn each_word(&mut self, pages: Range<u64>, change: impl Fn(&mut u64, u64)) {
        for (place, mask) in masks(pages) {
            if let Some(word) = self.0.get_mut(place) {
                change(word, mask);
            }
        }
    }

    /// Whether it has no page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Adds all pages of another set.
    pub fn unite(&mut self, other: &Self) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    /// The pages of both.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let words = self.0.iter().zip(&other.0);
        Self(words.map(|(one, other)| one & other).collect())
    }

    /// Takes all pages out.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The pages in order, neighbours joined.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (place, word) in self.0.iter().enumerate() {
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
            rest.unite(&set);
            assert!(rest.has_all(&(0..256)));
        }
    }

    #[test]
    fn pages_in_and_out() {
        let mut set = PageSet::default();
        set.insert(3..70);
        set.insert(100..101);
        set.remove(10..12);
        set.remove(500..600);
        assert_eq!(set.ranges(), [3..10, 12..70, 100..101]);
        let mut other = PageSet::default();
        other.insert(5..11);
        assert_eq!(set.common(&other).ranges(), vec![5..10; 1]);
        set.insert(PAGES_MAX..PAGES_MAX + 9);
        set.take();
        assert!(set.is_empty());
    }
}
