//! Directories whose SSTables got no handover, each with the first reason: words of the page between
//! [`crate::phase`] and the switches.
//!
//! An entry is written once and never changed. Whoever can write the page can write any bytes here: a reader
//! shows them as text only.

use std::sync::atomic::Ordering;

use crate::page::PageView;
use crate::switch;

/// Directories that are remembered. Further ones are counted only.
pub(crate) const ENTRIES: usize = 3;

/// The words of an entry: its state, the directory, the reason.
const DIRECTORY_WORDS: usize = 25;
const REASON_WORDS: usize = 14;
const ENTRY_WORDS: usize = 1 + DIRECTORY_WORDS + REASON_WORDS;
/// The first word of this part. The words of [`crate::phase`] are before it.
pub(crate) const FIRST_WORD: usize = switch::FIRST_WORD - ENTRIES * ENTRY_WORDS;

/// States of an entry. Any other one has the length of the directory in its lowest 16 bits, and that of the
/// reason above.
const EMPTY: u64 = 0;
const BEING_WRITTEN: u64 = u64::MAX;

/// A directory whose SSTables got no handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclinedDirectory {
    directory: Bytes<DIRECTORY_WORDS>,
    reason: Bytes<REASON_WORDS>,
}

impl DeclinedDirectory {
    /// The path. The end of it, if it is long.
    #[must_use]
    pub fn directory(&self) -> String {
        self.directory.text()
    }

    /// Why the first of its SSTables got none. The beginning of it, if it is long.
    #[must_use]
    pub fn reason(&self) -> String {
        self.reason.text()
    }
}

/// Bytes of a page, in at most `WORDS` words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes<const WORDS: usize> {
    words: [u64; WORDS],
    length: usize,
}

impl<const WORDS: usize> Bytes<WORDS> {
    const ROOM: usize = WORDS * size_of::<u64>();

    /// The first bytes of `bytes` for which there is room.
    fn of(bytes: &[u8]) -> Self {
        let bytes = bytes.get(..Self::ROOM).unwrap_or(bytes);
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(size_of::<u64>())) {
            let mut whole = [0; size_of::<u64>()];
            for (target, byte) in whole.iter_mut().zip(bytes) {
                *target = *byte;
            }
            *word = u64::from_le_bytes(whole);
        }
        Self {
            words,
            length: bytes.len(),
        }
    }

    /// Control characters are replaced: a terminal would obey them.
    fn text(&self) -> String {
        let bytes: Vec<u8> = (self.words.iter())
            .flat_map(|word| word.to_le_bytes())
            .take(self.length)
            .collect();
        String::from_utf8_lossy(&bytes).replace(char::is_control, "?")
    }

    fn load(page: &PageView<'_>, first_word: usize, length: usize) -> Self {
        let mut words = [0; WORDS];
        for (at, word) in words.iter_mut().enumerate() {
            *word = page.load(first_word + at);
        }
        Self { words, length }
    }

    fn store(&self, page: &PageView<'_>, first_word: usize) {
        for (at, word) in self.words.iter().enumerate() {
            page.store(first_word + at, *word);
        }
    }
}

