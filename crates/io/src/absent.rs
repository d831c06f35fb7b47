//! Who brings pages of a file into the page cache only to pass them on drops them again, and only
//! them: what was there before is somebody else's.

use crate::alignment::PAGE_BYTES;
use crate::residency;
use crate::sys::file;
use std::ops::Range;

/// The longest range, in bytes.
pub const RANGE_BYTES_MAX: u64 = PAGES_MAX * PAGE_BYTES;

const PAGES_MAX: u64 = 512;
const WORDS: usize = (PAGES_MAX / 64) as usize;

/// The pages of a range that were not in the page cache at one moment. All zeros is a range of
/// which nothing is known, and nothing dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AbsentPages {
    bits: [u64; WORDS],
}

impl AbsentPages {
    /// Asks about `length_bytes`, at most [`RANGE_BYTES_MAX`], from page-aligned `start`.
    pub fn of(descriptor: i32, start: u64, length_bytes: u64) -> Self {
        // Mostly nothing is there, which is cheaper to be told than to be shown.
        let statistics = file::cache_statistics(descriptor, start, length_bytes);
        if statistics.is_ok_and(|statistics| statistics.cached_pages == 0) {
            return Self::first(length_bytes.div_ceil(PAGE_BYTES));
        }
        let mut absent = Self::default();
        let asked = residency::each_page(descriptor, start, length_bytes, |offset, resident| {
            if !resident {
                absent.add((offset - start) / PAGE_BYTES);
            }
        });
        match asked {
            Ok(()) => absent,
            Err(_) => Self::default(),
        }
    }

    /// The first so many pages of a range.
    fn first(pages: u64) -> Self {
        let mut all = Self::default();
        (0..pages).for_each(|page| all.add(page));
        all
    }

    fn add(&mut self, page: u64) {
        if let Some(word) = self.bits.get_mut((page / 64) as usize) {
            *word |= 1 << (page % 64);
        }
    }

    fn has(&self, page: u64) -> bool {
        let word = self.bits.get((page / 64) as usize);
        word.is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Runs of pages, by their numbers, but for those that are kept.
    fn runs(&self, is_kept: impl Fn(u64) -> bool) -> impl Iterator<Item = Range<u64>> {
        let goes = move |page: u64| self.has(page) && !is_kept(page);
        let mut page = 0;
        std::iter::from_fn(move || {
            let start = (page..PAGES_MAX).find(|page| goes(*page))?;
            page = (start..PAGES_MAX)
                .find(|page| !goes(*page))
                .unwrap_or(PAGES_MAX);
            Some(start..page)
        })
    }

    /// Drops them, but those whose offset in the file `is_kept`. `start` is what it was. Returns how
    /// many bytes that were: what is in use still stays.
    pub fn drop_again(&self, descriptor: i32, start: u64, is_kept: impl Fn(u64) -> bool) -> u64 {
        let offset_of = |page: u64| start + page * PAGE_BYTES;
        let mut dropped_bytes = 0;
        for run in self.runs(|page| is_kept(offset_of(page))) {
            let length_bytes = (run.end - run.start) * PAGE_BYTES;
            let advice = libc::POSIX_FADV_DONTNEED;
            let _ = file::advise(descriptor, offset_of(run.start), length_bytes, advice);
            dropped_bytes += length_bytes;
        }
        dropped_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(pages: &[u64], is_kept: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
        let mut absent = AbsentPages::default();
        pages.iter().for_each(|page| absent.add(*page));
        absent.runs(is_kept).collect()
    }

    #[test]
    fn runs_are_of_pages_that_go() {
        assert!(runs(&[], |_| false).is_empty());
        assert_eq!(
            runs(&[0, 1, 62, 63, 64, 65, 511], |_| false),
            [0..2, 62..66, 511..512]
        );
        assert_eq!(runs(&[62, 63, 64, 65], |page| page == 64), [62..64, 65..66]);
        assert!(runs(&[7], |_| true).is_empty());
        for count in [1, 63, 64, 65, 512] {
            let all: Vec<_> = AbsentPages::first(count).runs(|_| false).collect();
            assert_eq!((all.len(), all.first()), (1, Some(&(0..count))));
        }
        assert_eq!(AbsentPages::first(PAGES_MAX + 9), AbsentPages::first(512));
    }
}
