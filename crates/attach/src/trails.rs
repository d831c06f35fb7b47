//! Tells a compaction's reads from a user's scan, where only `FADV_SEQUENTIAL` tells.
//!
//! Pebble opens a table anew for each compaction. It reads that descriptor from the first data block on, and
//! never backwards. A user's scan gets such a descriptor, too, but only after 192 KiB in order. So a descriptor
//! whose first read lies behind the file's beginning is a scan's, and so is one that turns back.

use crate::event::FileId;
use std::collections::HashMap;
use std::ops::Range;

/// A compaction's first read begins before this page. Its first blocks may be in the engine's own cache.
const FIRST_PAGES: u64 = 16;
/// Most threads and descriptors that are remembered.
const REMEMBERED_MAX: usize = 16_384;

/// The descriptors of compactions, and what threads brought in by advised descriptors.
#[derive(Debug, Default)]
pub struct Trails {
    /// The page behind the last read.
    ends: HashMap<(FileId, u32), u64>,
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
        added.push(pages);
    }

    /// A thread read pages. Returns what it brought in for that, if the descriptor is a compaction's.
    pub fn read(
        &mut self,
        thread: u32,
        file: FileId,
        descriptor: u32,
        pages: &Range<u64>,
    ) -> Option<Vec<Range<u64>>> {
        let added = self.added.remove(&thread);
        let key = (file, descriptor);
        let end = self.ends.get(&key);
        let goes_on = end.is_some_and(|end| pages.end >= *end);
        if !goes_on && pages.start >= FIRST_PAGES {
            self.ends.remove(&key);
            return None;
        }
        if self.ends.len() >= REMEMBERED_MAX {
            self.ends.clear();
        }
        self.ends.insert(key, pages.end);
        let own = added.filter(|(of, _)| *of == file);
        Some(own.map_or(Vec::new(), |(_, added)| added))
    }

    /// No compaction reads these files any more. Their descriptors' numbers are given out again.
    pub fn keep(&mut self, is_read: impl Fn(FileId) -> bool) {
        self.ends.retain(|(file, _), _| is_read(*file));
    }

    /// Events were lost.
    pub fn forget_pages(&mut self) {
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

    #[test]
    fn a_descriptor_is_a_compactions_from_the_first_pages_on() {
        let mut trails = Trails::default();
        trails.add(1, FILE, 0..32);
        assert_eq!(trails.read(1, FILE, 9, &(0..2)), Some(vec![0..32; 1]));
        // Another thread goes on, with a gap: a block was in the engine's cache.
        trails.add(2, FILE, 32..64);
        assert_eq!(trails.read(2, FILE, 9, &(30..31)), Some(vec![32..64; 1]));
        // A scan overtakes it by its own descriptor.
        trails.add(3, FILE, 64..96);
        assert_eq!(trails.read(3, FILE, 8, &(31..32)), None);
        assert_eq!(trails.read(3, FILE, 8, &(32..64)), None);
        // The kernel tells of the rest of a large read once more.
        assert!(trails.read(2, FILE, 9, &(31..47)).is_some());
        assert!(trails.read(2, FILE, 9, &(40..47)).is_some());
        // It turns back: it is a scan's by now.
        assert_eq!(trails.read(2, FILE, 9, &(20..21)), None);
        assert_eq!(trails.read(2, FILE, 9, &(50..51)), None);
    }

    #[test]
    fn pages_of_another_file_or_a_write_are_not_the_reads() {
        let mut trails = Trails::default();
        trails.add(1, OTHER, 0..8);
        assert_eq!(trails.read(1, FILE, 9, &(0..1)), Some(Vec::new()));
        trails.add(1, OTHER, 0..8);
        trails.add(1, FILE, 8..16);
        assert_eq!(trails.read(1, FILE, 9, &(8..9)), Some(vec![8..16; 1]));
        trails.keep(|_| false);
        assert_eq!(trails.read(1, FILE, 9, &(90..91)), None);
    }
}
