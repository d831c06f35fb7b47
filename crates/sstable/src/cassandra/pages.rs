//! The pages of an index in the form of a trie.

use crate::{Error, ReadAt, Result};

/// Bytes of a page (`io/util/PageAware.java`, Cassandra 5.0.9). No node of a trie crosses one's
/// boundary.
const PAGE_SIZE: u64 = 4096;

/// Pages that are held, 1 MiB. A walk goes back to the pages of the nodes that it came through and
/// of their neighbours, which lie close together.
const HELD_PAGES: usize = 256;

/// A bounded number of pages, the page number modulo that number telling its place.
pub(super) struct Pages<'a, R> {
    source: &'a R,
    /// Where the trie ends, in bytes from the beginning of the file.
    end: u64,
    held: Vec<Option<Page>>,
}

struct Page {
    number: u64,
    bytes: Box<[u8]>,
}

impl<'a, R: ReadAt> Pages<'a, R> {
    pub(super) fn new(source: &'a R, end: u64) -> Self {
        Self {
            source,
            end,
            held: std::iter::repeat_with(|| None).take(HELD_PAGES).collect(),
        }
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
        let place = &mut self.held[number as usize % HELD_PAGES];
        let page = match place.take() {
            Some(page) if page.number == number => page,
            other => {
                let start = number * PAGE_SIZE;
                let length = (self.end - start).min(PAGE_SIZE) as usize;
                let reusable = other.map(|page| page.bytes);
                let reusable = reusable.filter(|bytes| bytes.len() == length);
                let mut bytes = reusable.unwrap_or_else(|| vec![0; length].into());
                self.source.read_exact_at(&mut bytes, start)?;
                Page { number, bytes }
            }
        };
        Ok(&place.insert(page).bytes[(position % PAGE_SIZE) as usize..])
    }
}
