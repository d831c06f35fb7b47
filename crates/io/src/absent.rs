//! Drops the pages that Coldstream itself brought into the page cache, and no others.
//!
//! Pages that were resident before may belong to the foreground. So the residency of a range is taken
//! first, and only the pages that were absent then are dropped afterwards.

use crate::alignment::PAGE_BYTES;
use crate::residency;
use crate::sys::cachestat::cache_statistics;
use crate::sys::{Descriptor, fadvise};
use std::ops::Range;

/// The longest range, in bytes.
pub const RANGE_BYTES_MAX: u64 = PAGES_MAX * PAGE_BYTES;

const PAGES_MAX: u64 = 512;
const WORDS: usize = (PAGES_MAX / 64) as usize;

/// The pages of a range that were not in the page cache at one moment. All zeros is valid: no page is
/// known to be absent, and none is dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AbsentPages {
    bits: [u64; WORDS],
}

impl AbsentPages {
    /// The absent pages of `length_bytes` (at most [`RANGE_BYTES_MAX`]) from page-aligned `start` on.
    /// If the kernel does not say which, no page counts as absent.
    pub fn of(descriptor: impl Into<Descriptor>, start: u64, length_bytes: u64) -> Self {
        let descriptor = descriptor.into();
        // Mostly no page is resident. `cachestat` says so at a lower price than `mincore`.
        let statistics = cache_statistics(descriptor, start, length_bytes);
        if statistics.is_ok_and(|statistics| statistics.cached_pages == 0) {
            return Self::first(length_bytes.div_ceil(PAGE_BYTES));
        }
        let mut absent = Self::default();
        let result = residency::each_page(descriptor, start, length_bytes, |offset, resident| {
            if !resident {
                absent.add((offset - start) / PAGE_BYTES);
            }
        });
        match result {
            Ok(()) => absent,
            Err(_) => Self::default(),
        }
    }

    /// The first `pages` pages of a range.
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

    /// Runs of absent pages, by their numbers, without those that `is_kept`.
    fn runs(&self, is_kept: impl Fn(u64) -> bool) -> impl Iterator<Item = Range<u64>> {
        let is_dropped = move |page: u64| self.has(page) && !is_kept(page);
        let mut page = 0;
        std::iter::from_fn(move || {
            let start = (page..PAGES_MAX).find(|page| is_dropped(*page))?;
            page = (start..PAGES_MAX)
                .find(|page| !is_dropped(*page))
                .unwrap_or(PAGES_MAX);
            Some(start..page)
        })
    }

    /// Drops these pages, except those whose offset in the file `is_kept`. `start` is the one that
    /// [`AbsentPages::of`] got. Returns the bytes that the kernel was asked to drop; it keeps pages that
    /// are in use.
    pub fn drop_again(
        &self,
        descriptor: impl Into<Descriptor>,
        start: u64,
        is_kept: impl Fn(u64) -> bool,
    ) -> u64 {
        let descriptor = descriptor.into();
        let offset_of = |page: u64| start + page * PAGE_BYTES;
        let mut dropped_bytes = 0;
        for run in self.runs(|page| is_kept(offset_of(page))) {
            let length_bytes = (run.end - run.start) * PAGE_BYTES;
            let advice = libc::POSIX_FADV_DONTNEED;
            let _ = fadvise::advise(descriptor, offset_of(run.start), length_bytes, advice);
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
    fn runs_have_absent_pages_that_are_not_kept() {
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
