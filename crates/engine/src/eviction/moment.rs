//! When and where a background thread read an SSTable, in one word.

/// Milliseconds of the coarse clock over 64, and the first page that was not read.
#[derive(Clone, Copy)]
pub(super) struct Moment(pub(super) u64);

impl Moment {
    const PAGE_BITS: u32 = 48;
    const PAGE_MASK: u64 = (1 << Self::PAGE_BITS) - 1;
    pub(super) const PAGE_BYTES: u64 = 4096;

    pub(super) fn new(clock: u32, offset: u64) -> Self {
        let page = (offset / Self::PAGE_BYTES) & Self::PAGE_MASK;
        Self(u64::from((clock >> 6) as u16) << Self::PAGE_BITS | page)
    }

    pub(super) fn offset(self) -> u64 {
        (self.0 & Self::PAGE_MASK) * Self::PAGE_BYTES
    }

    pub(super) fn age_milliseconds(self, clock: u32) -> u32 {
        let units = ((clock >> 6) as u16).wrapping_sub((self.0 >> Self::PAGE_BITS) as u16);
        u32::from(units) << 6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_a_place_and_an_age() {
        let moment = Moment::new(1_000_000, (1 << 40) + 5000);
        assert_eq!(moment.offset(), (1 << 40) + 4096);
        assert!(moment.age_milliseconds(1_000_000) < 64);
        assert!((2900..3100).contains(&moment.age_milliseconds(1_003_000)));
        assert!(
            Moment::new(u32::MAX, 0).age_milliseconds(1000) < 1100,
            "wraps"
        );
    }
}
