//! Which pages go: a hand over the tables, and the cold ranges of each.

use super::PAGE_BYTES;
use crate::heat::{GROUP_BYTES, Heat, TOUCH};
use std::ops::Range;

/// What may go, in the order in which it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Tables of which nothing has heat: the foreground does not read them.
    #[default]
    Untouched,
    /// Ranges without heat in other tables.
    Cold,
    /// Ranges that were read, but neither in this epoch nor in the last one.
    Faded,
}

impl Level {
    /// The most heat that a page may have to go with this level.
    pub fn heat_max(self) -> u8 {
        match self {
            Level::Untouched | Level::Cold => 0,
            // One read in the last epoch has left half of itself.
            Level::Faded => TOUCH / 2 - 1,
        }
    }
}

/// The next place to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of the table, below the number that the hand was made for.
    pub slot: usize,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What may go there.
    pub level: Level,
}

/// A clock hand over tables and their ranges: where it stopped it goes on, and what it has passed
/// comes last. One turn for each level, again while there is something to be had.
#[derive(Debug)]
pub struct Hand {
    slots: usize,
    place: Place,
    /// Slots before the turn is over.
    left: usize,
    has_found: bool,
}

impl Hand {
    /// A hand over so many slots, at least one.
    pub fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        Self {
            slots,
            place: Place {
                slot: 0,
                offset: 0,
                level: Level::Untouched,
            },
            left: slots,
            has_found: false,
        }
    }

    /// Begins with the first level again, where it stands.
    pub fn begin(&mut self) {
        self.begin_turn(Level::Untouched);
    }

    fn begin_turn(&mut self, level: Level) {
        self.place.level = level;
        self.left = self.slots;
        self.has_found = false;
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Something was dropped there.
    pub fn note_found(&mut self) {
        self.has_found = true;
    }

    /// Goes on within the table.
    pub fn advance(&mut self, length_bytes: u64) {
        self.place.offset = self.place.offset.saturating_add(length_bytes);
    }

    /// Goes on to the next table; `next` says which slot, from a given one on, has one. Whether
    /// there is anything left to look at: if not, all levels have had a turn in vain.
    pub fn next_table(&mut self, next: impl Fn(usize) -> Option<usize>) -> bool {
        let from = self.place.slot + 1;
        let (slot, passed) = match next(from).filter(|slot| *slot < self.slots) {
            Some(slot) => (slot, slot.saturating_sub(self.place.slot).max(1)),
            // Around: the first table of all, which may be this one.
            None => {
                let slot = next(0).filter(|slot| *slot < self.slots).unwrap_or(0);
                (slot, self.slots - self.place.slot + slot)
            }
        };
        self.place.slot = slot;
        self.place.offset = 0;
        self.left = self.left.saturating_sub(passed);
        if self.left > 0 {
            return true;
        }
        match (self.has_found, self.place.level) {
            (true, level) => self.begin_turn(level),
            (false, Level::Untouched) => self.begin_turn(Level::Cold),
            (false, Level::Cold) => self.begin_turn(Level::Faded),
            (false, Level::Faded) => {
                self.begin();
                return false;
            }
        }
        true
    }
}

/// So much of a file is looked at at once, in bytes: 3.5 MiB.
pub const SPAN_BYTES: u64 = 16 * GROUP_BYTES;
/// And so much before it once more, in bytes: a large folio that reaches over the end of a span goes
/// only with both its sides. None is larger than 2 MiB on most filesystems.
pub const OVERLAP_BYTES: u64 = 10 * GROUP_BYTES;
/// The longest run of [`cold_runs`], in bytes.
pub const RUN_BYTES: u64 = SPAN_BYTES + OVERLAP_BYTES;

/// Calls `visit` for the runs of ranges within `span` of a file in which no page has more heat than
/// `heat_max`, but for those that `is_needed`. Runs begin and end with groups of heat, as far as the
/// span does; one that comes behind a hot page leaves its first page alone: a read is counted in
/// the page where it begins, and may have ended in the next one.
pub fn cold_runs(
    heat: &Heat<'_>,
    file: u64,
    span: Range<u64>,
    heat_max: u8,
    now: u16,
    is_needed: impl Fn(&Range<u64>) -> bool,
    mut visit: impl FnMut(Range<u64>),
) {
    let mut run: Option<Range<u64>> = None;
    let mut offset = span.start;
    while offset < span.end {
        let end = (offset / GROUP_BYTES + 1) * GROUP_BYTES;
        let group = offset..end.min(span.end);
        offset = group.end;
        let is_cold = heat.hottest(file, group.start, now) <= heat_max && !is_needed(&group);
        run = match run {
            Some(run) if is_cold && run.end - run.start + GROUP_BYTES <= RUN_BYTES => {
                Some(run.start..group.end)
            }
            before => {
                if let Some(run) = before {
                    visit(run);
                }
                is_cold.then(|| {
                    let follows_heat =
                        group.start > 0 && heat.of(file, group.start - 1, now) > heat_max;
                    let start = group.start + if follows_heat { PAGE_BYTES } else { 0 };
                    start.min(group.end)..group.end
                })
            }
        };
    }
    if let Some(run) = run {
        visit(run);
    }
}
