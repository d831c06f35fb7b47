//! The parts of large reads. Pure logic.
//!
//! The kernel goes through a read in batches of 31 folios (`filemap_get_pages`, `PAGEVEC_SIZE`). Each batch tells of all
//! that is left of the read. Only the first one stands for the whole of it.

use crate::event::{Event, FileId};
use std::collections::HashMap;

/// A read of at most so many pages is one batch.
const BATCH_PAGES: u64 = 31;
/// Most threads whose reads are remembered.
const THREADS_MAX: usize = 1024;

/// A read that may go on.
#[derive(Debug)]
struct LargeRead {
    file: FileId,
    page: u64,
    end: u64,
}

/// The last large read of each thread.
#[derive(Debug, Default)]
pub struct LargeReads(HashMap<u32, LargeRead>);

impl LargeReads {
    /// Notes a read. Returns whether it is the rest of one that was told of before.
    #[must_use]
    pub fn note_whether_continued(&mut self, event: &Event) -> bool {
        let is_large = event.pages > BATCH_PAGES;
        if self.0.is_empty() && !is_large {
            return false;
        }
        let (file, page) = (event.file, event.page);
        let end = page.saturating_add(event.pages);
        let is_continued = self
            .0
            .get(&event.thread)
            .is_some_and(|before| before.file == file && before.end == end && before.page < page);
        if is_large {
            if self.0.len() >= THREADS_MAX {
                self.0.clear();
            }
            self.0.insert(event.thread, LargeRead { file, page, end });
        } else {
            self.0.remove(&event.thread);
        }
        is_continued
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::What;

    fn read(thread: u32, inode: u64, pages: std::ops::Range<u64>) -> Event {
        Event {
            what: What::Read,
            process: 1,
            thread,
            name: [0; 16],
            call: None,
            file: FileId { device: 1, inode },
            page: pages.start,
            pages: pages.end - pages.start,
        }
    }

    #[test]
    fn only_the_first_batch_of_a_read_counts() {
        let mut reads = LargeReads::default();
        let is_continued = [
            read(1, 5, 0..100),
            read(1, 5, 31..100),
            read(2, 5, 62..100),
            read(1, 5, 62..100),
            read(1, 5, 93..100),
            // The same pages once more.
            read(1, 5, 93..100),
            read(1, 5, 0..100),
            read(1, 6, 31..100),
            read(1, 6, 40..41),
        ]
        .map(|event| reads.note_whether_continued(&event));
        let expected = [false, true, false, true, true, false, false, false, false];
        assert_eq!(is_continued, expected);
        assert_eq!(reads.0.len(), 1);
    }
}
