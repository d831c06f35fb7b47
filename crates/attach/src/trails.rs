//! Tells a compaction's reads from others, where only `FADV_SEQUENTIAL` tells.
//!
//! Pebble opens a table anew for each compaction, and advises that descriptor to be sequential. It reads it from the
//! first data block on, and never backwards. A user's scan gets such a descriptor, too, but only after 192 KiB in
//! order. So a descriptor whose first read lies behind the file's beginning is a scan's, and so is one that turns
//! back. The kernel shows the advice when a read has to wait for the device, and not before.

use crate::event::FileId;
use crate::look::REST_LOOKS;
use std::collections::HashMap;
use std::ops::Range;

/// A compaction's first read begins before this page. Its first blocks may be in the engine's own cache.
const FIRST_PAGES: u64 = 16;
/// Reads in order from the file's beginning that are no sign of heat.
const IN_ORDER_MIN: u32 = 4;
/// In order: at most so many pages are passed over, 64 KiB.
const GAP_PAGES: u64 = 16;
/// Most threads and descriptors that are remembered.
const REMEMBERED_MAX: usize = 16_384;

/// Whose a read is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A compaction's, which brought these pages in.
    Compaction(Vec<Range<u64>>),
    /// A compaction's or a scan's: it goes through the file in order.
    InOrder,
    /// Another one's.
    Foreground,
}

/// The reads by one descriptor of one file.
#[derive(Debug)]
struct Trail {
    /// The page behind the last read.
    end: Option<u64>,
    /// Reads in order.
    in_order: u32,
    /// It began at the file's beginning, and never turned back.
    is_whole: bool,
    is_advised: bool,
    last_look: u64,
}

impl Trail {
    fn go_on(&mut self, pages: &Range<u64>) {
        let end = self.end.replace(pages.end);
        match end {
            None => self.is_whole = pages.start < FIRST_PAGES,
            Some(end) => self.is_whole &= pages.end >= end,
        }
        let is_in_order = end.is_none_or(|end| {
            pages.end >= end && pages.start + 1 >= end && pages.start <= end + GAP_PAGES
        });
        if !is_in_order {
            self.in_order = 0;
        } else if end != Some(pages.end) {
            // Lookups read a page of the index again and again. That is no progress.
            self.in_order = self.in_order.saturating_add(1);
        }
    }
}

/// The descriptors by which files are read, and what threads brought in.
#[derive(Debug, Default)]
pub struct Trails {
    trails: HashMap<(FileId, u32), Trail>,
    /// The kernel tells of new pages before it tells of the read that wanted them.
    added: HashMap<u32, (FileId, Vec<Range<u64>>)>,
}

impl Trails {
    /// A thread brought pages in, for its next read.
    pub fn add(&mut self, thread: u32, file: FileId, pages: Range<u64>) {
        if self.added.len() >= REMEMBERED_MAX {
            self.added.clear();
        }
        let (of, added) = self.added.entry(thread).or_insert((file, Vec::new()));
        if *of != file {
            *of = file;
            added.clear();
        }
        match added.last_mut() {
            Some(last) if last.end == pages.start => last.end = pages.end,
            _ => added.push(pages),
        }
    }

    fn trail(&mut self, file: FileId, descriptor: u32, look: u64) -> &mut Trail {
        if self.trails.len() >= REMEMBERED_MAX {
            self.trails.clear();
        }
        let trail = self.trails.entry((file, descriptor)).or_insert(Trail {
            end: None,
            in_order: 0,
            is_whole: true,
            is_advised: false,
            last_look: look,
        });
        trail.last_look = look;
        trail
    }

    /// A read ahead shows whether a descriptor has the advice.
    pub fn note_advice(&mut self, file: FileId, descriptor: u32, is_advised: bool, look: u64) {
        let trail = self.trail(file, descriptor, look);
        if is_advised && !trail.is_advised && !trail.is_whole {
            // The number was given out again, or the descriptor is used in another way from now on.
            trail.end = None;
            trail.in_order = 0;
        }
        trail.is_advised = is_advised;
    }

    /// A thread read pages.
    pub fn read(
        &mut self,
        thread: u32,
        file: FileId,
        descriptor: u32,
        pages: &Range<u64>,
        look: u64,
    ) -> Reader {
        let added = match self.added.get_mut(&thread) {
            Some((of, added)) if *of == file => std::mem::take(added),
            _ => Vec::new(),
        };
        let trail = self.trail(file, descriptor, look);
        trail.go_on(pages);
        if trail.is_whole && trail.is_advised {
            Reader::Compaction(added)
        } else if trail.in_order >= IN_ORDER_MIN {
            Reader::InOrder
        } else {
            Reader::Foreground
        }
    }

    /// Forgets descriptors that have read nothing for a second: their numbers may be given out again.
    pub fn end_look(&mut self, look: u64) {
        self.trails
            .retain(|_, trail| look.saturating_sub(trail.last_look) < REST_LOOKS);
    }

