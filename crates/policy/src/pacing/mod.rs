//! Pacing: background I/O slows down when the foreground's device reads take longer than they do
//! while the device is left to them, and goes as fast as it can otherwise.
//!
//! Pure logic: [`Pacer::tick`] is told the time and what happened since the last tick, and says how
//! fast background I/O may go; [`Bucket`] makes threads keep to it. The signal is the mean of the
//! latencies, each cut off at eight times the idle level: of a few dozen sampled reads, a
//! percentile near the end is one read, while the mean feels each read that had to queue.

mod bucket;
mod debt;
mod latency;
// Simulated seconds are hours under Miri, and there is no unsafe code to check.
#[cfg(all(test, not(miri)))]
mod simulation;

pub use bucket::{BURST_NS, Bucket};
pub use latency::{LATENCY_BUCKETS, Latencies, MEMORY_NS, latency_bucket};

use debt::Debt;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// Between two ticks there should be so many nanoseconds at least.
pub const TICK_NS: u64 = 10 * MILLISECOND_NS;
/// Without a device read for so long, the foreground is idle.
const IDLE_NS: u64 = 300 * MILLISECOND_NS;
/// Without background I/O for so long, nothing is left to be done.
const REST_NS: u64 = 2 * SECOND_NS;
/// A decision takes so many reads, and so much time...
const DECISION_READS: u32 = 16;
const DECISION_NS: u64 = 50 * MILLISECOND_NS;
/// ... or this time, with as few as this.
const DECISION_NS_MAX: u64 = 500 * MILLISECOND_NS;
const DECISION_READS_MIN: u32 = 4;
/// The idle level is not taken from fewer reads: it outlives them.
const LEARNING_READS: u32 = 16;
/// It rises to what is seen in this time while there is no background I/O, and in this time at the
/// floor: what goes on there is in it too.
const RISE_AT_REST_NS: u64 = SECOND_NS;
const RISE_AT_FLOOR_NS: u64 = 20 * SECOND_NS;
/// Latencies count up to so many times the idle level.
const CUT_OFF: u64 = 8;
/// The idle level is looked at once in this time at least, for this time at most, by slowing down
/// to the floor, if background I/O never rests.
const PROBE_EVERY_NS: u64 = 30 * SECOND_NS;
/// The same while it is not known, since too little was read to tell: a twentieth of the time.
const PROBE_AGAIN_NS: u64 = 10 * SECOND_NS;
const PROBE_NS: u64 = 500 * MILLISECOND_NS;
/// The smallest request is the largest one (1 MiB) halved so often: 128 KiB.
const HALVINGS_MAX: u32 = 3;
/// After so many calm decisions requests may double.
const CALM_BEFORE_LARGER: u32 = 8;

/// The largest request of background I/O that is paced, in bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The smallest floor that makes sense, in bytes per second.
pub const FLOOR_MIN: u64 = 1 << 20;
/// The largest, in bytes per second.
pub const FLOOR_MAX: u64 = 1 << 40;

/// What happened since the last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed<'a> {
    /// Latencies of the foreground's device reads that were timed; none is an empty histogram.
    pub reads: Option<&'a Latencies>,
    /// Bytes that background I/O, which is paced, moved.
    pub background_bytes: u64,
    /// Of these, bytes of compactions.
    pub compacted_bytes: u64,
    /// Bytes of memtables that were written out.
    pub flushed_bytes: u64,
    /// When background work was last seen to end that moves no bytes and may take long (a sync, a handover), by the
    /// clock of the ticks; 0 is never. While one goes on nothing tells it from a rest.
    pub busy_until_ns: u64,
}

/// How fast background I/O may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Bytes per second; 0 is as fast as it can.
    pub bytes_per_second: u64,
    /// The largest request in bytes; 0 is as configured.
    pub request_bytes: usize,
    /// Windows read ahead of a consumer; 0 is as configured.
    pub in_flight: usize,
}

/// What has happened, for figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Times that it began to brake.
    pub brakes: u64,
    /// Times that the brake opened because work had piled up.
    pub releases: u64,
    /// Mean latency of the foreground's device reads without background I/O, in nanoseconds; 0 is
    /// not known yet.
    pub idle_ns: u64,
    /// Bytes that compactions are behind flushes.
    pub debt_bytes: u64,
}

