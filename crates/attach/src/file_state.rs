//! What is known of one SSTable: which of its pages may be dropped, and whether it is an output. Pure logic.

use crate::bits::PageSet;
use crate::look::{Interval, REST_LOOKS};
use std::ops::Range;

/// Looks without an event after which no compaction comes back to a file: ten seconds.
pub(crate) const ABANDONED_LOOKS: u64 = 10 * REST_LOOKS;
/// Tries to drop an output that is on the device. A page that somebody reads keeps its folio.
const TRIES_MAX: u32 = 3;

/// An output of a compaction, and who writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// It is none, as far as that is known.
    #[default]
    No,
    /// It grows.
    Grows(u32),
    /// It is finished. What was written is dropped first: hot pages may lie in one folio with others.
    Finished {
        /// Who has written it.
        worker: u32,
        /// Looks at which all of it was on the device, and pages stayed nevertheless.
        tries: u32,
    },
    /// Its hot pages were warmed.
    HandedOver,
}

/// What is known of one file.
#[derive(Debug, Default)]
pub struct FileState {
    /// A compaction brought them in, and nobody else has used them.
    brought: PageSet,
    /// A compaction is done with them since the last look.
    done_lately: PageSet,
    /// It was before.
    done: PageSet,
    /// The last page of the last read: the next block may begin in it.
    held: Option<u64>,
    /// The look at which an advised descriptor began to read it.
    pub advised_since: Option<u64>,
    /// What became of it if a compaction writes it.
    pub output: Output,
    /// The page behind the last one that was written.
    pub written_end: u64,
    /// The look at which its first page was written.
    pub written_from: u64,
    /// A compaction has read of it.
    pub is_input: bool,
    /// The last look at which a compaction touched it.
    pub(crate) last_look: u64,
    /// When it is tried while it rests.
    turns: Interval,
    /// Pages that were tried lately, and stayed: a reader's page keeps their folio.
    stayed: PageSet,
    /// When these are forgotten, and tried again.
    stays: Interval,
    /// Pages that a compaction brought in by reading, and that were left in the page cache since this was asked last.
    left_pages: u64,
}

impl FileState {
    /// A compaction brought pages in.
    pub(crate) fn bring(&mut self, pages: Range<u64>) {
        self.done.remove(pages.clone());
        self.done_lately.remove(pages.clone());
        // They have gone in between.
        self.stayed.remove(pages.clone());
        self.brought.insert(pages);
    }

    /// Whether it has pages that a compaction brought in, and nobody else has used.
    pub(crate) fn has_brought(&self) -> bool {
        !self.brought.is_empty()
    }

    /// What was done since the last look may be dropped.
    pub(crate) fn end_look(&mut self) {
        let lately = self.done_lately.take();
        self.done.unite(&lately);
    }

    /// A compaction read pages.
    pub(crate) fn read(&mut self, pages: Range<u64>, look: u64) {
        self.last_look = look;
        self.is_input = true;
        let last = pages.end - 1;
        if let Some(held) = self.held.replace(last)
            && held != last
        {
            self.done_lately.insert(held..held + 1);
        }
        self.done_lately.insert(pages.start..last);
    }

