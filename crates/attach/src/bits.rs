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
        for page in pages.start..end {
            if let Some(word) = self.0.get_mut((page / 64) as usize) {
                *word |= 1 << (page % 64);
            }
        }
    }

    /// Removes pages.
    pub fn remove(&mut self, pages: Range<u64>) {
        let end = pages.end.min(self.0.len() as u64 * 64);
        for page in pages.start..end {
            if let Some(word) = self.0.get_mut((page / 64) as usize) {
                *word &= !(1 << (page % 64));
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

#[cfg(test)]
mod tests {
    use super::*;

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
