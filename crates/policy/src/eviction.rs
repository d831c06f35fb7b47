//! Eviction: when cold pages are to be dropped, how many, and which ones.
//!
//! When: before the room under a limit is used up. The limit is that of the tightest memory cgroup
//! around the process, or a node's pages, of which the kernel begins to reclaim at the `low`
//! watermark of its zones. Whoever allocates first after that pays for the reclaim; so pages that
//! nobody reads go a little earlier.
//!
//! Which: in the order of [`Level`]. Never a range that has been read in the present epoch of heat
//! or the last one.

use crate::heat::{GROUP_BYTES, Heat, TOUCH};
use crate::parse_bytes;
use std::ops::Range;

/// Bytes of a page, in which `/proc/zoneinfo` counts.
const PAGE_BYTES: u64 = 4096;
/// The least room that is kept: the kernel charges cgroups in batches of 256 KiB for each processor.
const START_BYTES_MIN: u64 = 4 << 20;
/// The most room that is kept, unless somebody asks for more: a share of a large memory would be
/// more than anybody fills in the time that it takes to look again.
const START_BYTES_MAX: u64 = 256 << 20;
/// What is about to be used up within so many milliseconds counts as used.
const AHEAD_MILLISECONDS: u64 = 60;
/// A compaction may begin at any moment, and fill so many bytes in a millisecond: 512 MiB/s.
const BURST_RATE: u64 = (512 << 20) / 1000;
/// The least time between two looks, while something is to be dropped, in milliseconds.
pub const SLEEP_MILLISECONDS_MIN: u32 = 20;
/// The longest time between two looks, in milliseconds.
pub const SLEEP_MILLISECONDS_MAX: u32 = 1000;
/// The least time between two looks for the sake of what might begin, in milliseconds: mostly
/// memory is filled up to the margin, and nothing happens.
const SLEEP_MILLISECONDS_NEAR: u32 = 50;

/// The room that is to be kept free, as it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// Of the limit in percent, from 1 to 25; not less than 4 MiB, and not more than 256 MiB.
    Percent(u8),
    /// In bytes, from 1 MiB to 64 GiB.
    Bytes(u64),
}

impl Default for Margin {
    fn default() -> Self {
        Margin::Percent(3)
    }
}

impl Margin {
    /// `3%` or `64MiB`.
    pub fn from_name(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some(number) => {
                let percent = number
                    .parse()
                    .ok()
                    .filter(|number| (1..=25).contains(number))?;
                Some(Margin::Percent(percent))
            }
            None => {
                let bytes =
                    parse_bytes(text).filter(|bytes| (1 << 20..=1 << 36).contains(bytes))?;
                Some(Margin::Bytes(bytes))
            }
        }
    }

    /// As [`Margin::from_name`] reads it.
    pub fn name(self) -> String {
        match self {
            Margin::Percent(percent) => format!("{percent}%"),
            Margin::Bytes(bytes) => bytes.to_string(),
        }
    }

    /// Below so many free bytes dropping begins, under this limit.
    fn start_bytes(self, limit_bytes: u64) -> u64 {
        match self {
            Margin::Percent(percent) => {
                (limit_bytes / 100 * u64::from(percent)).clamp(START_BYTES_MIN, START_BYTES_MAX)
            }
            Margin::Bytes(bytes) => bytes,
        }
    }
}

/// A limit, and what is left below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The limit, in bytes.
    pub limit_bytes: u64,
    /// What is still free, in bytes.
    pub free_bytes: u64,
    /// Clean pages of files, in bytes: all that could be dropped. `None` if it is not known.
    pub file_bytes: Option<u64>,
}

/// Of several rooms the one that needs most to be dropped.
pub fn tightest(rooms: impl IntoIterator<Item = Room>, margin: Margin) -> Option<Room> {
    rooms.into_iter().min_by_key(|room| {
        let start = margin.start_bytes(room.limit_bytes);
        i128::from(room.free_bytes) - i128::from(start)
    })
}

