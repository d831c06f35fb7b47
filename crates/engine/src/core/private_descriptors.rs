//! How many descriptors Coldstream may have for itself, and which numbers they get.
//!
//! The application must get the numbers that it would get without Coldstream. So private descriptors have
//! high numbers, are few, and there are none in a process that may open few files.

use coldstream_io::sys::process;
use coldstream_policy::descriptors;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Private descriptors start at this number, or lower where the limit leaves too few above it.
const LOWEST_NUMBER_MAX: u64 = 8192;

/// All-zero memory allows none.
#[repr(C)]
pub struct PrivateDescriptors {
    lowest: AtomicI32,
    count: AtomicU32,
    count_max: AtomicU32,
}

impl PrivateDescriptors {
    /// Sets number and lowest number from the process's limit (`RLIMIT_NOFILE`).
    pub fn set_limits(&self) {
        self.set_limits_of(process::descriptor_limit());
    }

    fn set_limits_of(&self, limit: u64) {
        let most = descriptors::share_of(limit);
        let lowest = (limit - most).min(LOWEST_NUMBER_MAX);
        self.lowest.store(lowest as i32, Ordering::Relaxed);
        self.count_max.store(most as u32, Ordering::Relaxed);
    }

    /// The lowest number of a private descriptor.
    pub fn lowest(&self) -> i32 {
        self.lowest.load(Ordering::Relaxed)
    }

    /// Whether there are any at present.
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether one more may be opened.
    pub fn has_room(&self) -> bool {
        self.count.load(Ordering::Relaxed) < self.count_max.load(Ordering::Relaxed)
    }

    /// Whether one more may be opened, to be kept as long as the application keeps its own. Of many SSTables, these would
    /// take all. An eighth is for writes and handovers, which have theirs for a short time.
    pub fn has_room_to_keep(&self) -> bool {
        let most = self.count_max.load(Ordering::Relaxed);
        self.count.load(Ordering::Relaxed) < most - most / 8
    }

    /// One was opened. Whether it is the only one.
    pub fn add(&self) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// One is about to be closed.
    pub fn remove(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_the_limit_above_all_that_the_application_uses() {
        let limits = |limit| {
            // SAFETY: all-zero memory is a valid one.
            let descriptors: PrivateDescriptors = unsafe { std::mem::zeroed() };
            descriptors.set_limits_of(limit);
            let most = descriptors.count_max.load(Ordering::Relaxed);
            (descriptors.lowest(), most)
        };
        assert_eq!(limits(1 << 20), (8192, 8192));
        assert_eq!(limits(1024), (896, 128));
        assert_eq!(limits(256), (224, 32));
        assert_eq!(limits(255), (255, 0));
    }

    #[test]
    fn there_is_room_up_to_the_limit() {
        // SAFETY: all-zero memory is a valid one.
        let descriptors: PrivateDescriptors = unsafe { std::mem::zeroed() };
        assert!(!descriptors.has_room() && !descriptors.any());
        descriptors.set_limits_of(256);
        assert!(descriptors.has_room_to_keep());
        assert!(descriptors.add());
        assert!(!(1..28).any(|_| descriptors.add()));
        assert!(descriptors.has_room() && !descriptors.has_room_to_keep());
        assert!(!(0..4).any(|_| descriptors.add()));
        assert!(!descriptors.has_room() && descriptors.any());
        descriptors.remove();
        assert!(descriptors.has_room());
    }
}
