//! The debt of compactions: bytes flushed, times the bytes that a flushed byte costs compactions, minus the
//! bytes that they moved.

use super::observed::{Observed, per_second};

/// Pacing stops at this debt, in bytes, and begins again at a quarter of it. At half of it compactions go as
/// fast as work comes in.
pub(super) const BOUND_BYTES: u64 = 2 << 30;
/// The largest debt that is kept, so that it can be paid.
const BYTES_MAX: u64 = 2 * BOUND_BYTES;
/// The cost of a flushed byte for compactions, in sixteenths of a byte: its first value and its bounds. The
/// first value stands for reads and writes of a few levels.
const COST_AT_FIRST: u64 = 8 * UNIT;
const COST_MIN: u64 = 2 * UNIT;
const COST_MAX: u64 = 64 * UNIT;
const UNIT: u64 = 16;
/// The cost is learnt if this number of bytes was flushed between two rests.
const TELLING_BYTES: u64 = 64 << 20;
/// Compactions that do not rest for this time, while flushes go on, may fall behind: a flushed byte may
/// cost more than is known.
const RESTLESS_NS: u64 = 8_000_000_000;
/// The time over which the rate of flushes is averaged.
const FLUSH_MEAN_NS: u64 = 10_000_000_000;

/// The debt. All-zero memory is none.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Debt {
    bytes: u64,
    /// Bytes that were flushed, and that compactions moved, since their last rest.
    flushed_bytes: u64,
    compacted_bytes: u64,
    /// Time without a rest, since the cost was last raised for it.
    restless_ns: u64,
    /// The cost in sixteenths of a byte; 0 is unknown.
    cost: u64,
    /// The rate of flushes, in bytes per second.
    flush_rate: u64,
    is_due: bool,
    /// The cost was raised because compactions did not rest. It is a guess.
    is_guessed: bool,
    releases: u64,
}

impl Debt {
    /// Records the events of the elapsed time.
    pub(super) fn record(&mut self, observed: &Observed<'_>, elapsed_ns: u64) {
        let Observed {
            flushed_bytes,
            compacted_bytes,
            ..
        } = *observed;
        self.flushed_bytes = self.flushed_bytes.saturating_add(flushed_bytes);
        self.compacted_bytes = self.compacted_bytes.saturating_add(compacted_bytes);
        if self.flushed_bytes > 0 {
            self.restless_ns = self.restless_ns.saturating_add(elapsed_ns);
        }
        if self.restless_ns >= RESTLESS_NS {
            // In the end pacing stops until compactions have caught up.
            self.restless_ns = 0;
            self.is_guessed = true;
            self.cost = (self.cost() / 4 * 5).min(COST_MAX);
        }
        let elapsed_ns = elapsed_ns.min(FLUSH_MEAN_NS);
        let now = u128::from(per_second(flushed_bytes, elapsed_ns));
        let mean = u128::from(self.flush_rate);
        let (old, new) = (FLUSH_MEAN_NS - elapsed_ns, elapsed_ns);
        let mean = (mean * u128::from(old) + now * u128::from(new)) / u128::from(FLUSH_MEAN_NS);
        self.flush_rate = u64::try_from(mean).unwrap_or(u64::MAX);

        let more = self.costs(flushed_bytes);
        self.bytes = self
            .bytes
            .saturating_add(more)
            .saturating_sub(compacted_bytes)
            .min(BYTES_MAX);
        if !self.is_due && self.bytes >= BOUND_BYTES {
            self.is_due = true;
            self.releases = self.releases.saturating_add(1);
        } else if self.bytes <= BOUND_BYTES / 4 {
            self.is_due = false;
        }
    }

    /// Compactions have rested: the debt is zero, although `flushed_bytes` were flushed meanwhile. The bytes
    /// that they moved since the last rest are the cost of the flushes.
    pub(super) fn reset_at_rest(&mut self, flushed_bytes: u64) {
        if self.flushed_bytes >= TELLING_BYTES {
            let moved = u128::from(self.compacted_bytes) * u128::from(UNIT);
            let cost = moved / u128::from(self.flushed_bytes);
            let cost = u64::try_from(cost).unwrap_or(u64::MAX);
            self.cost = cost.clamp(COST_MIN, COST_MAX);
        }
        // These bytes are not compacted yet.
        self.flushed_bytes = flushed_bytes;
        self.compacted_bytes = 0;
        self.restless_ns = 0;
        self.bytes = 0;
        self.flush_rate = 0;
        self.is_due = false;
        self.is_guessed = false;
    }