/// The clean pages of files in a cgroup, in bytes, by its `memory.stat` of either version: with
/// those of the cgroups below it.
pub fn parse_clean_file_bytes(text: &str) -> Option<u64> {
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line?.strip_prefix(' ')?.trim().parse::<u64>().ok()
    };
    // Version 1 has lines without "total_" too, which leave the cgroups below out.
    let either = |first: &str, second: &str| of(first).or_else(|| of(second));
    let cached = either("total_inactive_file", "inactive_file")?
        .checked_add(either("total_active_file", "active_file")?)?;
    let dirty = either("total_dirty", "file_dirty").unwrap_or(0);
    let written = either("total_writeback", "file_writeback").unwrap_or(0);
    Some(cached.saturating_sub(dirty).saturating_sub(written))
}

/// Reads `/proc/zoneinfo` line by line, and finds the node with the least room before its zones
/// reach their `low` watermarks, at which the kernel begins to reclaim.
#[derive(Debug, Default)]
pub struct Nodes {
    node: Option<u64>,
    file_pages: u64,
    free_above: u64,
    managed: u64,
    zone: Zone,
    rooms: Option<Room>,
}

#[derive(Debug, Default)]
struct Zone {
    free: u64,
    low: u64,
    managed: u64,
    /// What of it is not for allocations that would rather have a higher zone.
    protected: u64,
}

impl Nodes {
    /// One line of the file.
    pub fn line(&mut self, line: &str, margin: Margin) {
        if let Some(rest) = line.strip_prefix("Node ") {
            self.end_zone();
            let node = rest
                .split(',')
                .next()
                .and_then(|number| number.parse().ok());
            if node != self.node {
                self.end_node(margin);
                self.node = node;
            }
            return;
        }
        let mut words = line.split_ascii_whitespace();
        let (name, value) = match (words.next(), words.next()) {
            (Some("pages"), Some("free")) => ("free", words.next()),
            (Some("protection:"), Some(_)) => {
                let last = line
                    .trim_end()
                    .trim_end_matches(')')
                    .rsplit([' ', '('])
                    .next();
                self.zone.protected = last.and_then(|number| number.parse().ok()).unwrap_or(0);
                return;
            }
            (Some(name), value) => (name, value),
            _ => return,
        };
        let Some(value) = value.and_then(|value| value.parse::<u64>().ok()) else {
            return;
        };
        match name {
            "nr_inactive_file" | "nr_active_file" => {
                self.file_pages = self.file_pages.saturating_add(value);
            }
            "nr_dirty" | "nr_writeback" => {
                self.file_pages = self.file_pages.saturating_sub(value);
            }
            "free" => self.zone.free = value,
            "low" => self.zone.low = value,
            "managed" => self.zone.managed = value,
            _ => {}
        }
    }

    /// The node with the least room; `None` if the text was none.
    pub fn tightest(mut self, margin: Margin) -> Option<Room> {
        self.end_zone();
        self.end_node(margin);
        self.rooms
    }

    fn end_zone(&mut self) {
        let zone = std::mem::take(&mut self.zone);
        let kept = zone.low.saturating_add(zone.protected);
        self.free_above = self
            .free_above
            .saturating_add(zone.free.saturating_sub(kept));
        self.managed = self.managed.saturating_add(zone.managed);
    }

    fn end_node(&mut self, margin: Margin) {
        let bytes = |pages: u64| pages.saturating_mul(PAGE_BYTES);
        let room = Room {
            limit_bytes: bytes(std::mem::take(&mut self.managed)),
            free_bytes: bytes(std::mem::take(&mut self.free_above)),
            file_bytes: Some(bytes(std::mem::take(&mut self.file_pages))),
        };
        // A node of processors alone, or one that is full of what no file can make room for.
        let is_of_use =
            room.limit_bytes > 0 && room.file_bytes > Some(margin.start_bytes(room.limit_bytes));
        if self.node.is_some() && is_of_use {
            self.rooms = tightest(self.rooms.into_iter().chain([room]), margin);
        }
    }
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// So many bytes are to be dropped; 0 is none.
    pub drop_bytes: u64,
    /// Then the room is to be looked at again, after so many milliseconds.
    pub sleep_milliseconds: u32,
}