    /// Events were lost. A descriptor may have turned back, or its number may be another one's by now: what goes on in the
    /// middle of a file is nobody's compaction.
    pub fn forget(&mut self) {
        self.trails.clear();
        self.added.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId {
        device: 1,
        inode: 2,
    };
    const OTHER: FileId = FileId {
        device: 1,
        inode: 3,
    };

    fn compaction(added: Option<Range<u64>>) -> Reader {
        Reader::Compaction(added.into_iter().collect())
    }

    #[test]
    fn a_descriptor_is_a_compactions_from_the_first_pages_on() {
        let mut trails = Trails::default();
        for descriptor in [8, 9] {
            trails.note_advice(FILE, descriptor, true, 0);
        }
        trails.add(1, FILE, 0..20);
        trails.add(1, FILE, 20..32);
        assert_eq!(trails.read(1, FILE, 9, &(0..2), 0), compaction(Some(0..32)));
        // Another thread goes on, with a gap: a block was in the engine's cache.
        trails.add(2, FILE, 32..64);
        assert_eq!(
            trails.read(2, FILE, 9, &(30..31), 0),
            compaction(Some(32..64))
        );
        // A scan overtakes it by its own descriptor.
        trails.add(3, FILE, 64..96);
        assert_eq!(trails.read(3, FILE, 8, &(31..32), 0), Reader::Foreground);
        assert_eq!(trails.read(3, FILE, 8, &(32..64), 0), Reader::Foreground);
        // The kernel tells of the rest of a large read once more.
        assert_eq!(trails.read(2, FILE, 9, &(31..47), 0), compaction(None));
        assert_eq!(trails.read(2, FILE, 9, &(40..47), 0), compaction(None));
        // It turns back: it is a scan's by now.
        assert_eq!(trails.read(2, FILE, 9, &(20..21), 0), Reader::Foreground);
        assert_eq!(trails.read(2, FILE, 9, &(50..51), 0), Reader::Foreground);
    }

    #[test]
    fn without_advice_reads_in_order_are_nobodys() {
        let mut trails = Trails::default();
        let mut read = |page| trails.read(1, FILE, 9, &(page..page + 2), 0);
        for page in 0..3 {
            assert_eq!(read(page), Reader::Foreground);
        }
        assert_eq!(read(3), Reader::InOrder);
        assert_eq!(read(500), Reader::Foreground);
        trails.note_advice(FILE, 9, true, 0);
        assert_eq!(trails.read(1, FILE, 9, &(501..502), 0), compaction(None));
        trails.note_advice(FILE, 9, false, 0);
        assert_eq!(trails.read(1, FILE, 9, &(600..601), 0), Reader::Foreground);
    }

    #[test]
    fn a_page_that_is_read_again_and_again_is_not_read_in_order() {
        let mut trails = Trails::default();
        for _ in 0..2 * IN_ORDER_MIN {
            let index = trails.read(1, FILE, 9, &(70..71), 0);
            assert_eq!(index, Reader::Foreground);
        }
        // Small blocks, two of them in each page.
        let mut scan = |page| trails.read(1, FILE, 8, &(page..page + 1), 0);
        for page in [0, 0, 1, 1, 2, 2] {
            assert_eq!(scan(page), Reader::Foreground);
        }
        for page in [3, 3, 4] {
            assert_eq!(scan(page), Reader::InOrder);
        }
    }

    #[test]
    fn a_number_that_is_given_out_again_is_another_descriptor() {
        let mut trails = Trails::default();
        let read = |trails: &mut Trails, page| trails.read(1, FILE, 9, &(page..page + 1), 0);
        assert_eq!(read(&mut trails, 300), Reader::Foreground);
        trails.note_advice(FILE, 9, true, 0);
        assert_eq!(read(&mut trails, 0), compaction(None));
        // Back: a scan's, and without a new sign it stays one.
        assert_eq!(read(&mut trails, 5), compaction(None));
        assert_eq!(read(&mut trails, 1), Reader::Foreground);
        trails.note_advice(FILE, 9, true, 0);
        assert_eq!(read(&mut trails, 2), Reader::Foreground);
    }

    #[test]
    fn pages_of_another_file_or_a_write_are_not_the_reads() {
        let mut trails = Trails::default();
        trails.note_advice(FILE, 9, true, 0);
        trails.add(1, OTHER, 0..8);
        assert_eq!(trails.read(1, FILE, 9, &(0..1), 0), compaction(None));
        trails.add(1, OTHER, 0..8);
        trails.add(1, FILE, 8..16);
        assert_eq!(trails.read(1, FILE, 9, &(8..9), 0), compaction(Some(8..16)));
        trails.end_look(REST_LOOKS);
        assert_eq!(
            trails.read(1, FILE, 9, &(90..91), REST_LOOKS),
            Reader::Foreground
        );
    }

    #[test]
    fn after_a_loss_of_events_what_goes_on_in_the_middle_is_no_compactions() {
        let mut trails = Trails::default();
        trails.note_advice(FILE, 9, true, 0);
        assert_eq!(trails.read(1, FILE, 9, &(0..2), 0), compaction(None));
        trails.forget();
        trails.note_advice(FILE, 9, true, 0);
        assert_eq!(trails.read(1, FILE, 9, &(40..42), 0), Reader::Foreground);
        // The next one begins at the beginning.
        trails.note_advice(OTHER, 9, true, 0);
        assert_eq!(trails.read(1, OTHER, 9, &(0..2), 0), compaction(None));
    }
}
