//! Heat: how often the foreground lately read each page of each SSTable. It fades.
//!
//! It is a hash map of groups. A group is one cache line. It has a hash of file and range, the epoch of its
//! last use, and a byte for each of 56 consecutive pages (224 KiB of a file). A GiB of SSTables that is read needs
//! 292 KiB (0.028 %). The memory is fixed: the group with the longest rest makes room for a new one.
//!
//! Groups of neighbouring ranges lie in one page of memory: a page has those of 3.5 MiB of up to four places. Otherwise
//! each read would touch a page of its own. The processor would have to find out where that is: this costs a read more
//! than all else here.
//!
//! There is no lock. Two threads that count in one group at the same moment may lose a count. A thread
//! that counts while its group is given to other pages may count for those. Heat is an estimate, and only
//! estimates are derived from it.
//!
//! Time is measured in pages that are read, not in seconds ([`Epochs`]). An epoch has as many pages as the
//! memory, and heat halves with each epoch. So a page stays hot about as long as the page cache's own lists
//! would keep it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page, the unit of heat.
const PAGE_BYTES: u64 = 4096;
/// Longer reads count for their first pages only: the requested length may be far beyond the file.
const READ_BYTES_MAX: u64 = 16 << 20;
/// Words of a group, which is a cache line of 64 bytes.
pub const GROUP_WORDS: usize = 8;
/// Pages of a group. Each has a byte behind the first word.
const GROUP_PAGES: u64 = (GROUP_WORDS as u64 - 1) * 8;
/// Bytes of a file that share a group: 224 KiB, from a multiple of it on.
pub const GROUP_BYTES: u64 = GROUP_PAGES * PAGE_BYTES;
/// Groups of as many neighbouring ranges lie side by side: 1 KiB, for 3.5 MiB of a file.
const NEIGHBOURS: usize = 16;
/// Groups that may hold one range. They are in one page of memory.
const WAYS: usize = 4;
/// Groups of a page of memory.
const PAGE_GROUPS: usize = WAYS * NEIGHBOURS;

/// The heat of one read. It halves four times before nothing is left.
pub const TOUCH: u8 = 16;
/// The largest heat: fifteen reads in one epoch.
const HEAT_MAX: u8 = 0xFE;
/// The mark of a page that was warmed and not read since.
const WARMED: u8 = 1;

/// Counts the pages that were read, and so the epochs. All-zero memory is a new one.
///
/// It has a cache line of its own: all threads write to it, and what lies beside it is loaded at each read.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Epochs {
    pages: AtomicU64,
}

impl Epochs {
    /// Records that pages were read. One call should stand for many reads: threads share the counter.
    pub fn record_pages(&self, pages: u64) {
        self.pages.fetch_add(pages, Ordering::Relaxed);
    }

    /// The number of pages that were read.
    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// The present epoch, where each has `pages` pages.
    pub fn now(&self, pages: u64) -> u16 {
        (self.pages.load(Ordering::Relaxed) / pages.max(1)) as u16
    }
}

/// The effect of a read on the heat of its pages. Of several pages, the last variant of this list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touched {
    /// The heat was counted.
    Plain,
    /// Hot pages of this epoch made room for it. A few always do, by chance. Many do where the memory is too
    /// small for what is read.
    Displaced,
    /// The page was warmed, and this is its first read since.
    FirstSinceWarmed,
}

/// The reason why [`Heat::set`] sets the heat of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The page was warmed. Its next read is reported as [`Touched::FirstSinceWarmed`].
    Warmed,
    /// The page is expected to be hot, but was not warmed.
    Estimated,
}

/// The heat of all files, in memory of the caller. All-zero memory is an empty one. Any number of threads
/// may use it at once.
#[derive(Clone, Copy, Debug)]
pub struct Heat<'m> {
    words: &'m [AtomicU64],
    groups: usize,
}

/// A caller that goes over many groups may use an epoch that is this old.
const EPOCHS_LATE_MAX: u16 = 1024;

/// The bits of a hash that distinguish groups of one place.
const TAG_MASK: u64 = (1 << 48) - 1;

