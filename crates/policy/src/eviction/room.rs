//! How much room is left, from the texts of the kernel, and how much of it to keep free.

use crate::bytes::parse_bytes;

/// The smallest margin in percent. The kernel charges cgroups in batches of 256 KiB for each processor.
const START_BYTES_MIN: u64 = 4 << 20;
/// The largest margin in percent. A share of a large memory would be more than what can be filled before
/// the next look.
const START_BYTES_MAX: u64 = 256 << 20;

/// The room to keep free, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// A percentage of the limit from 1 to 25, but at least 4 MiB and at most 256 MiB.
    Percent(u8),
    /// A number of bytes from 1 MiB to 64 GiB.
    Bytes(u64),
}

impl Default for Margin {
    fn default() -> Self {
        Margin::Percent(3)
    }
}

impl Margin {
    /// Reads `3%` or `64MiB`.
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

    /// The text that [`Margin::from_name`] reads.
    pub fn name(self) -> String {
        match self {
            Margin::Percent(percent) => format!("{percent}%"),
            Margin::Bytes(bytes) => bytes.to_string(),
        }
    }

    /// The free bytes below which dropping begins, under this limit.
    pub(super) fn start_bytes(self, limit_bytes: u64) -> u64 {
        match self {
            Margin::Percent(percent) => {
                (limit_bytes / 100 * u64::from(percent)).clamp(START_BYTES_MIN, START_BYTES_MAX)
            }
            Margin::Bytes(bytes) => bytes,
        }
    }
}

/// A limit of memory, and the room that is left below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The limit, in bytes.
    pub limit_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Clean pages of files in bytes: the most that can be dropped. `None` if it is unknown.
    pub file_bytes: Option<u64>,
}

/// The room of several that needs a drop most.
pub fn tightest(rooms: impl IntoIterator<Item = Room>, margin: Margin) -> Option<Room> {
    rooms.into_iter().min_by_key(|room| {
        let start = margin.start_bytes(room.limit_bytes);
        i128::from(room.free_bytes) - i128::from(start)
    })
}

/// The clean pages of files in a cgroup and the cgroups below it, in bytes. The text is that of its
/// `memory.stat`, of either version.
pub fn parse_clean_file_bytes(text: &str) -> Option<u64> {
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line?.strip_prefix(' ')?.trim().parse::<u64>().ok()
    };
    // Version 1 also has lines without "total_", which leave out the cgroups below.
    let either = |first: &str, second: &str| of(first).or_else(|| of(second));
    let cached = either("total_inactive_file", "inactive_file")?
        .checked_add(either("total_active_file", "active_file")?)?;
    let dirty = either("total_dirty", "file_dirty").unwrap_or(0);
    let written = either("total_writeback", "file_writeback").unwrap_or(0);
    Some(cached.saturating_sub(dirty).saturating_sub(written))
}

/// Reads `/proc/zoneinfo` line by line. It finds the NUMA node with the least room above the `low`
/// watermarks of its zones, where the kernel begins to reclaim.
#[derive(Debug, Default)]
pub struct Nodes {
    page_bytes: u64,
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
    /// Pages that are kept from allocations for a higher zone.
    protected: u64,
}

impl Nodes {
    /// A reader before the first line. `page_bytes` is the kernel's page size, the unit of the file.
    #[must_use]
    pub fn new(page_bytes: u64) -> Self {
        Self {
            page_bytes,
            ..Self::default()
        }
    }

    /// Reads one line of the file.
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

    /// The room of the tightest node; `None` if the text has no node.
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
        let page_bytes = self.page_bytes;
        let bytes = |pages: u64| pages.saturating_mul(page_bytes);
        let room = Room {
            limit_bytes: bytes(std::mem::take(&mut self.managed)),
            free_bytes: bytes(std::mem::take(&mut self.free_above)),
            file_bytes: Some(bytes(std::mem::take(&mut self.file_pages))),
        };
        // A node has no memory, or is full of pages that eviction cannot drop.
        let is_of_use =
            room.limit_bytes > 0 && room.file_bytes > Some(margin.start_bytes(room.limit_bytes));
        if self.node.is_some() && is_of_use {
            self.rooms = tightest(self.rooms.into_iter().chain([room]), margin);
        }
    }
}
