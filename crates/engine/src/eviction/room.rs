//! The free memory of the cgroups around the process and of each NUMA node, and the memory pressure. Files are
//! read into buffers on the stack, because the eviction thread has no allocator.

use crate::core::host_memory::{each_line, read, read_again};
use crate::core::text::Text;
use coldstream_io::sys::{file, memory};
use coldstream_policy::eviction::{Margin, Nodes, Room, parse_clean_file_bytes, tightest};
use coldstream_policy::memory_limits::{Version, each_cgroup, parse_limit};
use std::io::Write;

/// Cgroups that are looked at: the process's own and those above it.
const CGROUPS_MAX: usize = 16;
/// How often the process's cgroup and its limits are looked up.
const REFRESH_MILLISECONDS: u32 = 5000;
/// How often nodes and pressure are read. The kernel needs a tenth of a millisecond for the text of nodes, and
/// more on machines with many processors.
const SLOW_MILLISECONDS: u32 = 1000;
/// The same while pages are dropped. `memory.stat` is always read at this interval.
const SOON_MILLISECONDS: u32 = 200;

/// The files of a cgroup that has a limit. The descriptors are the eviction thread's own.
#[derive(Clone, Copy)]
struct Cgroup {
    limit: i32,
    high: Option<i32>,
    usage: i32,
    statistics: Option<i32>,
    /// The lower of both limits, in bytes; `None` if there is none at present.
    limit_bytes: Option<u64>,
}

/// A value that is read now and then.
#[derive(Clone, Copy)]
struct Seen<T> {
    clock: u32,
    value: Option<T>,
}

impl<T: Copy> Seen<T> {
    const NEVER: Self = Self {
        clock: 0,
        value: None,
    };

    fn get(
        &mut self,
        clock: u32,
        milliseconds: u32,
        look: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        // Zero means that nothing was read yet.
        if self.clock == 0 || clock.wrapping_sub(self.clock) >= milliseconds {
            *self = Self {
                clock: clock.max(1),
                value: look(),
            };
        }
        self.value
    }
}

/// Where the figures come from.
pub(super) struct Sources {
    cgroups: [Option<Cgroup>; CGROUPS_MAX],
    /// A hash of the membership by which they were found.
    membership: u64,
    refreshed: Seen<()>,
    node: Seen<Room>,
    pressure: Seen<f32>,
    file_bytes: Seen<u64>,
    /// The cgroup whose `file_bytes` these are.
    file_bytes_of: usize,
}

impl Sources {
    pub(super) fn new() -> Self {
        Self {
            cgroups: [None; CGROUPS_MAX],
            membership: 0,
            refreshed: Seen::NEVER,
            node: Seen::NEVER,
            pressure: Seen::NEVER,
            file_bytes: Seen::NEVER,
            file_bytes_of: 0,
        }
    }

    /// The tightest room of all; `None` if nothing is known.
    pub(super) fn room(&mut self, clock: u32, margin: Margin, is_dropping: bool) -> Option<Room> {
        if self.take_refresh_turn(clock) {
            self.refresh();
        }
        let often = if is_dropping {
            SOON_MILLISECONDS
        } else {
            SLOW_MILLISECONDS
        };
        let node = self.node.get(clock, often, || read_nodes(margin));
        let mut best = node;
        for index in 0..CGROUPS_MAX {
            if let Some(Some(cgroup)) = self.cgroups.get(index).copied()
                && let Some(room) = cgroup.room()
                && tightest(best.into_iter().chain([room]), margin) == Some(room)
            {
                best = Some(Room {
                    file_bytes: self.file_bytes(clock, index, &cgroup, &room),
                    ..room
                });
            }
        }
        best
    }

    /// The pressure in percent: see [`crate::core::host_memory::pressure`]; 0 if it is not known.
    pub(super) fn pressure(&mut self, clock: u32) -> f32 {
        let pressure =
            self.pressure
                .get(clock, SLOW_MILLISECONDS, crate::core::host_memory::pressure);
        pressure.unwrap_or(0.0)
    }

    /// This is read only near the limit: `memory.stat` costs the kernel more than all other files together.
    fn file_bytes(
        &mut self,
        clock: u32,
        index: usize,
        cgroup: &Cgroup,
        room: &Room,
    ) -> Option<u64> {
        if room.free_bytes > room.limit_bytes / 8 {
            return None;
        }
        if self.file_bytes_of != index {
            self.file_bytes = Seen::NEVER;
            self.file_bytes_of = index;
        }
        self.file_bytes.get(clock, SOON_MILLISECONDS, || {
            let mut text = [0; 8192];
            parse_clean_file_bytes(read_again(cgroup.statistics?, &mut text)?)
        })
    }

