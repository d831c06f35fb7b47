//! When pages are dropped and how many, and how much of a processor that may take.

use super::PAGE_BYTES;
use super::room::{Margin, Room};

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
pub(super) const SLEEP_MILLISECONDS_NEAR: u32 = 50;

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
    pub(super) last: Option<(u32, Room)>,
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