/// Decides, look by look: begins to drop below one margin and ends above another one, so that
/// there is something to do now and then, and not all the time.
#[derive(Debug)]
pub struct Plan {
    margin: Margin,
    is_dropping: bool,
    /// When the last look was, in milliseconds, and what it saw.
    last: Option<(u32, Room)>,
    /// How fast the room is being used up, in bytes a millisecond; falls slowly.
    rate: u64,
}

impl Plan {
    /// Before the first look.
    pub fn new(margin: Margin) -> Self {
        Self {
            margin,
            is_dropping: false,
            last: None,
            rate: 0,
        }
    }

    /// The margin that it was made with.
    pub fn margin(&self) -> Margin {
        self.margin
    }

    /// Whether dropping has begun and not ended.
    pub fn is_dropping(&self) -> bool {
        self.is_dropping
    }

    /// Decides by what is there at `now_milliseconds` of any clock (which may wrap), how much of
    /// the last ten seconds all tasks stood still for want of memory, in percent, and how many
    /// bytes have been dropped since the last look.
    pub fn look(
        &mut self,
        now_milliseconds: u32,
        room: Room,
        full_pressure: f32,
        dropped_bytes: u64,
    ) -> Decision {
        self.note_rate(now_milliseconds, &room, dropped_bytes);
        let (start, stop) = self.margins(&room, full_pressure);
        if room.free_bytes < start {
            self.is_dropping = true;
        } else if room.free_bytes >= stop {
            self.is_dropping = false;
        }
        let drop_bytes = if self.is_dropping {
            let missing = stop.saturating_sub(room.free_bytes);
            // For a margin nobody shall lose most of what is cached.
            missing.min(room.file_bytes.unwrap_or(u64::MAX) / 2)
        } else {
            0
        };
        Decision {
            drop_bytes,
            sleep_milliseconds: self.sleep_milliseconds(&room, start),
        }
    }

    /// Where dropping begins and ends, in free bytes.
    fn margins(&self, room: &Room, full_pressure: f32) -> (u64, u64) {
        let wider = match full_pressure {
            pressure if pressure >= 10.0 => 4,
            pressure if pressure >= 1.0 => 2,
            _ => 1,
        };
        let configured = self.margin.start_bytes(room.limit_bytes) * wider;
        let start = configured.max(self.rate.saturating_mul(AHEAD_MILLISECONDS));
        let start = start.min(room.limit_bytes / 8);
        (start, start * 2)
    }

    fn note_rate(&mut self, now: u32, room: &Room, dropped_bytes: u64) {
        if let Some((then, before)) = self.last
            && before.limit_bytes == room.limit_bytes
        {
            let milliseconds = u64::from(now.wrapping_sub(then)).max(1);
            let used = before
                .free_bytes
                .saturating_add(dropped_bytes)
                .saturating_sub(room.free_bytes);
            self.rate = (used / milliseconds).max(self.rate - self.rate.div_ceil(8));
        }
        self.last = Some((now, *room));
    }

    fn sleep_milliseconds(&self, room: &Room, start: u64) -> u32 {
        if self.is_dropping {
            return SLEEP_MILLISECONDS_MIN;
        }
        let left = room.free_bytes.saturating_sub(start);
        let time = |rate: u64| u32::try_from(left / rate).unwrap_or(u32::MAX);
        // Half of the time that is left at the present rate: rates change.
        let present = time(self.rate.saturating_mul(2).max(1));
        let burst = time(BURST_RATE).max(SLEEP_MILLISECONDS_NEAR);
        present
            .min(burst)
            .clamp(SLEEP_MILLISECONDS_MIN, SLEEP_MILLISECONDS_MAX)
    }
}

/// Of the processor: what is found with it decides how much may be used.
#[derive(Debug, Default)]
pub struct Budget {
    /// Nanoseconds of processor time that may be used in vain; negative if too many were.
    credit_ns: i64,
}

/// One in so many nanoseconds may be used in vain: 0.4 %.
const IN_VAIN: i64 = 256;
/// What can be saved up: enough to look over some 700 MiB of cached pages.
const CREDIT_NS_MAX: i64 = 20_000_000;
/// More than this is not owed: what takes longer was somebody else's doing, and nobody shall be
/// blind for longer than a second because of it.
const DEBT_NS_MAX: i64 = 4_000_000;
/// Dropping may use one in so many nanoseconds: a quarter of a processor.
const IN_USE: u64 = 4;
/// So many nanoseconds for a dropped page are well spent: a page costs 300 or so where all that is
/// looked at is dropped.
const PAGE_NS: u64 = 16_000;

