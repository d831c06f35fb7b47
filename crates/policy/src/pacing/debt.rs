//! What compactions are behind: bytes flushed, times the bytes that a flushed byte costs them,
//! less the bytes that they moved.

use super::{Observed, per_second};

/// The brake opens when compactions are so many bytes behind, and stays so until they are a
/// quarter of it. At half of it they go as fast as work comes in.
pub(super) const BOUND_BYTES: u64 = 2 << 30;
/// More is not remembered: it must be paid one day.
const BYTES_MAX: u64 = 2 * BOUND_BYTES;
/// What a flushed byte costs compactions, in sixteenths of a byte: until it has been seen (reads and
/// writes of a few levels), and what it may be.
const COST_AT_FIRST: u64 = 8 * UNIT;
const COST_MIN: u64 = 2 * UNIT;
const COST_MAX: u64 = 64 * UNIT;
const UNIT: u64 = 16;
/// Between two rests so much must have been flushed to tell.
const TELLING_BYTES: u64 = 64 << 20;
/// Compactions that have not rested for so many nanoseconds, while flushes went on, may be falling
/// behind unseen: a flushed byte may cost more than is known.
const RESTLESS_NS: u64 = 8_000_000_000;
/// The pace of flushes is a mean of so many nanoseconds.
const FLUSH_MEAN_NS: u64 = 10_000_000_000;

/// All-zero memory owes nothing.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Debt {
    bytes: u64,
    /// Flushed, and what compactions moved, since they last rested.
    flushed_bytes: u64,
    compacted_bytes: u64,
    /// How long they have not, since this was last made something of.
    restless_ns: u64,
    /// Sixteenths of a byte; 0 is not known yet.
    cost: u64,
    /// Bytes per second that are flushed.
    flush_rate: u64,
    is_due: bool,
    releases: u64,
}

impl Debt {
    /// What has happened in so much time.
    pub(super) fn note(&mut self, observed: &Observed<'_>, elapsed_ns: u64) {
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
            // In the end the brake is open, and stays so until they have caught up.
            self.restless_ns = 0;
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

    /// Compactions have rested: nothing is owed, though this was flushed meanwhile, and what they
    /// moved since they last rested is what flushes cost.
    pub(super) fn settle(&mut self, flushed_bytes: u64) {
        if self.flushed_bytes >= TELLING_BYTES {
            let moved = u128::from(self.compacted_bytes) * u128::from(UNIT);
            let cost = moved / u128::from(self.flushed_bytes);
            let cost = u64::try_from(cost).unwrap_or(u64::MAX);
            self.cost = cost.clamp(COST_MIN, COST_MAX);
        }
        // It is not compacted yet.
        self.flushed_bytes = flushed_bytes;
        self.compacted_bytes = 0;
        self.restless_ns = 0;
        self.bytes = 0;
        self.flush_rate = 0;
        self.is_due = false;
    }

    fn cost(&self) -> u64 {
        match self.cost {
            0 => COST_AT_FIRST,
            cost => cost,
        }
    }

    /// Bytes that compactions move for so many that are flushed.
    fn costs(&self, flushed_bytes: u64) -> u64 {
        let bytes = u128::from(flushed_bytes) * u128::from(self.cost()) / u128::from(UNIT);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Bytes per second that must be moved beside the floor so that the debt stays where it is at
    /// half of its bound.
    pub(super) fn demand(&self) -> u64 {
        let needed = u128::from(self.costs(self.flush_rate));
        let demand = needed * 2 * u128::from(self.bytes) / u128::from(BOUND_BYTES);
        u64::try_from(demand).unwrap_or(u64::MAX)
    }

    /// Whether the brake must be open.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
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
        debt.note(&observed(64 << 20, 0), SECOND_NS);
        assert!(!debt.is_due() && debt.bytes() == 512 << 20);
        debt.note(&observed(192 << 20, 0), SECOND_NS);
        assert!(debt.is_due() && debt.releases() == 1);
        debt.note(&observed(0, 1 << 30), SECOND_NS);
        assert!(debt.is_due(), "half of it is left");
        debt.note(&observed(0, 512 << 20), SECOND_NS);
        assert!(!debt.is_due());
        debt.note(&observed(512 << 20, 0), SECOND_NS);
        assert!(debt.is_due() && debt.releases() == 2);
        debt.settle(1 << 30);
        assert!(!debt.is_due() && debt.bytes() == 0 && debt.demand() == 0);
    }

    #[test]
    fn what_a_flush_costs_is_known_when_compactions_rest() {
        let mut debt = Debt::default();
        debt.note(&observed(128 << 20, 0), SECOND_NS);
        debt.note(&observed(0, 1920 << 20), SECOND_NS);
        assert_eq!(debt.cost(), COST_AT_FIRST);
        debt.settle(0);
        assert_eq!(debt.cost(), 15 * UNIT);
        debt.note(&observed(1 << 20, 1 << 30), SECOND_NS);
        debt.settle(0);
        assert_eq!(debt.cost(), 15 * UNIT, "too little to tell");
    }

    #[test]
    fn compactions_that_never_rest_are_let_go() {
        let mut debt = Debt::default();
        let second = observed(8 << 20, 64 << 20);
        for _ in 0..60 {
            debt.note(&second, SECOND_NS);
        }
        assert_eq!(debt.releases(), 1, "they do what was thought enough");
        assert!(debt.cost() > 3 * COST_AT_FIRST);
        for _ in 0..600 {
            debt.note(&second, SECOND_NS);
        }
        assert!(debt.is_due() && debt.cost() == COST_MAX);
        debt.settle(0);
        assert!(!debt.is_due() && debt.cost() == COST_AT_FIRST);
    }

    #[test]
    fn at_half_of_the_bound_work_is_done_as_it_comes() {
        let mut debt = Debt::default();
        for _ in 0..70 {
            let moved = debt.bytes().saturating_sub(BOUND_BYTES / 2);
            debt.note(&observed(10 << 20, moved), SECOND_NS / 10);
        }
        let needed = debt.costs(debt.flush_rate);
        debt.note(&observed(0, debt.bytes() - BOUND_BYTES / 2), 0);
        assert_eq!(debt.demand(), needed);
        assert!(needed > 200 << 20, "{needed}");
    }
}