impl PageView<'_> {
    /// Remembers that an SSTable of a directory got no handover, unless the directory is known already. Does not
    /// allocate.
    pub fn record_declined(&self, directory: &[u8], reason: &[u8]) {
        let from = directory
            .len()
            .saturating_sub(Bytes::<DIRECTORY_WORDS>::ROOM);
        let directory = Bytes::of(directory.get(from..).unwrap_or_default());
        let reason = Bytes::of(reason);
        let state = directory.length as u64 | (reason.length as u64) << 16;
        for entry in 0..ENTRIES {
            let Some(word) = self.word(FIRST_WORD + entry * ENTRY_WORDS) else {
                return;
            };
            let taken =
                word.compare_exchange(EMPTY, BEING_WRITTEN, Ordering::AcqRel, Ordering::Acquire);
            if taken.is_ok() {
                let declined = DeclinedDirectory { directory, reason };
                self.write_declined(entry, &declined, state);
                return;
            }
            let known = self.declined_entry(entry);
            if known.is_some_and(|known| known.directory == directory) {
                return;
            }
        }
    }

    fn write_declined(&self, entry: usize, declined: &DeclinedDirectory, state: u64) {
        let first_word = FIRST_WORD + entry * ENTRY_WORDS;
        declined.directory.store(self, first_word + 1);
        declined
            .reason
            .store(self, first_word + 1 + DIRECTORY_WORDS);
        // An empty path and an empty reason would look like an empty entry: nothing is lost then.
        self.store(first_word, state);
    }

    fn declined_entry(&self, entry: usize) -> Option<DeclinedDirectory> {
        let first_word = FIRST_WORD + entry * ENTRY_WORDS;
        let state = self.load(first_word);
        if state == EMPTY || state == BEING_WRITTEN {
            return None;
        }
        let length = |shift: u32, room: usize| usize::from((state >> shift) as u16).min(room);
        let directory = length(0, Bytes::<DIRECTORY_WORDS>::ROOM);
        let reason = length(16, Bytes::<REASON_WORDS>::ROOM);
        Some(DeclinedDirectory {
            directory: Bytes::load(self, first_word + 1, directory),
            reason: Bytes::load(self, first_word + 1 + DIRECTORY_WORDS, reason),
        })
    }

    pub(crate) fn declined(&self) -> [Option<DeclinedDirectory>; ENTRIES] {
        std::array::from_fn(|entry| self.declined_entry(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PAGE_WORDS;
    use std::sync::atomic::AtomicU64;

    fn words() -> Vec<AtomicU64> {
        (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn declined(page: &PageView<'_>) -> Vec<(String, String)> {
        let entries = page.declined().into_iter().flatten();
        entries
            .map(|entry| (entry.directory(), entry.reason()))
            .collect()
    }

    #[test]
    fn each_directory_is_remembered_once_with_its_first_reason() {
        let words = words();
        let page = PageView::new(&words).unwrap();
        assert_eq!(declined(&page), []);
        for (directory, reason) in [
            ("/a", "one"),
            ("/b", "two"),
            ("/a", "three"),
            ("/c", ""),
            ("/d", ""),
        ] {
            page.record_declined(directory.as_bytes(), reason.as_bytes());
        }
        let expected = [("/a", "one"), ("/b", "two"), ("/c", "")];
        let expected =
            expected.map(|(directory, reason)| (directory.to_owned(), reason.to_owned()));
        assert_eq!(declined(&page), expected);
    }

    #[test]
    fn long_paths_keep_their_end_and_long_reasons_their_beginning() {
        let words = words();
        let page = PageView::new(&words).unwrap();
        let path = format!("/{}/end", "d".repeat(300));
        for _ in 0..2 {
            page.record_declined(path.as_bytes(), "reason".repeat(50).as_bytes());
        }
        let [(directory, reason)] = &declined(&page)[..] else {
            panic!("{:?}", declined(&page));
        };
        assert!(
            directory.len() == 200 && directory.ends_with("d/end"),
            "{directory}"
        );
        assert!(
            reason.len() == 112 && reason.starts_with("reasonreason"),
            "{reason}"
        );
    }

    #[test]
    fn forged_entries_are_text_of_bounded_length() {
        let words = words();
        for word in &words {
            word.store(0x1b41_ffff_ffff_ffff, Ordering::Relaxed);
        }
        let page = PageView::new(&words).unwrap();
        for (directory, reason) in declined(&page) {
            assert!(directory.chars().count() <= 200 && reason.chars().count() <= 112);
            assert!(!directory.contains('\u{1b}'), "{directory:?}");
        }
        page.record_declined(b"/a", b"");
    }

    #[test]
    fn an_entry_that_is_being_written_is_not_read() {
        let words = words();
        let page = PageView::new(&words).unwrap();
        words[FIRST_WORD].store(BEING_WRITTEN, Ordering::Relaxed);
        page.record_declined(b"/a", b"one");
        assert_eq!(declined(&page), [("/a".to_owned(), "one".to_owned())]);
    }
}