/// The first word of a group: a hash of file and range in the upper 48 bits, the last epoch in the lower
/// 16.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Head(u64);

impl Head {
    fn new(tag: u64, epoch: u16) -> Self {
        Self(tag << 16 | u64::from(epoch))
    }

    fn tag(self) -> u64 {
        self.0 >> 16
    }

    /// Epochs since the last use; 0 if that was later than `now`.
    fn age(self, now: u16) -> u16 {
        let age = now.wrapping_sub(self.0 as u16);
        if age > u16::MAX - EPOCHS_LATE_MAX {
            0
        } else {
            age
        }
    }
}

impl<'m> Heat<'m> {
    /// The largest power of two of groups that fits `words`; `None` for less than 64 groups, which are 4 KiB. `words`
    /// should begin at a page of memory.
    pub fn new(words: &'m [AtomicU64]) -> Option<Self> {
        let groups = words.len() / GROUP_WORDS;
        let groups = (groups + 1).next_power_of_two() / 2;
        (groups >= PAGE_GROUPS).then_some(Self { words, groups })
    }

    /// Counts a read of the foreground: `length_bytes` from `offset` of `file`, a number that no other file
    /// has.
    ///
    /// It counts for the page in which it begins, and for the pages that it covers wholly. A block that
    /// ends inside a page does not make the next block hot, which begins there.
    #[inline]
    pub fn touch(&self, file: u64, offset: u64, length_bytes: u64, now: u16) -> Touched {
        self.touch_by(TOUCH, file, offset, length_bytes, now)
    }

    /// Counts a read of a scan, with half the heat of [`Self::touch`]. A page that is scanned once is not
    /// hot, as it is not in use for the page cache. A page that is scanned twice is.
    #[inline]
    pub fn pass(&self, file: u64, offset: u64, length_bytes: u64, now: u16) -> Touched {
        self.touch_by(TOUCH / 2, file, offset, length_bytes, now)
    }

    /// The engine has these bytes in a cache of its own: it reads them more often than its reads of the file tell.
    /// They get the heat of two reads.
    pub fn raise(&self, file: u64, offset: u64, length_bytes: u64, now: u16) {
        self.touch_by(2 * TOUCH, file, offset, length_bytes, now);
    }

    #[inline]
    fn touch_by(&self, heat: u8, file: u64, offset: u64, length_bytes: u64, now: u16) -> Touched {
        let first = offset / PAGE_BYTES;
        let end = offset.saturating_add(length_bytes.min(READ_BYTES_MAX));
        let behind = (end / PAGE_BYTES).max(first + 1);
        if behind == first + 1 {
            return self.touch_page(heat, file, first, now);
        }
        let mut touched = Touched::Plain;
        for page in first..behind {
            touched = touched.max(self.touch_page(heat, file, page, now));
        }
        touched
    }

    #[inline]
    fn touch_page(&self, by: u8, file: u64, page: u64, now: u16) -> Touched {
        let (tag, first) = self.locate(file, page / GROUP_PAGES);
        let (group, displaces) = match self.find(tag, first) {
            Some(group) => (group, false),
            None => self.claim(tag, first, now),
        };
        self.refresh(group, tag, now);
        let Some((word, shift)) = self.byte(group, page) else {
            return Touched::Plain;
        };
        let before = word.load(Ordering::Relaxed);
        let byte = (before >> shift) as u8;
        let heat = (byte & HEAT_MAX).saturating_add(by) & HEAT_MAX;
        let after = with_byte(before, shift, heat);
        // No store without a change: the cache line of a hot range stays shared by the processors.
        if after != before {
            word.store(after, Ordering::Relaxed);
        }
        if byte & WARMED != 0 {
            Touched::FirstSinceWarmed
        } else if displaces {
            Touched::Displaced
        } else {
            Touched::Plain
        }
    }