    /// Whether it is an output that was not handed over yet.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self.output, Output::Grows(_) | Output::Finished { .. })
    }

    /// The output is finished: all of it may be dropped at once. It has a second for that.
    pub fn finish(&mut self, worker: u32, look: u64) {
        self.last_look = look;
        self.output = Output::Finished { worker, tries: 0 };
        // Pages that a compaction brings in from now on are read, or are of another file with this number.
        self.is_input = true;
        self.try_again();
    }

    /// Of what was not dropped: the filesystem held it for a moment, or a reader's page keeps it.
    pub fn put_off(&mut self, pages: Range<u64>) {
        self.done.remove(pages);
    }

    /// All of the output may be dropped.
    pub fn try_again(&mut self) {
        self.done.insert(0..self.written_end);
    }

    /// Counts a try to drop a finished output. Returns whether its hot pages may be warmed: the others have gone, or will
    /// not go. `is_written`: all of it is on the device.
    #[must_use]
    pub fn try_to_finish(&mut self, is_written: bool, look: u64) -> bool {
        if let Output::Finished { tries, .. } = &mut self.output
            && is_written
        {
            *tries += 1;
            if *tries >= TRIES_MAX {
                return true;
            }
        }
        self.brought.is_empty() || (is_written && self.rests(look)) || self.is_abandoned(look)
    }

    /// Whether no compaction has touched the file for a second.
    #[must_use]
    pub fn rests(&self, look: u64) -> bool {
        look.saturating_sub(self.last_look) >= REST_LOOKS
    }

    /// Whether it has rested for so long that pages which could not be dropped shall stay: a second after all of them
    /// were named. A folio goes only if all of it is named, and one try may find it in use.
    #[must_use]
    pub fn shall_be_left(&self, look: u64) -> bool {
        look.saturating_sub(self.last_look) > ABANDONED_LOOKS + REST_LOOKS
    }

    /// Takes the turn of this look, if it has one. An output has each. A file whose pages were read: once a second while it
    /// rests.
    #[must_use]
    pub fn take_turn(&mut self, look: u64) -> bool {
        if self.is_awaited() || !self.rests(look) {
            return true;
        }
        self.turns.take_turn(look)
    }

    /// Whether a look may find something to do: pages to drop, to release, or an output to finish.
    #[must_use]
    pub fn has_to_do(&self, look: u64) -> bool {
        self.is_awaited() || self.rests(look) || self.brought.has_any_of(&self.done)
    }

    /// Whether no compaction will come back to it.
    pub(crate) fn is_abandoned(&self, look: u64) -> bool {
        look.saturating_sub(self.last_look) > ABANDONED_LOOKS
    }

    /// These pages were tried, and stayed. They are tried again once a second, or with more around them.
    pub fn note_stayed(&mut self, pages: Range<u64>, look: u64) {
        if self.stays.take_turn(look) {
            self.stayed.take();
        }
        self.stayed.insert(pages);
    }

    /// Whether all of these pages were tried within a second, and stayed.
    #[must_use]
    pub fn has_stayed(&self, pages: &Range<u64>, look: u64) -> bool {
        !self.stays.is_due(look) && self.stayed.has_all(pages)
    }

    /// The pages that may be dropped now. What was read ahead, and not read, stays for longer: a compaction of many
    /// inputs comes back to each of them after seconds.
    #[must_use]
    pub fn to_drop(&self, look: u64) -> Vec<Range<u64>> {
        if self.is_abandoned(look) {
            return self.brought.ranges();
        }
        let Some(held) = self.held.filter(|_| self.rests(look)) else {
            return self.brought.common(&self.done).ranges();
        };
        let mut done = self.done.clone();
        done.insert(held..held + 1);
        self.brought.common(&done).ranges()
    }

    /// None of them is dropped: a user's scan brought them in, or who used them is unknown.
    pub fn release_all(&mut self) {
        let left = self.brought.take().count();
        self.count_left(left);
    }

    /// The writer is done with these pages.
    pub fn mark_done(&mut self, pages: Range<u64>) {
        self.done_lately.insert(pages);
    }

    /// Its hot pages are warmed now. What could not be dropped stays: so many pages.
    pub fn hand_over(&mut self) -> u64 {
        self.output = Output::HandedOver;
        self.brought.take().count()
    }

    /// They were dropped, or shall stay: somebody else has used them.
    pub fn release(&mut self, pages: Range<u64>) {
        self.brought.remove(pages);
    }

    /// They stay, though nobody else is known to use them.
    pub fn leave(&mut self, pages: Range<u64>) {
        let left = self.brought.remove(pages);
        self.count_left(left);
    }

    /// Of an output the caller knows.
    fn count_left(&mut self, pages: u64) {
        if !self.is_awaited() {
            self.left_pages += pages;
        }
    }

    /// How many pages that were read stay, since this was asked last.
    pub(crate) fn take_left(&mut self) -> u64 {
        std::mem::take(&mut self.left_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stayed_is_tried_again_after_a_second_or_with_more_around_it() {
        let mut pages = FileState::default();
        let look = 3 * REST_LOOKS;
        pages.note_stayed(4..8, look);
        assert!(pages.has_stayed(&(4..8), look) && pages.has_stayed(&(5..6), look + 1));
        assert!(!pages.has_stayed(&(4..9), look));
        assert!(!pages.has_stayed(&(4..8), look + REST_LOOKS));
        pages.note_stayed(20..21, look + REST_LOOKS);
        assert!(!pages.has_stayed(&(4..8), look + REST_LOOKS));
    }
}
