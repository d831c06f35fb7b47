//! The alignment of offsets, lengths and memory that direct I/O needs, as a type.

/// The unit of the page cache in bytes, and the smallest alignment that Coldstream uses. A device may
/// accept 512 bytes; with whole pages two windows never share one.
pub const PAGE_BYTES: u64 = 4096;

/// Alignment in bytes of offsets, lengths and memory for direct I/O on one filesystem: a power
/// of two, at least [`PAGE_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment(u32);

impl Alignment {
    /// The largest alignment that Coldstream accepts. Windows are multiples of it.
    pub const MAX_BYTES: u32 = 65_536;

    /// One page.
    pub const PAGE: Self = Self(PAGE_BYTES as u32);

    /// The alignment for what `statx(2)` reports of a file (`STATX_DIOALIGN`): of memory and of offsets,
    /// in bytes.
    ///
    /// - Nothing reported (before Linux 6.1): a page, which suits every block device in use.
    /// - No direct I/O on this file, or a larger alignment than any window has: `None`.
    pub fn of_reported(reported: Option<(u32, u32)>) -> Option<Self> {
        match reported {
            Some((0, _) | (_, 0)) => None,
            Some((memory_bytes, offset_bytes)) => Self::covering(memory_bytes, offset_bytes),
            None => Some(Self::PAGE),
        }
    }

    /// The alignment that satisfies both requirements. `None` if no window could: the larger one is no
    /// power of two, or larger than [`Alignment::MAX_BYTES`].
    pub fn covering(memory_bytes: u32, offset_bytes: u32) -> Option<Self> {
        let bytes = memory_bytes.max(offset_bytes).max(PAGE_BYTES as u32);
        (bytes.is_power_of_two() && bytes <= Self::MAX_BYTES).then_some(Self(bytes))
    }

    /// The alignment in bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.0)
    }

    /// The last aligned offset at or before `offset`.
    pub fn down(self, offset: u64) -> u64 {
        offset & !(self.bytes() - 1)
    }

    /// The first aligned offset at or after `offset`. Saturates at the largest aligned offset.
    pub fn up(self, offset: u64) -> u64 {
        self.down(offset.saturating_add(self.bytes() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn covers_both_requirements() {
        assert_eq!(Alignment::covering(4, 512).unwrap().bytes(), 4096);
        assert_eq!(Alignment::covering(4096, 16384).unwrap().bytes(), 16384);
        assert_eq!(Alignment::covering(3, 6000), None);
        assert_eq!(Alignment::covering(4, 131_072), None);
        assert_eq!(Alignment::covering(1, 1), Some(Alignment::PAGE));
        assert_eq!(Alignment::of_reported(None), Some(Alignment::PAGE));
        assert_eq!(Alignment::of_reported(Some((4, 0))), None);
        assert_eq!(
            Alignment::of_reported(Some((4, 512))),
            Some(Alignment::PAGE)
        );
    }

    proptest! {
        #[test]
        fn down_and_up_enclose(offset in 0_u64..1 << 60, power in 12_u32..=16) {
            let alignment = Alignment::covering(1, 1 << power).unwrap();
            prop_assert!(alignment.down(offset) <= offset && offset <= alignment.up(offset));
            prop_assert_eq!(alignment.down(offset) % alignment.bytes(), 0);
            prop_assert!(alignment.up(offset) - alignment.down(offset) <= alignment.bytes());
        }
    }
}