/// The controller; all-zero memory is a new one.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Pacer {
    /// Of the last tick, plus one, so that 0 is never.
    ticked_ns: u64,
    /// When the last device read of the foreground, and the last background I/O, was seen.
    read_ns: u64,
    background_ns: u64,
    /// What the next decision will be taken by.
    window: Latencies,
    window_ns: u64,
    window_bytes: u64,
    /// When the idle level was last learnt or looked for, 0 for never, and until when the device is
    /// left alone for it.
    learnt_ns: u64,
    probe_until_ns: u64,
    idle_ns: u64,
    /// Bytes per second; 0 is unlimited.
    rate: u64,
    /// What background I/O reaches unpaced, in bytes per second.
    peak: u64,
    halvings: u32,
    calm: u32,
    debt: Debt,
    brakes: u64,
}

impl Pacer {
    /// Takes notice of what happened until `now_ns`, a time of any steady clock, and says how fast
    /// background I/O may go from now on: never slower than `floor` bytes per second.
    pub fn tick(&mut self, now_ns: u64, observed: &Observed<'_>, floor: u64) -> Pace {
        let floor = floor.clamp(FLOOR_MIN, FLOOR_MAX);
        let elapsed_ns = match self.ticked_ns {
            0 => {
                self.read_ns = now_ns;
                self.background_ns = now_ns;
                // What has been read before the first background I/O was read at rest.
                self.window_ns = now_ns.saturating_sub(DECISION_NS_MAX);
                0
            }
            before => (now_ns.saturating_add(1)).saturating_sub(before),
        };
        self.ticked_ns = now_ns.saturating_add(1);
        let busy_until_ns = observed.busy_until_ns.min(now_ns);
        self.background_ns = self.background_ns.max(busy_until_ns);
        if observed.background_bytes > 0 && elapsed_ns < REST_NS {
            self.background_ns = now_ns;
        }
        let has_rested = now_ns.saturating_sub(self.background_ns) >= REST_NS;
        if has_rested {
            // What was flushed meanwhile was nobody's worry, or somebody would have compacted it.
            self.debt.settle(observed.flushed_bytes);
            self.open();
            self.background_ns = now_ns;
            // The reads of before were not read at rest.
            self.begin_window(now_ns.saturating_sub(DECISION_NS_MAX));
        } else {
            self.debt.note(observed, elapsed_ns);
        }
        if let Some(reads) = observed.reads.filter(|reads| reads.count() > 0) {
            self.read_ns = now_ns;
            self.window.merge(reads);
        }
        self.window_bytes = self.window_bytes.saturating_add(observed.background_bytes);

        let is_idle = now_ns.saturating_sub(self.read_ns) >= IDLE_NS;
        if is_idle || self.debt.is_due() {
            if self.probe_until_ns != 0 {
                self.end_probe(now_ns);
            }
            self.open();
            // Its latencies would be taken for those of what comes next.
            self.begin_window(now_ns);
            return self.pace(floor);
        }
        if self.is_ripe(now_ns) {
            self.decide(now_ns, floor);
            self.begin_window(now_ns);
        }
        self.probe_if_due(now_ns);
        self.pace(floor)
    }

    /// What has happened so far.
    pub fn figures(&self) -> Figures {
        Figures {
            brakes: self.brakes,
            releases: self.debt.releases(),
            idle_ns: self.idle_ns,
            debt_bytes: self.debt.bytes(),
        }
    }

    fn open(&mut self) {
        self.rate = 0;
        self.calm = 0;
        self.halvings = 0;
    }

    fn begin_window(&mut self, now_ns: u64) {
        self.window.clear();
        self.window_ns = now_ns;
        self.window_bytes = 0;
    }

