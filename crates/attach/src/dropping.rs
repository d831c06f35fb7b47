//! Drops pages, and says what has gone. The kernel keeps a folio unless all of it is named.

use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::residency;
use coldstream_io::sys::fadvise;
use std::fs::File;
use std::ops::Range;

/// Pages that are written back and dropped together: 2 MiB, the largest folio.
pub(crate) const WRITTEN_PIECE_PAGES: u64 = 512;

/// What became of pages that were to be dropped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Pages that were resident, and are not any more.
    pub(crate) dropped: u64,
    /// Pages that are not resident. Others share a folio with a page that was not named.
    pub(crate) gone: Vec<Range<u64>>,
}

/// Offset and length.
pub(crate) fn bytes(pages: &Range<u64>) -> (u64, u64) {
    let length = pages.end - pages.start;
    (pages.start * PAGE_BYTES, length * PAGE_BYTES)
}

/// Aligned parts of a range, so that a page which is still dirty does not hold up all others.
pub(crate) fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let first = range.start / WRITTEN_PIECE_PAGES;
    let behind = range.end.div_ceil(WRITTEN_PIECE_PAGES);
    (first..behind).map(move |piece| {
        let start = range.start.max(piece * WRITTEN_PIECE_PAGES);
        start..range.end.min((piece + 1) * WRITTEN_PIECE_PAGES)
    })
}

fn resident(file: &File, pages: &Range<u64>) -> Option<u64> {
    let (offset, length) = bytes(pages);
    let found = residency::of_range(file, offset, length).ok()?;
    Some(found.resident_pages)
}

/// Drops pages. Counts nothing where the kernel does not tell of residency.
pub(crate) fn drop_range(file: &File, pages: &Range<u64>) -> Dropped {
    drop_resident(file, pages, resident(file, pages))
}

/// The same, where so many of them are known to be resident.
pub(crate) fn drop_resident(file: &File, pages: &Range<u64>, before: Option<u64>) -> Dropped {
    let (offset, length) = bytes(pages);
    let _ = fadvise::advise(file, offset, length, libc::POSIX_FADV_DONTNEED);
    let (Some(before), Some(after)) = (before, resident(file, pages)) else {
        let gone = std::iter::once(pages.clone()).collect();
        return Dropped { dropped: 0, gone };
    };
    let mut gone: Vec<Range<u64>> = Vec::new();
    if after == 0 {
        gone.push(pages.clone());
    } else {
        // An error: they stay on the list until the file rests.
        let _ = residency::each_page(file, offset, length, |at, is_resident| {
            let page = at / PAGE_BYTES;
            match gone.last_mut() {
                _ if is_resident => {}
                Some(last) if last.end == page => last.end += 1,
                _ => gone.push(page..page + 1),
            }
        });
    }
    Dropped {
        dropped: before.saturating_sub(after),
        gone,
    }
}
