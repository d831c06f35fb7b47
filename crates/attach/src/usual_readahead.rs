//! Whether a descriptor was advised to be sequential, as its readahead shows. Pure logic.
//!
//! Each descriptor gets the device's readahead when it is opened (`file_ra_state_init`, mm/readahead.c). The advice makes that
//! twice the device's (`generic_fadvise`, mm/fadvise.c).

use std::collections::HashMap;

/// The readahead of each device, in pages.
#[derive(Debug, Default)]
pub struct UsualReadahead {
    /// All values of a device so far; the last one is in force. Descriptors keep that of their open.
    values: HashMap<u64, Vec<u32>>,
}

impl UsualReadahead {
    /// The readahead of a device from now on.
    pub fn set(&mut self, device: u64, pages: u32) {
        let values = self.values.entry(device).or_default();
        if values.last() != Some(&pages) {
            values.retain(|value| *value != pages);
            values.push(pages);
        }
    }

    /// Whether a descriptor that reads so far ahead has the advice. False where that is not sure.
    #[must_use]
    pub fn is_advised(&self, device: u64, window_pages: u32) -> bool {
        let Some(values) = self.values.get(&device) else {
            return false;
        };
        let is_twice = values.last().is_some_and(|now| window_pages == 2 * now);
        is_twice && !values.contains(&window_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_twice_the_devices_own_readahead_is_advice() {
        let mut usual = UsualReadahead::default();
        assert!(!usual.is_advised(1, 64));
        usual.set(1, 32);
        usual.set(2, 64);
        assert!(usual.is_advised(1, 64) && usual.is_advised(2, 128));
        for (device, window) in [(1, 32), (1, 128), (2, 64), (3, 64)] {
            assert!(!usual.is_advised(device, window), "{device}: {window}");
        }
        usual.set(1, 0);
        assert!(!usual.is_advised(1, 0));
    }

    #[test]
    fn a_descriptor_of_before_a_change_is_not_taken_for_advised() {
        let mut usual = UsualReadahead::default();
        for pages in [64, 32] {
            usual.set(1, pages);
        }
        assert!(!usual.is_advised(1, 64));
        for pages in [64, 128] {
            usual.set(1, pages);
        }
        assert!(!usual.is_advised(1, 128) && usual.is_advised(1, 256));
    }
}
