//! A bounded cache of the pages of a trie.

use crate::memory::{self, TryVec};
use crate::{Error, ReadAt, Result};

/// Bytes of a page (`io/util/PageAware.java`, Cassandra 5.0.9). No node crosses a page's boundary.
const PAGE_SIZE: u64 = 4096;

/// Number of sets. A page belongs to the set of its number modulo this.
const SETS: usize = 64;

/// Pages that a set holds, those that were used last. All sets together hold 1 MiB.
///
/// A walk alternates between pages of leaves, which lie close together, and pages of the nodes above
/// them, which lie anywhere. Several pages a set keep these from evicting each other.
const HELD_OF_A_SET: usize = 4;

/// The pages that were read last.
pub(super) struct Pages<'a, R> {
    source: &'a R,
    /// Where the trie ends, in bytes from the beginning of the file.
    end: u64,
    /// Each set is in the order of use, the last used page first.
    sets: Vec<Vec<Page>>,
}

struct Page {
    number: u64,
    bytes: Vec<u8>,
}

impl<'a, R: ReadAt> Pages<'a, R> {
    pub(super) fn new(source: &'a R, end: u64) -> Result<Self> {
        Ok(Self {
            source,
            end,
            sets: memory::collected(std::iter::repeat_with(Vec::new).take(SETS))?,
        })
    }

    /// The bytes from `position` to the end of its page, or of the trie.
    pub(super) fn from(&mut self, position: u64) -> Result<&[u8]> {
        if position >= self.end {
            return Err(Error::Malformed {
                what: "a node beyond the trie",
                offset: position,
            });
        }
        let number = position / PAGE_SIZE;
        let set = &mut self.sets[number as usize % SETS];
        match set.iter().position(|page| page.number == number) {
            Some(held) => set[..=held].rotate_right(1),
            None => {
                let start = number * PAGE_SIZE;
                let length = (self.end - start).min(PAGE_SIZE) as usize;
                let longest_unused = (set.len() == HELD_OF_A_SET).then(|| set.pop()).flatten();
                let mut bytes = longest_unused.map_or_else(Vec::new, |page| page.bytes);
                bytes.try_resize(length, 0)?;
                self.source.read_exact_at(&mut bytes, start)?;
                set.try_push(Page { number, bytes })?;
                set.rotate_right(1);
            }
        }
        Ok(&set[0].bytes[(position % PAGE_SIZE) as usize..])
    }
}