    fn window_elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.window_ns).max(1)
    }

    fn is_ripe(&self, now_ns: u64) -> bool {
        let reads = self.window.count();
        let elapsed_ns = self.window_elapsed_ns(now_ns);
        elapsed_ns >= DECISION_NS && reads >= DECISION_READS
            || elapsed_ns >= DECISION_NS_MAX && reads >= DECISION_READS_MIN
    }

    /// Leaves the device to the foreground for a moment, if its idle level is not known, or has not
    /// been seen for long.
    fn probe_if_due(&mut self, now_ns: u64) {
        let age_ns = now_ns.saturating_sub(self.learnt_ns);
        let every_ns = match self.idle_ns {
            0 => PROBE_AGAIN_NS,
            _ => PROBE_EVERY_NS,
        };
        let is_due = self.learnt_ns == 0 || age_ns >= every_ns;
        if is_due && self.probe_until_ns == 0 && self.window_bytes > 0 {
            self.probe_until_ns = now_ns.saturating_add(PROBE_NS);
            self.begin_window(now_ns);
        } else if self.probe_until_ns != 0 && now_ns >= self.probe_until_ns {
            self.end_probe(now_ns);
        }
    }

    /// The next one comes when it is due again, also if too little was read to learn from.
    fn end_probe(&mut self, now_ns: u64) {
        self.probe_until_ns = 0;
        self.learnt_ns = now_ns;
    }

    fn decide(&mut self, now_ns: u64, floor: u64) {
        let elapsed_ns = self.window_elapsed_ns(now_ns);
        let moved = per_second(self.window_bytes, elapsed_ns);
        let cut_off_ns = match self.idle_ns {
            0 => u64::MAX,
            idle_ns => idle_ns.saturating_mul(CUT_OFF),
        };
        let mean_ns = self.window.mean_ns(cut_off_ns);
        let is_rest = moved <= floor / 8;
        let is_at_floor = self.rate != 0 && self.rate <= floor && moved <= floor / 4 * 5;
        if is_rest || is_at_floor || self.probe_until_ns != 0 {
            self.learn(now_ns, mean_ns, is_rest);
        } else if self.idle_ns != 0 && mean_ns < self.idle_ns {
            // Better than idle, with background I/O: it is better by now.
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
        let target_ns = self.idle_ns.saturating_mul(3) / 2;
        if mean_ns > target_ns {
            self.brake(moved, floor, mean_ns >= target_ns.saturating_mul(2));
        } else {
            self.ease(moved, floor, mean_ns <= self.idle_ns.saturating_mul(5) / 4);
        }
    }

    /// The idle level: down quickly, up slowly.
    fn learn(&mut self, now_ns: u64, mean_ns: u64, is_rest: bool) {
        let reads = self.window.count();
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
            let elapsed_ns = self.window_elapsed_ns(now_ns).min(within_ns);
            let rise = u128::from(mean_ns - self.idle_ns) * u128::from(elapsed_ns);
            let rise = rise / u128::from(within_ns);
            self.idle_ns + u64::try_from(rise).unwrap_or(0)
        }
        .max(1);
    }

    fn brake(&mut self, moved: u64, floor: u64, is_far_off: bool) {
        let from = match self.rate {
            0 => {
                self.brakes += 1;
                moved
            }
            rate => rate.min(moved.max(floor)),
        };
        if self.rate != 0 && moved < self.rate / 4 * 3 {
            // Not reached: by a disk that seeks before each request, for instance.
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
            // What is not made use of must not grow, or it would be no brake when it is needed.
            let most = moved.saturating_mul(2).max(floor.saturating_mul(2));
            self.rate = self.rate.saturating_add(step).min(most.max(self.rate));
            if self.rate > self.peak / 4 * 5 && self.peak > 0 {
                self.rate = 0;
            }
        }
    }

    fn pace(&self, floor: u64) -> Pace {
        let request_bytes = match self.halvings {
            0 => 0,
            halvings => REQUEST_BYTES_MAX >> halvings.min(HALVINGS_MAX),
        };
        let in_flight = usize::from(self.halvings > 0);
        let is_probing = self.probe_until_ns != 0;
        let rate = if is_probing { floor } else { self.rate };
        let bytes_per_second = match rate {
            0 => 0,
            // Work that comes in must get done.
            rate => rate.max(floor.saturating_add(self.debt.demand())),
        };
        Pace {
            bytes_per_second,
            request_bytes,
            in_flight,
        }
    }
}

/// So many bytes in so many nanoseconds, as bytes per second.
fn per_second(bytes: u64, elapsed_ns: u64) -> u64 {
    let per_second = u128::from(bytes) * u128::from(SECOND_NS) / u128::from(elapsed_ns.max(1));
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(miri)))]
mod tests;
