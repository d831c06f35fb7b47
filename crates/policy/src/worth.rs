//! Whether warming pays: what is warmed must be read soon, or less is warmed.
//!
//! Where the hot set is much larger than the page cache, a page that was read lately is no likelier
//! to be read again before it is evicted than any other, and to warm it costs a read of the device
//! and the place of another page. Nothing tells so beforehand; the reads that follow do.

/// A generation of warmed places is judged when it is so old, in nanoseconds, ...
const GENERATION_NS: u64 = 5_000_000_000;
/// ... and so large. A smaller one is evidence of nothing, ...
const GENERATION_PLACES: u64 = 2048;
/// ... and when it has come to this age, too little is warmed to do harm.
const SMALL_GENERATION_NS: u64 = 20_000_000_000;
/// If less than one place in so many is read, warming does not pay.
const PLACES_FOR_A_READ_MAX: u64 = 5;
/// If more than two places in so many are read, it does.
const PLACES_FOR_TWO_READS: u64 = 5;
/// Each step asks for twice the heat.
const STEPS_MAX: u8 = 3;

/// Watches what becomes of warmed places. All zeros is a valid one, which has seen nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Worth {
    began_ns: u64,
    /// Places that the last generation warmed, and this one.
    warmed_before: u64,
    warmed: u64,
    /// First reads of warmed places when this generation began.
    hits_at_begin: u64,
    steps: u8,
}

impl Worth {
    /// `places` more have been warmed. It is `now_ns` of any steady clock, and so many warmed
    /// places have been read for the first time since the process began.
    pub fn note(&mut self, places: u64, hits: u64, now_ns: u64) {
        if self.began_ns == 0 {
            self.begin(hits, now_ns);
        }
        self.warmed += places;
        let age_ns = now_ns.saturating_sub(self.began_ns);
        if age_ns >= GENERATION_NS && self.warmed >= GENERATION_PLACES {
            // Reads of the youngest places are still to come: those of the last generation stand
            // for them.
            let expected = self.warmed.min(self.warmed_before);
            let hits_now = hits.saturating_sub(self.hits_at_begin);
            if expected >= GENERATION_PLACES / 2 {
                if hits_now * PLACES_FOR_A_READ_MAX < expected {
                    self.steps = (self.steps + 1).min(STEPS_MAX);
                } else if hits_now * PLACES_FOR_TWO_READS > expected * 2 {
                    self.steps = self.steps.saturating_sub(1);
                }
            }
            self.begin(hits, now_ns);
        } else if age_ns >= SMALL_GENERATION_NS {
            self.steps = self.steps.saturating_sub(1);
            self.begin(hits, now_ns);
        }
    }

    /// The heat that a page must have to be worth warming, where `least` would do if all were read.
    pub fn heat_min(&self, least: u8) -> u8 {
        u8::try_from(u32::from(least) << self.steps).unwrap_or(u8::MAX)
    }

    fn begin(&mut self, hits: u64, now_ns: u64) {
        self.began_ns = now_ns.max(1);
        self.warmed_before = self.warmed;
        self.warmed = 0;
        self.hits_at_begin = hits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A minute of tables with `places` a second, of which `percent` are read two seconds later.
    fn minute(worth: &mut Worth, begin: u64, places: u64, percent: u64, hits: &mut u64) {
        for second in begin..begin + 60 {
            if second >= begin + 2 {
                *hits += places * percent / 100;
            }
            worth.note(places, *hits, (second + 1) * SECOND);
        }
    }

    #[test]
    fn what_is_read_is_warmed() {
        let (mut worth, mut hits) = (Worth::default(), 0);
        minute(&mut worth, 0, 2000, 45, &mut hits);
        assert_eq!(worth.heat_min(16), 16);
    }

    #[test]
    fn what_is_not_read_is_warmed_less_and_less() {
        let (mut worth, mut hits) = (Worth::default(), 0);
        minute(&mut worth, 0, 2000, 10, &mut hits);
        assert_eq!(worth.heat_min(16), 128);
        minute(&mut worth, 60, 2000, 60, &mut hits);
        assert_eq!(worth.heat_min(16), 16);
    }

    #[test]
    fn little_is_tried_again() {
        let (mut worth, mut hits) = (Worth::default(), 0);
        minute(&mut worth, 0, 2000, 0, &mut hits);
        minute(&mut worth, 60, 3, 0, &mut hits);
        assert!(worth.heat_min(16) < 128);
        minute(&mut worth, 120, 3, 0, &mut hits);
        assert_eq!(worth.heat_min(16), 16);
    }

    #[test]
    fn the_first_generation_is_not_judged() {
        let mut worth = Worth::default();
        worth.note(1, 0, SECOND);
        worth.note(100_000, 0, 7 * SECOND);
        assert_eq!(worth.heat_min(16), 16);
    }
}