    fn cost(&self) -> u64 {
        match self.cost {
            0 => COST_AT_FIRST,
            cost => cost,
        }
    }

    /// The bytes that compactions move for `flushed_bytes`.
    fn costs(&self, flushed_bytes: u64) -> u64 {
        let bytes = u128::from(flushed_bytes) * u128::from(self.cost()) / u128::from(UNIT);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The rate beside the floor, in bytes per second, at which the debt stays at half of its bound.
    pub(super) fn demand(&self) -> u64 {
        let needed = u128::from(self.costs(self.flush_rate));
        let demand = needed * 2 * u128::from(self.bytes) / u128::from(BOUND_BYTES);
        u64::try_from(demand).unwrap_or(u64::MAX)
    }

    /// Whether pacing must stop.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// The same, without guesses: compactions that never rest may keep up all the same.
    pub(super) fn is_surely_due(&self) -> bool {
        self.is_due && !self.is_guessed
    }

    pub(super) fn releases(&self) -> u64 {
        self.releases
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn observed(flushed_bytes: u64, compacted_bytes: u64) -> Observed<'static> {
        Observed {
            flushed_bytes,
            compacted_bytes,
            background_bytes: compacted_bytes,
            ..Observed::default()
        }
    }

    #[test]
    fn it_is_due_until_most_of_it_is_paid() {
        let mut debt = Debt::default();
        debt.record(&observed(64 << 20, 0), SECOND_NS);
        assert!(!debt.is_due() && debt.bytes() == 512 << 20);
        debt.record(&observed(192 << 20, 0), SECOND_NS);
        assert!(debt.is_due() && debt.is_surely_due() && debt.releases() == 1);
        debt.record(&observed(0, 1 << 30), SECOND_NS);
        assert!(debt.is_due(), "half of it is left");
        debt.record(&observed(0, 512 << 20), SECOND_NS);
        assert!(!debt.is_due());
        debt.record(&observed(512 << 20, 0), SECOND_NS);
        assert!(debt.is_due() && debt.releases() == 2);
        debt.reset_at_rest(1 << 30);
        assert!(!debt.is_due() && debt.bytes() == 0 && debt.demand() == 0);
    }

    #[test]
    fn what_a_flush_costs_is_known_when_compactions_rest() {
        let mut debt = Debt::default();
        debt.record(&observed(128 << 20, 0), SECOND_NS);
        debt.record(&observed(0, 1920 << 20), SECOND_NS);
        assert_eq!(debt.cost(), COST_AT_FIRST);
        debt.reset_at_rest(0);
        assert_eq!(debt.cost(), 15 * UNIT);
        debt.record(&observed(1 << 20, 1 << 30), SECOND_NS);
        debt.reset_at_rest(0);
        assert_eq!(debt.cost(), 15 * UNIT, "too little to tell");
    }

    #[test]
    fn compactions_that_never_rest_are_let_go() {
        let mut debt = Debt::default();
        let second = observed(8 << 20, 64 << 20);
        for _ in 0..60 {
            debt.record(&second, SECOND_NS);
        }
        assert_eq!(debt.releases(), 1, "they do what was thought enough");
        assert!(debt.is_due() && !debt.is_surely_due());
        assert!(debt.cost() > 3 * COST_AT_FIRST);
        for _ in 0..600 {
            debt.record(&second, SECOND_NS);
        }
        assert!(debt.is_due() && debt.cost() == COST_MAX);
        debt.reset_at_rest(0);
        assert!(!debt.is_due() && debt.cost() == COST_AT_FIRST);
    }

    #[test]
    fn at_half_of_the_bound_work_is_done_as_it_comes() {
        let mut debt = Debt::default();
        for _ in 0..70 {
            let moved = debt.bytes().saturating_sub(BOUND_BYTES / 2);
            debt.record(&observed(10 << 20, moved), SECOND_NS / 10);
        }
        let needed = debt.costs(debt.flush_rate);
        debt.record(&observed(0, debt.bytes() - BOUND_BYTES / 2), 0);
        assert_eq!(debt.demand(), needed);
        assert!(needed > 200 << 20, "{needed}");
    }
}
