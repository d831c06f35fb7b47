//! The pacer: compares latencies with the idle level, and slows background I/O down or lets it go.

use super::debt::Debt;
use super::latency::Latencies;
use super::observed::{Observed, SECOND_NS, per_second};

const MILLISECOND_NS: u64 = 1_000_000;

/// The shortest time between two ticks that makes sense, in nanoseconds.
pub const TICK_NS: u64 = 10 * MILLISECOND_NS;
/// The foreground is idle after this time without a device read.
const IDLE_NS: u64 = 300 * MILLISECOND_NS;
/// A decision needs this number of reads and this time...
const DECISION_READS: u32 = 16;
const DECISION_NS: u64 = 50 * MILLISECOND_NS;
/// ... or this longer time, with this smaller number of reads.
const DECISION_NS_MAX: u64 = 500 * MILLISECOND_NS;
const DECISION_READS_MIN: u32 = 4;
/// The idle level is not learnt from fewer reads, since it stays for long.
const LEARNING_READS: u32 = 16;
/// The time in which the idle level rises to a higher latency: without background I/O, and at the floor.
/// There it rises slowly, since the latency includes some background I/O.
const RISE_AT_REST_NS: u64 = SECOND_NS;
const RISE_AT_FLOOR_NS: u64 = 20 * SECOND_NS;
/// The brake is pulled above this mean latency, in percent of the idle level.
const BRAKE_PERCENT: u64 = 150;
/// It is pulled harder above this multiple of that latency.
const FAR_OFF: u64 = 2;
/// Up to this mean latency, in percent of the idle level, a decision is calm: background I/O speeds up.
const CALM_PERCENT: u64 = 125;
/// Latencies are cut off at this multiple of the idle level.
const CUT_OFF: u64 = 8;
/// If background I/O never rests, a probe slows it down to the floor once in this time, to learn the idle
/// level.
const PROBE_EVERY_NS: u64 = 30 * SECOND_NS;
/// The time between two probes while the idle level is unknown, because too little was read.
const PROBE_AGAIN_NS: u64 = 10 * SECOND_NS;
/// The longest time of a probe: a twentieth of the time above.
const PROBE_NS: u64 = 500 * MILLISECOND_NS;
/// The smallest request is the largest one (1 MiB), halved this number of times: 128 KiB.
const HALVINGS_MAX: u32 = 3;
/// Requests double after this number of calm decisions.
const CALM_BEFORE_LARGER: u32 = 8;

/// The largest request of paced background I/O, in bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The smallest floor, in bytes per second.
pub const FLOOR_MIN: u64 = 1 << 20;
/// The largest floor, in bytes per second.
pub const FLOOR_MAX: u64 = 1 << 40;

/// The pace of background I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The rate in bytes per second; 0 is no limit.
    pub bytes_per_second: u64,
    /// The largest request in bytes; 0 is the configured size.
    pub request_bytes: usize,
    /// Windows that are read ahead in a file; 0 is the configured number.
    pub in_flight: usize,
}

/// The time of a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// A time of any steady clock.
    pub(super) now_ns: u64,
    /// No tick was before it.
    pub(super) is_first: bool,
    /// Background work has rested.
    pub(super) has_rested: bool,
}

/// The pacer. All-zero memory is a new one.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Pacer {
    /// The time of the last device read of the foreground.
    read_ns: u64,
    /// Latencies, start and bytes of the interval on which the next decision rests.
    interval: Latencies,
    interval_start_ns: u64,
    interval_bytes: u64,
    /// The time at which the idle level was last learnt or probed, 0 for never; and the end of the present
    /// probe, 0 for none.
    learnt_ns: u64,
    probe_until_ns: u64,
    idle_ns: u64,
    /// The limit in bytes per second; 0 is none.
    rate: u64,
    /// The rate of background I/O without a limit, in bytes per second.
    peak: u64,
    halvings: u32,
    calm: u32,
    brakes: u64,
}