    fn take_refresh_turn(&mut self, clock: u32) -> bool {
        let mut is_due = false;
        self.refreshed.get(clock, REFRESH_MILLISECONDS, || {
            is_due = true;
            None
        });
        is_due
    }

    /// Finds the cgroups, if the process was moved, and their present limits.
    fn refresh(&mut self) {
        let mut text = [0; 4096];
        let membership = read(c"/proc/self/cgroup", &mut text).unwrap_or_default();
        let found = hash(membership);
        if found != self.membership {
            self.membership = found;
            self.file_bytes = Seen::NEVER;
            for cgroup in self.cgroups.iter_mut().filter_map(Option::take) {
                cgroup.close();
            }
            let mut entries = self.cgroups.iter_mut();
            each_cgroup(membership, |version, path| {
                if let Some(cgroup) = Cgroup::open(version, path)
                    && let Some(entry) = entries.next()
                {
                    *entry = Some(cgroup);
                }
            });
        }
        for cgroup in self.cgroups.iter_mut().flatten() {
            cgroup.limit_bytes = cgroup.read_limit();
        }
    }
}

impl Cgroup {
    /// `None` if there are no such files: at the top of version 2, or where the other version is mounted.
    fn open(version: Version, path: &str) -> Option<Self> {
        let open = |name: &str| {
            let mut text = Text::<1024>::new();
            write!(text, "{}{path}/{name}\0", version.top()).ok()?;
            file::open(text.as_c_str()?, libc::O_RDONLY, 0).ok()
        };
        let limit = open(version.limit_file())?;
        let Some(usage) = open(version.usage_file()) else {
            let _ = file::close(limit);
            return None;
        };
        Some(Self {
            limit,
            high: version.high_file().and_then(open),
            usage,
            statistics: open("memory.stat"),
            limit_bytes: None,
        })
    }

    fn close(self) {
        let all = [
            Some(self.limit),
            Some(self.usage),
            self.high,
            self.statistics,
        ];
        for descriptor in all.into_iter().flatten() {
            let _ = file::close(descriptor);
        }
    }

    fn read_limit(&self) -> Option<u64> {
        let limits = [Some(self.limit), self.high].into_iter().flatten();
        limits.filter_map(read_number).min()
    }

    fn room(&self) -> Option<Room> {
        let limit_bytes = self.limit_bytes?;
        Some(Room {
            limit_bytes,
            free_bytes: limit_bytes.saturating_sub(read_number(self.usage)?),
            file_bytes: None,
        })
    }
}

/// A number of bytes that a file of a cgroup holds; `None` for "no limit".
fn read_number(descriptor: i32) -> Option<u64> {
    let mut text = [0; 64];
    parse_limit(read_again(descriptor, &mut text)?)
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// The text may be of any length: hundreds of kilobytes on large machines.
fn read_nodes(margin: Margin) -> Option<Room> {
    let mut nodes = Nodes::new(memory::page_bytes());
    each_line(c"/proc/zoneinfo", &mut [0; 4096], |line| {
        nodes.line(std::str::from_utf8(line).unwrap_or_default(), margin);
    })?;
    nodes.tightest(margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_some_room() {
        let mut sources = Sources::new();
        let room = sources.room(1, Margin::Bytes(0), false).unwrap();
        assert!(room.limit_bytes > 1 << 20 && room.free_bytes <= room.limit_bytes);
        assert!((0.0..=100.0).contains(&sources.pressure(1)));
        let node = read_nodes(Margin::Bytes(0));
        let text = std::fs::read_to_string("/proc/zoneinfo").unwrap();
        let mut nodes = Nodes::new(memory::page_bytes());
        text.lines()
            .for_each(|line| nodes.line(line, Margin::Bytes(0)));
        let whole = nodes.tightest(Margin::Bytes(0));
        assert_eq!(
            node.map(|room| room.limit_bytes),
            whole.map(|room| room.limit_bytes),
            "read in pieces"
        );
    }

    #[test]
    fn what_was_seen_is_looked_at_again_when_its_time_has_come() {
        let mut seen = Seen::NEVER;
        assert_eq!(seen.get(0, 100, || Some(1)), Some(1));
        assert_eq!(seen.get(99, 100, || Some(2)), Some(1));
        assert_eq!(seen.get(101, 100, || Some(3)), Some(3));
        assert_eq!(seen.get(5, u32::MAX, || Some(4)), Some(3), "wraps");
    }
}