    /// The cache line that most likely has the heat at `offset`: to fetch before it is needed.
    #[inline]
    pub fn group_of(&self, file: u64, offset: u64) -> Option<&'m AtomicU64> {
        let (_, first) = self.locate(file, offset / GROUP_BYTES);
        self.words.get(first * GROUP_WORDS)
    }

    /// The heat of the page at `offset`; 0 is cold.
    pub fn of(&self, file: u64, offset: u64, now: u16) -> u8 {
        self.byte_of(file, offset, now) & HEAT_MAX
    }

    /// Heat and mark of the page at `offset`.
    fn byte_of(&self, file: u64, offset: u64, now: u16) -> u8 {
        let page = offset / PAGE_BYTES;
        let (tag, first) = self.locate(file, page / GROUP_PAGES);
        let Some(group) = self.find(tag, first) else {
            return 0;
        };
        let age = self.head(group).age(now);
        self.byte(group, page).map_or(0, |(word, shift)| {
            (faded(word.load(Ordering::Relaxed), age) >> shift) as u8
        })
    }

    /// The heat of the page at `offset` if the page is hot, else 0.
    ///
    /// It is hot if it has the heat of one read. A page that was warmed, and not read since, is hot as long as
    /// any heat is left: its heat may be a small share of a hot page's.
    pub fn of_hot(&self, file: u64, offset: u64, now: u16) -> u8 {
        let byte = self.byte_of(file, offset, now);
        if is_hot(byte) { byte & HEAT_MAX } else { 0 }
    }

    /// Whether any page of the first `length_bytes` of `file` is [hot](Self::of_hot).
    pub fn any_hot(&self, file: u64, length_bytes: u64, now: u16) -> bool {
        let groups = length_bytes.div_ceil(PAGE_BYTES).div_ceil(GROUP_PAGES);
        (0..groups).any(|number| {
            let (tag, first) = self.locate(file, number);
            self.find(tag, first).is_some_and(|group| {
                let age = self.head(group).age(now);
                self.bytes(group)
                    .flat_map(|word| faded(word.load(Ordering::Relaxed), age).to_ne_bytes())
                    .any(is_hot)
            })
        })
    }

    /// The heat of the hottest page of the group at `offset`; 0 is a cold group.
    pub fn hottest(&self, file: u64, offset: u64, now: u16) -> u8 {
        let (tag, first) = self.locate(file, offset / GROUP_BYTES);
        let Some(group) = self.find(tag, first) else {
            return 0;
        };
        let age = self.head(group).age(now);
        let words = self.bytes(group);
        let hottest = words.map(|word| {
            let bytes = faded(word.load(Ordering::Relaxed), age).to_ne_bytes();
            let heats = bytes.into_iter().map(|byte| byte & HEAT_MAX);
            heats.max().unwrap_or(0)
        });
        hottest.max().unwrap_or(0)
    }

    /// Sets the heat of the page at `offset`, and whether it was warmed just now.
    pub fn set(&self, file: u64, offset: u64, heat: u8, origin: Origin, now: u16) {
        let page = offset / PAGE_BYTES;
        let (tag, first) = self.locate(file, page / GROUP_PAGES);
        let group = match self.find(tag, first) {
            Some(group) => group,
            None => self.claim(tag, first, now).0,
        };
        self.refresh(group, tag, now);
        if let Some((word, shift)) = self.byte(group, page) {
            let mark = match origin {
                Origin::Warmed => WARMED,
                Origin::Estimated => 0,
            };
            let byte = heat & HEAT_MAX | mark;
            let before = word.load(Ordering::Relaxed);
            word.store(with_byte(before, shift, byte), Ordering::Relaxed);
        }
    }

    /// Gives a page without heat a guess. It takes no room from what was counted in this epoch. Returns whether it did.
    pub fn guess(&self, file: u64, offset: u64, heat: u8, now: u16) -> bool {
        let (tag, first) = self.locate(file, offset / GROUP_BYTES);
        let has_room = |group: usize| {
            let head = self.head(group);
            head.tag() == tag || head.tag() == 0 || head.age(now) > 0
        };
        let is_free = self.of(file, offset, now) == 0 && ways(first).any(has_room);
        if is_free {
            self.set(file, offset, heat, Origin::Estimated, now);
        }
        is_free
    }

    /// The page at `offset` of a mapped file was seen in the page cache, or was seen to be absent.
    ///
    /// Its reads are not seen. What is there for two looks in a row is hot, as what is scanned twice. A
    /// compaction reads each page once, and its inputs are soon deleted. What the page cache gave up is cold.
    pub fn see(&self, file: u64, offset: u64, is_resident: bool, now: u16) {
        let before = self.of(file, offset, now);
        if is_resident {
            let heat = before.saturating_add(TOUCH / 2).min(HEAT_MAX);
            if heat != before {
                self.set(file, offset, heat, Origin::Estimated, now);
            }
        } else if before > 0 {
            self.set(file, offset, 0, Origin::Estimated, now);
        }
    }

    /// Forgets the heat of these bytes of `file`: they have other content now.
    pub fn forget(&self, file: u64, bytes: Range<u64>) {
        let pages = bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES);
        let mut page = pages.start;
        while page < pages.end {
            let number = page / GROUP_PAGES;
            let next = ((number + 1) * GROUP_PAGES).min(pages.end);
            let (tag, first) = self.locate(file, number);
            if let Some(group) = self.find(tag, first) {
                for page in page..next {
                    if let Some((word, shift)) = self.byte(group, page) {
                        let before = word.load(Ordering::Relaxed);
                        word.store(with_byte(before, shift, 0), Ordering::Relaxed);
                    }
                }
            }
            page = next;
        }
    }

    /// The tag of a group, never 0, and the first group that may hold it.
    #[inline]
    fn locate(&self, file: u64, number: u64) -> (u64, usize) {
        let neighbours = number / NEIGHBOURS as u64;
        let mixed = file ^ neighbours.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = mixed.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        // The upper bits of a product depend on all bits of its factors.
        let page = (hash >> 32) as usize & (self.groups / PAGE_GROUPS - 1);
        let first = page * PAGE_GROUPS + number as usize % NEIGHBOURS;
        ((hash & TAG_MASK).max(1), first)
    }

    #[inline]
    fn head_word(&self, group: usize) -> Option<&AtomicU64> {
        self.words.get(group * GROUP_WORDS)
    }

    #[inline]
    fn head(&self, group: usize) -> Head {
        Head(
            self.head_word(group)
                .map_or(0, |word| word.load(Ordering::Relaxed)),
        )
    }

    #[inline]
    fn find(&self, tag: u64, first: usize) -> Option<usize> {
        ways(first).find(|&group| self.head(group).tag() == tag)
    }

    fn bytes(&self, group: usize) -> impl Iterator<Item = &AtomicU64> {
        let words = self
            .words
            .get(group * GROUP_WORDS + 1..(group + 1) * GROUP_WORDS);
        words.unwrap_or_default().iter()
    }

    /// The word with a page's byte, and the shift of the byte in it.
    #[inline]
    fn byte(&self, group: usize, page: u64) -> Option<(&AtomicU64, u32)> {
        let inside = (page % GROUP_PAGES) as usize;
        let word = self.words.get(group * GROUP_WORDS + 1 + inside / 8)?;
        Some((word, (inside % 8) as u32 * 8))
    }

    /// Gives the group with the longest rest to a new range. Also says whether that group was hot in this
    /// epoch.
    #[cold]
    fn claim(&self, tag: u64, first: usize, now: u16) -> (usize, bool) {
        let rested = |group: &usize| {
            let head = self.head(*group);
            // An empty group goes before all others.
            (head.tag() == 0, head.age(now))
        };
        let group = ways(first).max_by_key(rested).unwrap_or(first);
        let is_hot = |word: &AtomicU64| has_heat(word.load(Ordering::Relaxed), TOUCH);
        let displaced = rested(&group) == (false, 0) && self.bytes(group).any(is_hot);
        if let Some(head) = self.head_word(group) {
            for word in self.bytes(group) {
                word.store(0, Ordering::Relaxed);
            }
            head.store(Head::new(tag, now).0, Ordering::Relaxed);
        }
        (group, displaced)
    }

    /// Fades the heat of a group to the present epoch.
    #[inline]
    fn refresh(&self, group: usize, tag: u64, now: u16) {
        let head = self.head(group);
        let age = head.age(now);
        if age != 0 {
            self.fade(group, head, tag, now);
        }
    }

    #[cold]
    fn fade(&self, group: usize, head: Head, tag: u64, now: u16) {
        let Some(word) = self.head_word(group) else {
            return;
        };
        let fresh = Head::new(tag, now);
        // Only the thread that wins fades it.
        let won = word.compare_exchange(head.0, fresh.0, Ordering::Relaxed, Ordering::Relaxed);
        if won.is_ok() {
            for word in self.bytes(group) {
                let before = word.load(Ordering::Relaxed);
                word.store(faded(before, head.age(now)), Ordering::Relaxed);
            }
        }
    }
}

