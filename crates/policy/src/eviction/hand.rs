//! Which pages are dropped: a clock hand over the tracked files, and the cold ranges of each.

use super::PAGE_BYTES;
use crate::heat::{GROUP_BYTES, Heat, TOUCH};
use std::ops::Range;

/// What may be dropped, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// SSTables without any heat: the foreground does not read them.
    #[default]
    Untouched,
    /// Ranges without heat in other SSTables.
    Cold,
    /// Ranges that were read, but neither in this epoch nor in the last one.
    Faded,
}

impl Level {
    /// The most heat of a page that is dropped at this level.
    pub fn heat_max(self) -> u8 {
        match self {
            Level::Untouched | Level::Cold => 0,
            // One read in the last epoch has left half of its heat.
            Level::Faded => TOUCH / 2 - 1,
        }
    }
}

/// The next extent of a file to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The slot of the file, below the number of [`Hand::new`].
    pub slot: usize,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// What may be dropped there.
    pub level: Level,
}

/// A clock hand over files and their extents. It goes on where it stopped, so that what it passed comes
/// last. It makes one turn for each level, and another one while a turn finds something.
#[derive(Debug)]
pub struct Hand {
    slots: usize,
    extent: Extent,
    /// Slots before the turn is over.
    left: usize,
    has_found: bool,
}

impl Hand {
    /// A hand over `slots` slots, at least one.
    pub fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        Self {
            slots,
            extent: Extent {
                slot: 0,
                offset: 0,
                level: Level::Untouched,
            },
            left: slots,
            has_found: false,
        }
    }

    /// Begins with the first level again, at the present slot.
    pub fn begin(&mut self) {
        self.begin_turn(Level::Untouched);
    }

    fn begin_turn(&mut self, level: Level) {
        self.extent.level = level;
        self.left = self.slots;
        self.has_found = false;
    }

    /// The extent to look at.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Records that something was dropped there.
    pub fn record_found(&mut self) {
        self.has_found = true;
    }

    /// Goes on within the file.
    pub fn advance(&mut self, length_bytes: u64) {
        self.extent.offset = self.extent.offset.saturating_add(length_bytes);
    }

    /// Goes on to the next file. `next` finds the first slot with a file, from a given one on. Returns
    /// whether anything is left to look at: `false` if all levels had a turn in vain.
    pub fn next_file(&mut self, next: impl Fn(usize) -> Option<usize>) -> bool {
        let from = self.extent.slot + 1;
        let (slot, passed) = match next(from).filter(|slot| *slot < self.slots) {
            Some(slot) => (slot, slot.saturating_sub(self.extent.slot).max(1)),
            // The turn is over: the first file of all, which may be this one.
            None => {
                let slot = next(0).filter(|slot| *slot < self.slots).unwrap_or(0);
                (slot, self.slots - self.extent.slot + slot)
            }
        };
        self.extent.slot = slot;
        self.extent.offset = 0;
        self.left = self.left.saturating_sub(passed);
        if self.left > 0 {
            return true;
        }
        match (self.has_found, self.extent.level) {
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

/// Bytes of a file that are looked at in one step: 3.5 MiB.
pub const SPAN_BYTES: u64 = 16 * GROUP_BYTES;
/// Bytes before a step that are looked at once more. The kernel drops a large folio across the end of a
/// step only with both its parts. Folios are not larger than 2 MiB on most filesystems.
pub const OVERLAP_BYTES: u64 = 10 * GROUP_BYTES;
/// The longest run of [`cold_runs`], in bytes.
pub const RUN_BYTES: u64 = SPAN_BYTES + OVERLAP_BYTES;

/// Calls `visit` for each cold run within `span` of a file: consecutive groups in which no page has more
/// heat than `heat_max`, and that are not `is_needed`.
///
/// A run begins and ends with a group of heat, or with the span. A run behind a hot page leaves out its
/// own first page: a read counts for the page in which it begins, and may have ended in the next one.
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
