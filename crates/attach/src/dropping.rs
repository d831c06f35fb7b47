//! Drops pages, and says what has gone. The kernel keeps a folio unless all of it is named.

use crate::file_state::FileState;
use crate::look::REST_LOOKS;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::residency;
use coldstream_io::sys::{fadvise, sync_file_range};
use std::fs::File;
use std::ops::Range;

/// Pages that are written back and dropped together: 2 MiB, the largest folio.
pub(crate) const WRITTEN_PIECE_PAGES: u64 = 512;

/// Where only advice tells: a compaction makes an SSTable at most so long before it reads an input. Five seconds.
const SIGN_LOOKS: u64 = 5 * REST_LOOKS;

/// What became of pages that were to be dropped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Dropped {
    /// Pages that were resident, and are not any more.
    dropped: u64,
    /// Pages that are not resident. Others share a folio with a page that was not named.
    gone: Vec<Range<u64>>,
}

/// Offset and length.
fn bytes(pages: &Range<u64>) -> (u64, u64) {
    let length = pages.end - pages.start;
    (pages.start * PAGE_BYTES, length * PAGE_BYTES)
}

/// Aligned parts of a range, so that a page which is still dirty does not hold up all others.
fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
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
fn drop_range(file: &File, pages: &Range<u64>) -> Dropped {
    drop_resident(file, pages, resident(file, pages))
}

/// The same, where so many of them are known to be resident.
fn drop_resident(file: &File, pages: &Range<u64>, before: Option<u64>) -> Dropped {
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

/// Drops pages of a file that were read, and returns how many. A scan's stay: where only advice tells, an SSTable must
/// have appeared. `new_at` is the last look at which one has.
pub(crate) fn drop_read(
    state: &mut FileState,
    file: &File,
    look: u64,
    new_at: Option<u64>,
    is_on: bool,
) -> u64 {
    let is_compaction = state.advised_since.is_none_or(|since| {
        let signs_from = since.saturating_sub(SIGN_LOOKS);
        new_at.is_some_and(|new_at| new_at >= signs_from)
    });
    if !is_compaction {
        if state.rests(look) {
            state.release_all();
        }
        return 0;
    }
    let shall_be_left = state.shall_be_left(look);
    let mut dropped = 0;
    for range in state.to_drop(look) {
        if is_on {
            if !shall_be_left && state.has_stayed(&range, look) {
                continue;
            }
            let left = drop_range(file, &range);
            dropped += left.dropped;
            left.gone.into_iter().for_each(|gone| state.release(gone));
            if !shall_be_left {
                // The rest of a large folio is read later. Then all of it can be named.
                state.note_stayed(range, look);
                continue;
            }
        }
        state.leave(range);
    }
    dropped
}

/// What became of pages that were written.
#[derive(Debug)]
pub(crate) struct Written {
    /// Pages that were dropped.
    pub(crate) dropped: u64,
    /// Pages that stay, because that is switched off.
    pub(crate) stayed: u64,
    /// All of them are on the device.
    pub(crate) is_written: bool,
}

/// Starts writeback of what was written of a file, and drops what is on the device.
pub(crate) fn drop_written(state: &mut FileState, file: &File, look: u64, is_on: bool) -> Written {
    let mut written = Written {
        dropped: 0,
        stayed: 0,
        is_written: true,
    };
    for range in state.to_drop(look).into_iter().flat_map(pieces) {
        if !is_on {
            written.stayed += range.end - range.start;
            state.release(range);
            continue;
        }
        let (offset, length) = bytes(&range);
        let found = residency::of_range(file, offset, length).ok();
        if found.and_then(|found| found.unwritten_pages) != Some(0) {
            let _ = sync_file_range::start_write_back(file, offset, length);
            written.is_written = false;
            continue;
        }
        let resident = found.map(|found| found.resident_pages);
        let left = drop_resident(file, &range, resident);
        written.dropped += left.dropped;
        left.gone.into_iter().for_each(|gone| state.release(gone));
        state.put_off(range);
    }
    written
}