impl Pacer {
    /// Takes the events until now. Returns the pace from now on: never slower than `floor` bytes per second.
    pub(super) fn tick(
        &mut self,
        moment: Moment,
        observed: &Observed<'_>,
        floor: u64,
        debt: &Debt,
    ) -> Pace {
        let floor = floor.clamp(FLOOR_MIN, FLOOR_MAX);
        let now_ns = moment.now_ns;
        if moment.is_first {
            self.read_ns = now_ns;
            // Reads before the first background I/O were made at rest.
            self.interval_start_ns = now_ns.saturating_sub(DECISION_NS_MAX);
        }
        if moment.has_rested {
            self.open();
            // Earlier reads were not made at rest.
            self.begin_interval(now_ns.saturating_sub(DECISION_NS_MAX));
        }
        if let Some(reads) = observed.reads.filter(|reads| reads.count() > 0) {
            self.read_ns = now_ns;
            self.interval.merge(reads);
        }
        self.interval_bytes = self
            .interval_bytes
            .saturating_add(observed.background_bytes);

        let is_idle = now_ns.saturating_sub(self.read_ns) >= IDLE_NS;
        if is_idle || debt.is_due() {
            if self.probe_until_ns != 0 {
                self.end_probe(now_ns);
            }
            self.open();
            // These latencies say nothing about the next interval.
            self.begin_interval(now_ns);
            return self.pace(floor, debt);
        }
        if self.is_ripe(now_ns) {
            self.decide(now_ns, floor);
            self.begin_interval(now_ns);
        }
        self.probe_if_due(now_ns);
        self.pace(floor, debt)
    }

    /// Times that it began to slow background I/O down.
    pub(super) fn brakes(&self) -> u64 {
        self.brakes
    }

    /// Mean latency of the foreground's device reads without background I/O, in nanoseconds; 0 is
    /// unknown.
    pub(super) fn idle_ns(&self) -> u64 {
        self.idle_ns
    }

    fn open(&mut self) {
        self.rate = 0;
        self.calm = 0;
        self.halvings = 0;
    }

    fn begin_interval(&mut self, now_ns: u64) {
        self.interval.clear();
        self.interval_start_ns = now_ns;
        self.interval_bytes = 0;
    }

