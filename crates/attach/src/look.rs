//! How often the session looks.

use std::time::Duration;

/// Time between two looks. It bounds how much a compaction can bring in before the first drop.
pub const LOOK: Duration = Duration::from_millis(50);
/// Looks without an event after which nobody works on a file, or by a descriptor, any more: one second.
pub const REST_LOOKS: u64 = 20;

/// What is due once in so many looks. Numbers of looks may be passed over ([`crate::model::Model::skip_looks`]).
#[derive(Debug)]
pub(crate) struct Interval {
    looks: u64,
    /// The look of the last time.
    last: u64,
}

/// Once a second.
impl Default for Interval {
    fn default() -> Self {
        Self::of(REST_LOOKS)
    }
}

impl Interval {
    pub(crate) fn of(looks: u64) -> Self {
        Self { looks, last: 0 }
    }

    /// Whether it is due at this look.
    #[must_use]
    pub(crate) fn is_due(&self, look: u64) -> bool {
        look.saturating_sub(self.last) >= self.looks
    }

    /// The same. Then it is not due again for a while.
    #[must_use]
    pub(crate) fn take_turn(&mut self, look: u64) -> bool {
        let is_due = self.is_due(look);
        if is_due {
            self.last = look;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    #[test]
    fn looks_that_are_passed_over_take_no_turn_away() {
        let mut model = Model::default();
        model.end_look();
        let mut second = Interval::default();
        let mut turns = 0;
        // The numbers are odd: none is a multiple of twenty.
        while model.look() < 10 * REST_LOOKS {
            model.skip_looks(1);
            model.end_look();
            turns += u64::from(second.take_turn(model.look()));
        }
        assert_eq!(turns, 10);
    }
}
