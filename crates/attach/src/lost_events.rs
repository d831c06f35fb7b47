//! When it is said how many events the kernel lost. Pure logic.

use std::time::{Duration, Instant};

/// It is said at once, and then at most once in so long. Ten seconds.
const PAUSE: Duration = Duration::from_secs(10);

/// Events that were lost.
#[derive(Debug, Default)]
pub(crate) struct LostEvents {
    untold: u64,
    told_at: Option<Instant>,
}

impl LostEvents {
    pub(crate) fn add(&mut self, lost: u64) {
        self.untold += lost;
    }

    /// Those that nobody was told of yet, if it is time to tell.
    #[must_use]
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<u64> {
        let rests = (self.told_at).is_some_and(|told_at| now.duration_since(told_at) < PAUSE);
        if self.untold == 0 || rests {
            return None;
        }
        self.told_at = Some(now);
        self.take_rest()
    }

    /// The same at the end.
    #[must_use]
    pub(crate) fn take_rest(&mut self) -> Option<u64> {
        let untold = std::mem::take(&mut self.untold);
        (untold > 0).then_some(untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_loss_is_told_at_once_and_later_ones_together() {
        let mut lost = LostEvents::default();
        let start = Instant::now();
        assert_eq!(lost.take_due(start), None);
        lost.add(3);
        assert_eq!(lost.take_due(start), Some(3));
        lost.add(4);
        lost.add(5);
        assert_eq!(lost.take_due(start + PAUSE / 2), None);
        assert_eq!(lost.take_due(start + PAUSE), Some(9));
        assert_eq!(lost.take_due(start + 3 * PAUSE), None);
        lost.add(1);
        assert_eq!(lost.take_due(start + 3 * PAUSE), Some(1));
        lost.add(2);
        assert_eq!((lost.take_rest(), lost.take_rest()), (Some(2), None));
    }
}