impl Budget {
    /// So many nanoseconds have gone by.
    pub fn earn(&mut self, elapsed_ns: u64) {
        let earned = i64::try_from(elapsed_ns).unwrap_or(i64::MAX) / IN_VAIN;
        self.credit_ns = self.credit_ns.saturating_add(earned).min(CREDIT_NS_MAX);
    }

    /// Whether anything may be looked for now.
    pub fn is_left(&self) -> bool {
        self.credit_ns >= 0
    }

    /// So much processor time was used, and so much dropped with it. For how many milliseconds the
    /// thread must then sleep at least.
    pub fn spend(&mut self, processor_ns: u64, dropped_bytes: u64) -> u32 {
        let pause_ns = if dropped_bytes / PAGE_BYTES * PAGE_NS >= processor_ns {
            processor_ns.saturating_mul(IN_USE - 1)
        } else {
            let spent = i64::try_from(processor_ns).unwrap_or(i64::MAX);
            self.credit_ns = self.credit_ns.saturating_sub(spent).max(-DEBT_NS_MAX);
            let owed = u64::try_from(-self.credit_ns).unwrap_or(0);
            owed.saturating_mul(IN_VAIN.unsigned_abs())
        };
        u32::try_from(pause_ns.div_ceil(1_000_000)).unwrap_or(u32::MAX)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat::GROUP_WORDS;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;

    const MIB: u64 = 1 << 20;

    fn room(limit_mib: u64, free_bytes: u64) -> Room {
        Room {
            limit_bytes: limit_mib * MIB,
            free_bytes,
            file_bytes: None,
        }
    }

    #[test]
    fn margins_are_read_as_they_are_written() {
        for (text, margin) in [
            ("3%", Margin::Percent(3)),
            ("25%", Margin::Percent(25)),
            ("64MiB", Margin::Bytes(64 * MIB)),
            ("1048576", Margin::Bytes(MIB)),
        ] {
            assert_eq!(Margin::from_name(text), Some(margin));
            assert_eq!(Margin::from_name(&margin.name()), Some(margin));
        }
        for wrong in ["", "%", "0%", "26%", "-1%", "3 %", "1KiB", "65GiB", "x"] {
            assert_eq!(Margin::from_name(wrong), None, "{wrong}");
        }
        assert_eq!(Margin::Percent(3).start_bytes(10 * MIB), 4 * MIB);
        assert_eq!(Margin::Percent(3).start_bytes(200 * MIB), 2 * MIB * 3);
        assert_eq!(Margin::Percent(3).start_bytes(1 << 40), 256 * MIB);
    }

    #[test]
    fn memory_statistics_of_both_versions() {
        let v1 = "cache 1\ninactive_file 5\nactive_file 6\ndirty 1\ntotal_cache 99\n\
                  total_inactive_file 4000\ntotal_active_file 3000\ntotal_dirty 500\n\
                  total_writeback 100\n";
        assert_eq!(parse_clean_file_bytes(v1), Some(6400));
        let v2 = "anon 1\nfile 9000\nfile_mapped 0\nfile_dirty 1000\nfile_writeback 2000\n\
                  inactive_file 4000\nactive_file 5000\n";
        assert_eq!(parse_clean_file_bytes(v2), Some(6000));
        assert_eq!(parse_clean_file_bytes("inactive_file x\n"), None);
        assert_eq!(parse_clean_file_bytes(""), None);
    }

    const ZONES: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_file 100000
      nr_active_file 50000
      nr_dirty     1000
      nr_writeback 0
  pages free     3840
        min      18
        low      22
        high     26
        managed  3840
        protection: (0, 2978, 24080, 24080)
Node 0, zone   Normal
  pages free     90000
        low      20000
        managed  1000000
        protection: (0, 0, 0, 0)
    nr_free_pages 90000
  pagesets
    cpu: 0
              count: 7
Node 1, zone   Normal
  per-node stats
      nr_inactive_file 800000
      nr_active_file 0
  pages free     25000
        low      20000
        managed  1000000
        protection: (0, 0, 0, 0)
Node 2, zone   Normal
  per-node stats
      nr_inactive_file 0
  pages free     0
        low      0
        managed  0
Node 3, zone   Normal
  per-node stats
      nr_inactive_file 5
  pages free     20000
        low      20000
        managed  1000000
";

    fn nodes(text: &str) -> Option<Room> {
        let margin = Margin::default();
        let mut nodes = Nodes::default();
        text.lines().for_each(|line| nodes.line(line, margin));
        nodes.tightest(margin)
    }

    #[test]
    fn the_node_that_is_nearest_to_its_watermark() {
        // Node 3 is nearer, but has no pages of files that could make room.
        let expected = Room {
            limit_bytes: 1_000_000 * 4096,
            free_bytes: 5000 * 4096,
            file_bytes: Some(800_000 * 4096),
        };
        assert_eq!(nodes(ZONES), Some(expected));
        let (first, _) = ZONES.split_once("Node 1").unwrap();
        let expected = Room {
            limit_bytes: 1_003_840 * 4096,
            // What of the lower zone is kept for others does not count.
            free_bytes: 70_000 * 4096,
            file_bytes: Some(149_000 * 4096),
        };
        assert_eq!(nodes(first), Some(expected));
        assert_eq!(nodes(""), None);
        assert_eq!(nodes("Node x, zone\npages free\nprotection: (\nlow"), None);
    }

    #[test]
    fn this_machine_has_a_node() {
        let Ok(text) = std::fs::read_to_string("/proc/zoneinfo") else {
            return;
        };
        let mut all = Nodes::default();
        text.lines()
            .for_each(|line| all.line(line, Margin::Bytes(0)));
        let room = all.tightest(Margin::Bytes(0)).unwrap();
        assert!(room.limit_bytes > 64 * MIB && room.free_bytes < room.limit_bytes);
    }

    #[test]
    fn dropping_begins_at_one_margin_and_ends_at_another() {
        let mut plan = Plan::new(Margin::Percent(5));
        let look = |plan: &mut Plan, now, free_mib| {
            let room = room(200, free_mib * MIB);
            let dropped = if plan.is_dropping() { 1 << 40 } else { 0 };
            // The rate is another test's.
            plan.last = None;
            plan.look(now, room, 0.0, dropped).drop_bytes / MIB
        };
        assert_eq!(look(&mut plan, 0, 100), 0);
        assert_eq!(look(&mut plan, 1, 11), 0);
        assert_eq!(look(&mut plan, 2, 9), 11);
        assert_eq!(
            look(&mut plan, 3, 15),
            5,
            "until the second margin is reached"
        );
        assert_eq!(look(&mut plan, 4, 20), 0);
        assert_eq!(
            look(&mut plan, 5, 15),
            0,
            "and not again before the first one"
        );
    }

    #[test]
    fn sleep_is_long_far_from_the_limit_and_short_near_it() {
        let mut plan = Plan::new(Margin::default());
        let far = plan.look(0, room(1000, 900 * MIB), 0.0, 0);
        assert_eq!(far.sleep_milliseconds, SLEEP_MILLISECONDS_MAX);
        let near = plan.look(0, room(100, 6 * MIB), 0.0, 0);
        assert_eq!(near.sleep_milliseconds, SLEEP_MILLISECONDS_NEAR);
        let below = plan.look(0, room(100, MIB), 0.0, 0);
        assert_eq!(below.sleep_milliseconds, SLEEP_MILLISECONDS_MIN);
        assert!(below.drop_bytes > 0);
    }

    #[test]
    fn what_fills_faster_is_looked_at_sooner_and_kept_freer() {
        let mut plan = Plan::new(Margin::default());
        plan.look(0, room(1000, 900 * MIB), 0.0, 0);
        // 100 MiB in 100 ms.
        let fast = plan.look(100, room(1000, 800 * MIB), 0.0, 0);
        assert!((300..=400).contains(&fast.sleep_milliseconds), "{fast:?}");
        let (start, _) = plan.margins(&room(1000, 0), 0.0);
        assert!(start > 55 * MIB, "{start}");
        for now in 2..60 {
            plan.look(now * 100, room(1000, 800 * MIB), 0.0, 0);
        }
        assert_eq!(
            plan.margins(&room(1000, 0), 0.0).0,
            Margin::default().start_bytes(1000 * MIB)
        );
    }

    #[test]
    fn pressure_widens_the_margins() {
        let plan = Plan::new(Margin::default());
        let room = room(1000, 0);
        let start = |pressure| plan.margins(&room, pressure).0;
        assert_eq!(start(0.9), 1000 * MIB / 100 * 3);
        assert_eq!(start(1.0), 2 * start(0.0));
        assert_eq!(start(10.0), 4 * start(0.0));
    }

    #[test]
    fn of_few_cached_pages_half_stays() {
        let mut plan = Plan::new(Margin::default());
        let few = Room {
            file_bytes: Some(MIB),
            ..room(1000, 0)
        };
        assert_eq!(plan.look(0, few, 0.0, 0).drop_bytes, MIB / 2);
    }

    #[test]
    fn time_in_vain_is_limited_and_time_well_spent_less_so() {
        let mut budget = Budget::default();
        budget.earn(u64::MAX);
        assert_eq!(budget.spend(20_000_000, 0), 0, "was saved up");
        assert!(budget.is_left());
        assert_eq!(budget.spend(1_000_000, 0), 256);
        assert!(!budget.is_left());
        budget.earn(256_000_000);
        assert!(budget.is_left());
        assert_eq!(budget.spend(1_000_000, 4 * MIB), 3);
        assert!(budget.is_left());
        assert_eq!(budget.spend(1 << 40, 0), 1024, "and no more");
    }

    #[test]
    fn the_hand_turns_once_for_each_level_and_goes_on_where_it_stopped() {
        let tables = [3, 5, 9];
        let next = |from: usize| tables.into_iter().find(|slot| *slot >= from);
        let mut hand = Hand::new(10);
        let mut seen = Vec::new();
        while hand.next_table(next) {
            seen.push((hand.place().slot, hand.place().level));
            assert!(seen.len() < 100);
        }
        for level in [Level::Untouched, Level::Cold, Level::Faded] {
            for slot in tables {
                assert!(seen.contains(&(slot, level)), "{slot} {level:?} {seen:?}");
            }
        }
        hand.begin();
        assert!(hand.next_table(next));
        let stopped = hand.place().slot;
        hand.begin();
        assert!(hand.next_table(next));
        assert_ne!(hand.place().slot, stopped);
        // A level in which something is found gets another turn.
        let mut hand = Hand::new(10);
        for _ in 0..20 {
            assert!(hand.next_table(next));
            hand.note_found();
            assert_eq!(hand.place().level, Level::Untouched);
        }
        let mut none = Hand::new(10);
        let turns = (0..100).take_while(|_| none.next_table(|_| None)).count();
        assert!(turns < 10, "{turns}");
    }

    fn memory() -> Vec<AtomicU64> {
        (0..512 * GROUP_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn the_page_where_a_read_ends_stays_with_the_one_where_it_begins() {
        let memory = memory();
        let heat = Heat::new(&memory).unwrap();
        heat.touch(1, GROUP_BYTES - 1000, 4000, 0);
        let mut runs = Vec::new();
        let needed = |_: &Range<u64>| false;
        cold_runs(&heat, 1, 0..3 * GROUP_BYTES, 0, 0, needed, |run| {
            runs.push(run)
        });
        let [run] = runs.as_slice() else {
            panic!("{runs:?}");
        };
        assert_eq!(*run, GROUP_BYTES + 4096..3 * GROUP_BYTES);
    }

    proptest! {
        /// No run has a page that is too hot or needed, and every other group is in a run.
        #[test]
        #[cfg_attr(miri, ignore = "minutes of it, and no unsafe code to check")]
        fn runs_are_the_cold_groups_and_no_others(
            touched in proptest::collection::vec((0_u64..40, 0_u64..56, 0_u16..6), 0..20),
            needed in 0_u64..40,
            faded in any::<bool>(),
            end_pages in 1_u64..2240,
        ) {
            let memory = memory();
            let heat = Heat::new(&memory).unwrap();
            let mut touched = touched;
            touched.sort_by_key(|(_, _, epoch)| *epoch);
            for &(group, page, epoch) in &touched {
                heat.touch(1, group * GROUP_BYTES + page * PAGE_BYTES, 1, epoch);
            }
            let now = 5;
            let level = if faded { Level::Faded } else { Level::Cold };
            let end = end_pages * PAGE_BYTES;
            let is_needed = |range: &Range<u64>| range.contains(&(needed * GROUP_BYTES));
            let mut runs = Vec::new();
            cold_runs(&heat, 1, 0..end, level.heat_max(), now, is_needed, |run| runs.push(run));
            let mut before = 0;
            for run in &runs {
                prop_assert!(run.start >= before && run.start <= run.end && run.end <= end);
                prop_assert!(run.end - run.start <= RUN_BYTES);
                before = run.end;
                for page in (run.start..run.end).step_by(PAGE_BYTES as usize) {
                    prop_assert!(heat.of(1, page, now) <= level.heat_max());
                    prop_assert!(page / GROUP_BYTES != needed);
                }
            }
            for &(group, page, epoch) in &touched {
                // Read in this epoch or the last one: never.
                let place = group * GROUP_BYTES + page * PAGE_BYTES;
                if epoch >= now - 1 {
                    prop_assert!(!runs.iter().any(|run| run.contains(&place)));
                }
            }
            for group in 0..end.div_ceil(GROUP_BYTES) {
                let last = ((group + 1) * GROUP_BYTES).min(end) - 1;
                let is_cold = heat.hottest(1, last, now) <= level.heat_max() && group != needed;
                let is_one_page = end - group * GROUP_BYTES <= PAGE_BYTES;
                let taken = runs.iter().any(|run| run.contains(&last));
                prop_assert!(taken == is_cold || is_one_page && !taken);
            }
        }

        /// Never more than is missing, never with room enough, and time to look is never out of
        /// bounds, whatever the kernel says.
        #[test]
        fn decisions_keep_to_their_bounds(
            looks in proptest::collection::vec(
                (any::<u32>(), any::<u64>(), any::<u64>(), any::<Option<u64>>(), -1.0_f32..100.0, any::<u64>()),
                1..30,
            ),
            bytes in proptest::option::of(0_u64..1 << 36),
        ) {
            let margin = bytes.map_or(Margin::default(), Margin::Bytes);
            let mut plan = Plan::new(margin);
            for (now, limit_bytes, free_bytes, file_bytes, pressure, dropped) in looks {
                let room = Room { limit_bytes, free_bytes, file_bytes };
                let decision = plan.look(now, room, pressure, dropped);
                let (start, stop) = plan.margins(&room, pressure);
                prop_assert!(stop <= limit_bytes / 4 + 1 && start <= stop);
                prop_assert!(decision.drop_bytes <= stop.saturating_sub(free_bytes));
                prop_assert!(free_bytes < stop || !plan.is_dropping());
                prop_assert!(free_bytes >= start || plan.is_dropping());
                prop_assert!((SLEEP_MILLISECONDS_MIN..=SLEEP_MILLISECONDS_MAX)
                    .contains(&decision.sleep_milliseconds));
            }
        }

        /// Whatever tables come and go, a hand in vain comes to an end and passes every table that
        /// is there all the time on each level.
        #[test]
        fn a_hand_passes_everything(
            steady in proptest::collection::btree_set(0_usize..50, 1..10),
            others in proptest::collection::vec(0_usize..50, 0..40),
        ) {
            let mut hand = Hand::new(50);
            let mut seen = std::collections::HashSet::from([(0, Level::Untouched as u8)]);
            for round in 0.. {
                let other = others.get(round).copied();
                let next = |from: usize| {
                    steady.iter().copied().chain(other).filter(|slot| *slot >= from).min()
                };
                if !hand.next_table(next) {
                    break;
                }
                let Place { slot, level, .. } = hand.place();
                seen.insert((slot, level as u8));
                prop_assert!(round < 1000);
            }
            for slot in &steady {
                prop_assert!((0..3).all(|level| seen.contains(&(*slot, level))), "{slot}");
            }
        }
    }
}