    fn interval_elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.interval_start_ns).max(1)
    }

    fn is_ripe(&self, now_ns: u64) -> bool {
        let reads = self.interval.count();
        let elapsed_ns = self.interval_elapsed_ns(now_ns);
        elapsed_ns >= DECISION_NS && reads >= DECISION_READS
            || elapsed_ns >= DECISION_NS_MAX && reads >= DECISION_READS_MIN
    }

    /// Begins a probe if the idle level is unknown, or was not learnt for long. The device is left to the
    /// foreground for a moment.
    fn probe_if_due(&mut self, now_ns: u64) {
        let age_ns = now_ns.saturating_sub(self.learnt_ns);
        let every_ns = match self.idle_ns {
            0 => PROBE_AGAIN_NS,
            _ => PROBE_EVERY_NS,
        };
        let is_due = self.learnt_ns == 0 || age_ns >= every_ns;
        if is_due && self.probe_until_ns == 0 && self.interval_bytes > 0 {
            self.probe_until_ns = now_ns.saturating_add(PROBE_NS);
            self.begin_interval(now_ns);
        } else if self.probe_until_ns != 0 && now_ns >= self.probe_until_ns {
            self.end_probe(now_ns);
        }
    }

    /// The next probe comes when it is due again, also if this one had too few reads to learn from.
    fn end_probe(&mut self, now_ns: u64) {
        self.probe_until_ns = 0;
        self.learnt_ns = now_ns;
    }

    fn decide(&mut self, now_ns: u64, floor: u64) {
        let elapsed_ns = self.interval_elapsed_ns(now_ns);
        let moved = per_second(self.interval_bytes, elapsed_ns);
        let cut_off_ns = match self.idle_ns {
            0 => u64::MAX,
            idle_ns => idle_ns.saturating_mul(CUT_OFF),
        };
        let mean_ns = self.interval.mean_ns(cut_off_ns);
        let is_rest = moved <= floor / 8;
        let is_at_floor = self.rate != 0 && self.rate <= floor && moved <= floor / 4 * 5;
        if is_rest || is_at_floor || self.probe_until_ns != 0 {
            self.learn(now_ns, mean_ns, is_rest);
        } else if self.idle_ns != 0 && mean_ns < self.idle_ns {
            // Lower than idle although background I/O runs: the idle level has fallen.
            self.idle_ns -= (self.idle_ns - mean_ns) / 8;
        }
        if self.probe_until_ns != 0 {
            self.end_probe(now_ns);
            return;
        }
        if is_rest || self.idle_ns == 0 {
            return;
        }
        if self.rate == 0 {
            self.peak = (self.peak - self.peak / 16).max(moved);
        }
        let percent_of_idle = |percent| self.idle_ns.saturating_mul(percent) / 100;
        let target_ns = percent_of_idle(BRAKE_PERCENT);
        if mean_ns > target_ns {
            self.brake(moved, floor, mean_ns >= target_ns.saturating_mul(FAR_OFF));
        } else {
            self.ease(moved, floor, mean_ns <= percent_of_idle(CALM_PERCENT));
        }
    }

    /// Learns the idle level. It falls quickly and rises slowly.
    fn learn(&mut self, now_ns: u64, mean_ns: u64, is_rest: bool) {
        let reads = self.interval.count();
        if reads < LEARNING_READS && self.idle_ns != 0 {
            return;
        }
        self.learnt_ns = now_ns;
        self.idle_ns = if self.idle_ns == 0 || is_rest && reads >= 8 * LEARNING_READS {
            mean_ns
        } else if mean_ns < self.idle_ns {
            self.idle_ns - (self.idle_ns - mean_ns) / 2
        } else {
            let within_ns = if is_rest {
                RISE_AT_REST_NS
            } else {
                RISE_AT_FLOOR_NS
            };
            let elapsed_ns = self.interval_elapsed_ns(now_ns).min(within_ns);
            let rise = u128::from(mean_ns - self.idle_ns) * u128::from(elapsed_ns);
            let rise = rise / u128::from(within_ns);
            self.idle_ns + u64::try_from(rise).unwrap_or(0)
        }
        .max(1);
    }

    /// Slows background I/O down: to half if the latency is far off, else to three quarters.
    fn brake(&mut self, moved: u64, floor: u64, is_far_off: bool) {
        let from = match self.rate {
            0 => {
                self.brakes += 1;
                moved
            }
            rate => rate.min(moved.max(floor)),
        };
        if self.rate != 0 && moved < self.rate / 4 * 3 {
            // The rate is not reached, for instance by a disk that seeks before each request.
            self.halvings = self.halvings.saturating_sub(1);
        } else {
            self.halvings = (self.halvings + 1).min(HALVINGS_MAX);
        }
        self.rate = (if is_far_off { from / 2 } else { from / 4 * 3 }).max(floor);
        self.calm = 0;
    }

    fn ease(&mut self, moved: u64, floor: u64, is_calm: bool) {
        if !is_calm {
            self.calm = 0;
            return;
        }
        self.calm += 1;
        if self.calm >= CALM_BEFORE_LARGER {
            self.calm = 0;
            self.halvings = self.halvings.saturating_sub(1);
        }
        if self.rate != 0 {
            let step = (self.peak / 16).max(floor / 4);
            // A limit that is not reached must not grow: it would not slow anything down later.
            let most = moved.saturating_mul(2).max(floor.saturating_mul(2));
            self.rate = self.rate.saturating_add(step).min(most.max(self.rate));
            if self.rate > self.peak / 4 * 5 && self.peak > 0 {
                self.rate = 0;
            }
        }
    }

    fn pace(&self, floor: u64, debt: &Debt) -> Pace {
        let request_bytes = match self.halvings {
            0 => 0,
            halvings => REQUEST_BYTES_MAX >> halvings.min(HALVINGS_MAX),
        };
        let in_flight = usize::from(self.halvings > 0);
        let is_probing = self.probe_until_ns != 0;
        let rate = if is_probing { floor } else { self.rate };
        let bytes_per_second = match rate {
            0 => 0,
            // New work must get done.
            rate => rate.max(floor.saturating_add(debt.demand())),
        };
        Pace {
            bytes_per_second,
            request_bytes,
            in_flight,
        }
    }
}
