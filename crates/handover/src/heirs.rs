//! What an output inherits: the heat that is recorded for its pages once it has been warmed.

use crate::piece::{PAGE_BYTES, Piece};
use crate::plan::{Page, Plan};
use coldstream_policy::heat::{Heat, Origin};
use coldstream_sstable::Result;

/// The least heat that is kept: the sketch knows even numbers only.
pub const KEPT_MIN: f32 = 2.0;
/// The most that it knows.
const KEPT_MAX: f32 = 254.0;

/// The pages of an output that inherit heat.
pub struct Heirs<'p> {
    pages: Vec<Page>,
    plan: &'p Plan,
}

impl<'p> Heirs<'p> {
    /// Those in which one of `pieces` begins. `plan` has the pages that are to be warmed.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](coldstream_sstable::Error::OutOfMemory).
    pub fn of(plan: &'p Plan, pieces: &[Piece]) -> Result<Self> {
        let pages = Plan::beginnings(pieces, KEPT_MIN)?;
        Ok(Self { pages, plan })
    }

    /// Records their heat under the output's number `file`, with the epoch `now`. Planned pages from `warm_end` on are
    /// not warm: there was no time. Returns how many ranges are warm.
    #[must_use]
    pub fn record(&self, heat: Heat<'_>, file: u64, now: u16, warm_end: u64) -> u64 {
        let mut ranges_warmed = 0;
        for page in &self.pages {
            let is_warm = page.number < warm_end && self.plan.contains(page.number);
            ranges_warmed += u64::from(is_warm);
            let origin = match is_warm {
                true => Origin::Warmed,
                false => Origin::Estimated,
            };
            let (offset, warmth) = (page.number * PAGE_BYTES, page.heat.min(KEPT_MAX) as u8);
            heat.set(file, offset, warmth, origin, now);
        }
        ranges_warmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Limits, SHARE_MIN};
    use coldstream_policy::heat::Touched;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn pages_for_which_there_was_no_time_are_not_warm() {
        let words: Vec<AtomicU64> = (0..4096).map(|_| AtomicU64::new(0)).collect();
        let (heat, now, file) = (Heat::new(&words).unwrap(), 1, 7);
        let piece = |page, heat| Piece {
            offset: page * PAGE_BYTES,
            length: PAGE_BYTES,
            heat,
            is_one_of_few: false,
        };
        // The last one is too cold to be warmed.
        let pieces = [
            piece(3, 200.0),
            piece(40, 1000.0),
            piece(41, 200.0),
            piece(5, KEPT_MIN),
        ];
        let limits = Limits {
            heat_min: SHARE_MIN,
            pages_max: 100,
        };
        let plan = Plan::choose(pieces, limits).unwrap();
        let heirs = Heirs::of(&plan, &pieces).unwrap();
        assert_eq!(heirs.record(heat, file, now, 40), 1);
        let inherited = |page: u64| heat.of(file, page * PAGE_BYTES, now);
        assert_eq!([3, 5, 40, 50].map(inherited), [200, 2, 254, 0]);
        let touch = |page| heat.touch(file, page * PAGE_BYTES, PAGE_BYTES, now);
        assert!(matches!(touch(3), Touched::FirstSinceWarmed));
        assert!(matches!(touch(40), Touched::Plain));
        assert!(matches!(touch(5), Touched::Plain));
        assert_eq!(heirs.record(heat, file, now, u64::MAX), 3);
    }
}
