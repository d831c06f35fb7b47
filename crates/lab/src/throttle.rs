//! Holds a run's requests to the rate of a cloud volume, by cgroup version 1's `blkio` controller
//! (`Documentation/admin-guide/cgroup-v1/blkio-controller.rst`): reads and writes each for themselves. Writeback of dirty
//! pages is not charged to who wrote them there, and so not held: buffered modes have it easier
//! than on a real volume.

use crate::cgroup::{OwnCgroup, mounts, version_1};
use std::path::PathBuf;

/// A `blkio` cgroup of our own, removed when dropped.
#[derive(Debug)]
pub struct Throttle {
    own: OwnCgroup,
}

/// What the device may do; 0 is as much as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DeviceRate {
    /// Bytes a second, read and written each.
    pub bytes_per_second: u64,
    /// Requests a second, reads and writes each.
    pub requests_per_second: u64,
}

impl DeviceRate {
    /// Whether there is nothing to hold.
    pub fn is_unlimited(self) -> bool {
        self.bytes_per_second == 0 && self.requests_per_second == 0
    }
}

impl Throttle {
    /// Holds processes that enter it to a rate on a device, `major:minor` of a whole disk. The
    /// error says what is missing.
    pub fn create(device_number: &str, rate: DeviceRate) -> Result<Self, String> {
        let mounts = mounts()?;
        let parent =
            version_1(&mounts, "blkio").ok_or("no blkio cgroup of version 1 is mounted")?;
        let own = OwnCgroup::make_in(&parent)?;
        for (what, value) in [
            ("bps", rate.bytes_per_second),
            ("iops", rate.requests_per_second),
        ] {
            for way in ["read", "write"].into_iter().filter(|_| value != 0) {
                let file = format!("blkio.throttle.{way}_{what}_device");
                own.write(&file, &format!("{device_number} {value}"))?;
            }
        }
        Ok(Self { own })
    }

    /// The file that takes process ids.
    pub fn processes_file(&self) -> PathBuf {
        self.own.processes_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_found_by_its_option() {
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                      cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n";
        assert_eq!(
            version_1(mounts, "blkio"),
            Some("/sys/fs/cgroup/blkio".into())
        );
        assert_eq!(
            version_1("cgroup2 /sys/fs/cgroup cgroup2 rw,blkio 0 0\n", "blkio"),
            None
        );
    }
}
