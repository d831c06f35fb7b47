//! When pages are dropped, how many, and how much processor time that may take.

use super::PAGE_BYTES;
use super::room::{Margin, Room};

/// Memory that will be used up within this time counts as used, in milliseconds.
const AHEAD_MILLISECONDS: u64 = 60;
/// The rate at which a compaction may fill memory from one moment to the next, in bytes per millisecond:
/// 512 MiB/s.
const BURST_RATE: u64 = (512 << 20) / 1000;
/// The shortest time between two looks while pages are dropped, in milliseconds.
pub const SLEEP_MILLISECONDS_MIN: u32 = 20;
/// The longest time between two looks, in milliseconds.
pub const SLEEP_MILLISECONDS_MAX: u32 = 1000;
/// The shortest time between two looks while a compaction might begin, in milliseconds. Mostly memory is
/// filled up to the margin, and nothing happens.
pub(super) const SLEEP_MILLISECONDS_NEAR: u32 = 50;

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Bytes to drop now; 0 is none.
    pub drop_bytes: u64,
    /// Time until the next look, in milliseconds.
    pub sleep_milliseconds: u32,
}

/// Decides at each look how much to drop. Dropping begins below one margin and ends above another one, so
/// that there is work now and then, and not all the time.
#[derive(Debug)]
pub struct Plan {
    margin: Margin,
    is_dropping: bool,
    /// The time of the last look in milliseconds, and its room.
    pub(super) last: Option<(u32, Room)>,
    /// The rate at which the room is used up, in bytes per millisecond. It falls slowly.
    rate: u64,
}

impl Plan {
    /// A plan before its first look.
    pub fn new(margin: Margin) -> Self {
        Self {
            margin,
            is_dropping: false,
            last: None,
            rate: 0,
        }
    }

    /// The configured margin.
    pub fn margin(&self) -> Margin {
        self.margin
    }

    /// Whether dropping has begun and not ended.
    pub fn is_dropping(&self) -> bool {
        self.is_dropping
    }

    /// Decides how much to drop.
    ///
    /// - `now_milliseconds`: the time of any clock, which may wrap.
    /// - `full_pressure`: the percentage of the last ten seconds in which all tasks waited for memory.
    /// - `dropped_bytes`: bytes that were dropped since the last look.
    pub fn look(
        &mut self,
        now_milliseconds: u32,
        room: Room,
        full_pressure: f32,
        dropped_bytes: u64,
    ) -> Decision {
        self.record_rate(now_milliseconds, &room, dropped_bytes);
        let (start, stop) = self.margins(&room, full_pressure);
        if room.free_bytes < start {
            self.is_dropping = true;
        } else if room.free_bytes >= stop {
            self.is_dropping = false;
        }
        let drop_bytes = if self.is_dropping {
            let missing = stop.saturating_sub(room.free_bytes);
            // A margin is not worth most of the cached pages.
            missing.min(room.file_bytes.unwrap_or(u64::MAX) / 2)
        } else {
            0
        };
        Decision {
            drop_bytes,
            sleep_milliseconds: self.sleep_milliseconds(&room, start),
        }
    }

    /// The free bytes below which dropping begins, and those above which it ends.
    pub(super) fn margins(&self, room: &Room, full_pressure: f32) -> (u64, u64) {
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

    fn record_rate(&mut self, now: u32, room: &Room, dropped_bytes: u64) {
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
        // Half of the time that is left at the present rate, since rates change.
        let present = time(self.rate.saturating_mul(2).max(1));
        let burst = time(BURST_RATE).max(SLEEP_MILLISECONDS_NEAR);
        present
            .min(burst)
            .clamp(SLEEP_MILLISECONDS_MIN, SLEEP_MILLISECONDS_MAX)
    }
}

/// The processor time that eviction may use. It depends on what is found with it.
#[derive(Debug, Default)]
pub struct Budget {
    /// Processor time that may be used in vain, in nanoseconds; negative if too much was.
    credit_ns: i64,
}

/// One nanosecond in this number may be used in vain: 0.4 %.
const IN_VAIN: i64 = 256;
/// The most that can be saved up: enough to look at some 700 MiB of cached pages.
const CREDIT_NS_MAX: i64 = 20_000_000;
/// The most that is owed. A step that takes longer was held up by others; it must not stop eviction for
/// more than a second.
const DEBT_NS_MAX: i64 = 4_000_000;
/// Dropping may use one nanosecond in this number: a quarter of a processor.
const IN_USE: u64 = 4;
/// The processor time that a dropped page is worth, in nanoseconds. It costs about 300 where all pages
/// that are looked at are dropped.
const PAGE_NS: u64 = 16_000;

impl Budget {
    /// Adds the budget of an elapsed time.
    pub fn earn(&mut self, elapsed_ns: u64) {
        let earned = i64::try_from(elapsed_ns).unwrap_or(i64::MAX) / IN_VAIN;
        self.credit_ns = self.credit_ns.saturating_add(earned).min(CREDIT_NS_MAX);
    }

    /// Whether there is a budget for a look.
    pub fn is_left(&self) -> bool {
        self.credit_ns >= 0
    }

    /// Takes the processor time of a step from the budget. Returns the shortest sleep before the next step,
    /// in milliseconds.
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