/// The groups that may hold a range, by the first one.
#[inline]
fn ways(first: usize) -> impl Iterator<Item = usize> {
    (first..first + PAGE_GROUPS).step_by(NEIGHBOURS)
}

/// The bytes of eight pages after some epochs. Heat is halved in each epoch; marks stay.
fn faded(word: u64, epochs: u16) -> u64 {
    const MARKS: u64 = 0x0101_0101_0101_0101;
    const HALVED: u64 = 0x7E7E_7E7E_7E7E_7E7E;
    let mut word = word;
    for _ in 0..epochs.min(8) {
        word = word >> 1 & HALVED | word & MARKS;
    }
    word
}

/// Whether a page with this heat and mark is hot.
fn is_hot(byte: u8) -> bool {
    let heat = byte & HEAT_MAX;
    heat >= TOUCH || byte & WARMED != 0 && heat > 0
}

/// Whether any of eight pages has at least the heat `least`.
fn has_heat(word: u64, least: u8) -> bool {
    let bytes = word.to_ne_bytes();
    bytes.iter().any(|byte| byte & HEAT_MAX >= least)
}

fn with_byte(word: u64, shift: u32, byte: u8) -> u64 {
    word & !(0xFF << shift) | u64::from(byte) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn memory(groups: usize) -> Vec<AtomicU64> {
        (0..groups * GROUP_WORDS)
            .map(|_| AtomicU64::new(0))
            .collect()
    }

    #[test]
    fn a_mapped_page_is_hot_once_it_was_seen_twice_and_cold_once_it_is_gone() {
        let memory = memory(64);
        let heat = Heat::new(&memory).unwrap();
        heat.see(7, 4096, true, 0);
        assert_eq!(heat.of_hot(7, 4096, 0), 0);
        heat.see(7, 4096, true, 0);
        assert!(heat.of_hot(7, 4096, 0) > 0);
        for _ in 0..100 {
            heat.see(7, 4096, true, 0);
        }
        assert_eq!(heat.of(7, 4096, 0), HEAT_MAX);
        heat.see(7, 4096, false, 0);
        assert_eq!(heat.of(7, 4096, 0), 0);
    }

    #[test]
    fn what_is_passed_twice_is_as_hot_as_what_is_touched_once() {
        let memory = memory(64);
        let heat = Heat::new(&memory).unwrap();
        heat.pass(1, 0, 2 * PAGE_BYTES, 0);
        assert!(heat.of(1, PAGE_BYTES, 0) < TOUCH && !heat.any_hot(1, 1 << 20, 0));
        heat.pass(1, 0, 2 * PAGE_BYTES, 0);
        assert_eq!(heat.of(1, PAGE_BYTES, 0), TOUCH);
    }

    #[test]
    fn a_read_heats_the_page_it_begins_in_and_those_it_covers() {
        let memory = memory(64);
        let heat = Heat::new(&memory).unwrap();
        heat.touch(7, 4096 + 100, 4101, 0);
        assert_eq!(
            [0, 1, 2].map(|page| heat.of(7, page * 4096, 0)),
            [0, TOUCH, 0]
        );
        heat.touch(7, 3 * 4096, 3 * 4096 + 1, 0);
        let pages = [2, 3, 4, 5, 6].map(|page| heat.of(7, page * 4096, 0));
        assert_eq!(pages, [0, TOUCH, TOUCH, TOUCH, 0]);
        assert_eq!(heat.of(8, 4096, 0), 0, "another file");
        heat.touch(7, u64::MAX - 10, 100, 0);
    }

    #[test]
    fn a_read_without_an_end_ends() {
        let memory = memory(64);
        let heat = Heat::new(&memory).unwrap();
        heat.touch(7, 0, u64::MAX, 0);
        assert_eq!(heat.of(7, READ_BYTES_MAX - 4096, 0), TOUCH);
        assert_eq!(heat.of(7, READ_BYTES_MAX, 0), 0);
    }

    #[test]
    fn heat_halves_with_each_epoch_and_has_a_top() {
        let memory = memory(64);
        let heat = Heat::new(&memory).unwrap();
        for _ in 0..100 {
            heat.touch(1, 0, 1, 65_535);
        }
        assert_eq!(heat.of(1, 0, 65_535), HEAT_MAX);
        assert_eq!(heat.of(1, 0, 0), (HEAT_MAX / 2) & HEAT_MAX, "epochs wrap");
        heat.touch(1, 4096, 1, 1);
        assert_eq!(heat.of(1, 0, 1), 62);
        assert_eq!(heat.of(1, 4096, 1), TOUCH);
        assert_eq!(heat.of(1, 0, 9), 0);
        assert!(heat.any_hot(1, 8192, 1) && !heat.any_hot(1, 8192, 4));
        assert_eq!(heat.of(1, 4096, 0), TOUCH, "used after it was asked");
        assert_eq!(heat.hottest(1, GROUP_BYTES - 1, 1), 62);
        assert_eq!(heat.hottest(1, GROUP_BYTES, 1), 0);
    }

    #[test]
    fn the_first_read_since_a_page_was_warmed_is_told() {
        let memory = memory(64);
        let heat = Heat::new(&memory).unwrap();
        heat.set(1, 8192, 40, Origin::Warmed, 3);
        assert_eq!(heat.of(1, 8192, 5), 10);
        assert_eq!(heat.touch(1, 8192, 1, 5), Touched::FirstSinceWarmed);
        assert_eq!(heat.touch(1, 8192, 1, 5), Touched::Plain);
        assert_eq!(heat.of(1, 8192, 5), 10 + 2 * TOUCH);
        heat.forget(1, 8192..8193);
        assert_eq!(heat.of(1, 8192, 5), 0);
    }

    #[test]
    fn what_was_warmed_is_hot_until_its_heat_has_faded() {
        let memory = memory(64);
        let heat = Heat::new(&memory).unwrap();
        heat.set(1, 0, 4, Origin::Warmed, 0);
        heat.set(1, 4096, 14, Origin::Estimated, 0);
        assert_eq!([0, 4096].map(|offset| heat.of_hot(1, offset, 0)), [4, 0]);
        assert_eq!([0, 1, 2].map(|now| heat.of_hot(1, 0, now)), [4, 2, 0]);
        assert_eq!(
            [0, 1, 2].map(|now| heat.any_hot(1, 8192, now)),
            [true, true, false]
        );
        heat.touch(1, 0, 1, 0);
        assert_eq!(
            [0, 1].map(|now| heat.of_hot(1, 0, now)),
            [4 + TOUCH, 0],
            "as any page"
        );
    }

    #[test]
    fn no_memory_is_no_sketch() {
        let words = memory(63);
        assert!(Heat::new(&words).is_none());
        assert_eq!(Heat::new(&memory(127)).unwrap().groups, 64);
    }

    #[test]
    fn a_full_table_keeps_what_was_used_last() {
        let memory = memory(64);
        let heat = Heat::new(&memory).unwrap();
        for number in 0..1000 {
            heat.touch(1, number * GROUP_PAGES * PAGE_BYTES, 1, 0);
        }
        heat.touch(2, 0, 1, 1);
        for number in 0..1000 {
            heat.touch(3, number * GROUP_PAGES * PAGE_BYTES, 1, 1);
            heat.touch(2, 0, 1, 1);
        }
        assert!(heat.of(2, 0, 1) >= TOUCH);
    }

    #[test]
    fn heat_that_makes_room_is_told_of_unless_it_is_old() {
        let memory = memory(PAGE_GROUPS);
        let heat = Heat::new(&memory).unwrap();
        let touch = |file, now| heat.touch(file, 0, 1, now);
        for file in 0..WAYS as u64 {
            assert_eq!(touch(file, 1), Touched::Plain);
        }
        assert_eq!(touch(9, 1), Touched::Displaced);
        assert_eq!(touch(9, 1), Touched::Plain);
        assert_eq!(touch(10, 2), Touched::Plain, "the others have rested");
        for file in 11..10 + WAYS as u64 {
            heat.touch(file, 0, 1, 2);
        }
        let last = GROUP_BYTES - PAGE_BYTES;
        heat.set(10, last, TOUCH, Origin::Warmed, 2);
        let both = heat.touch(10, last, 2 * PAGE_BYTES, 2);
        assert_eq!(both, Touched::FirstSinceWarmed);
    }

    #[test]
    fn threads_lose_next_to_nothing() {
        let memory = memory(1024);
        let heat = Heat::new(&memory).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for page in 0..4000 {
                        heat.touch(thread, page * PAGE_BYTES, 1, 0);
                    }
                });
            }
        });
        let counted = (0..4)
            .flat_map(|thread| (0..4000).map(move |page| (thread, page)))
            .filter(|(thread, page)| heat.of(*thread, page * PAGE_BYTES, 0) > 0)
            .count();
        assert!(counted > 15_900, "{counted} of 16,000");
    }

    proptest! {
        /// With room enough it is exact.
        #[test]
        fn as_a_model_that_counts(
            operations in proptest::collection::vec((0_u64..3, 0_u64..300, 0_u8..8), 1..400),
        ) {
            let memory = memory(512);
            let heat = Heat::new(&memory).unwrap();
            let mut model: HashMap<(u64, u64), u8> = HashMap::new();
            let mut now = 0_u16;
            for (file, page, action) in operations {
                match action {
                    0 => {
                        now += 1;
                        for heat in model.values_mut() {
                            *heat = (*heat / 2) & HEAT_MAX;
                        }
                    }
                    1 => {
                        heat.forget(file, page * PAGE_BYTES..(page + 70) * PAGE_BYTES);
                        model.retain(|(of, at), _| *of != file || !(page..page + 70).contains(at));
                    }
                    2 => {
                        heat.set(file, page * PAGE_BYTES, 99, Origin::Estimated, now);
                        model.insert((file, page), 98);
                    }
                    _ => {
                        heat.touch(file, page * PAGE_BYTES + 5, 4096, now);
                        let known = model.entry((file, page)).or_default();
                        *known = known.saturating_add(TOUCH) & HEAT_MAX;
                    }
                }
            }
            for file in 0..3 {
                for page in 0..400 {
                    let known = model.get(&(file, page)).copied().unwrap_or(0);
                    prop_assert_eq!(heat.of(file, page * PAGE_BYTES, now), known);
                }
            }
        }
    }

    #[test]
    fn a_guess_takes_no_room_from_what_was_counted() {
        // One page of memory: as many groups may hold the beginning of a file.
        let memory = memory(PAGE_GROUPS);
        let heat = Heat::new(&memory).unwrap();
        for file in 1..=WAYS as u64 {
            heat.touch(file, 0, PAGE_BYTES, 0);
        }
        assert!(!heat.guess(9, 0, TOUCH, 0));
        assert!(!heat.guess(1, 0, TOUCH, 0), "it has heat");
        assert!(heat.guess(1, PAGE_BYTES, TOUCH, 0));
        assert!(heat.guess(9, 0, TOUCH, 1));
        assert_eq!(heat.of_hot(9, 0, 1), TOUCH);
    }
}
