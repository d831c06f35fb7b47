//! Limits the requests of a run to the rate of a cloud volume.
//!
//! Uses the `blkio` controller of cgroup version 1
//! (`Documentation/admin-guide/cgroup-v1/blkio-controller.rst`), with separate limits for reads and writes. It does not
//! charge writeback of dirty pages to the writer, so writeback is not limited. Buffered modes therefore have an
//! advantage over a real volume.

use coldstream_host::cgroup::version_1;
use coldstream_host::mounts;
use coldstream_host::own_cgroup::{CgroupError, OwnCgroup};
use std::path::{Path, PathBuf};

/// The name of the cgroups of this process, in every hierarchy.
pub fn cgroup_name() -> String {
    format!("coldstream-lab-{}", std::process::id())
}

/// Why there is no limit.
#[derive(Debug, thiserror::Error)]
pub enum ThrottleError {
    /// The controller is missing.
    #[error("no blkio cgroup of version 1 is mounted")]
    NoController,
    /// The hierarchy refused.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

/// A `blkio` cgroup. Dropping it removes it.
#[derive(Debug)]
pub struct Throttle {
    own: OwnCgroup,
}

/// The limit of a device; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DeviceRate {
    /// Bytes a second, read and written each.
    pub bytes_per_second: u64,
    /// Requests a second, reads and writes each.
    pub requests_per_second: u64,
}

impl DeviceRate {
    /// No limit.
    pub const UNLIMITED: Self = Self {
        bytes_per_second: 0,
        requests_per_second: 0,
    };

    /// Whether it limits nothing.
    pub fn is_unlimited(self) -> bool {
        self == Self::UNLIMITED
    }
}

impl Throttle {
    /// Limits processes that enter it to a rate on a device, `major:minor` of a whole disk.
    ///
    /// # Errors
    /// There is no such controller, or it refused.
    pub fn create(device_number: &str, rate: DeviceRate) -> Result<Self, ThrottleError> {
        let mounts = mounts::read();
        let parent = version_1(&mounts, "blkio").ok_or(ThrottleError::NoController)?;
        let own = OwnCgroup::make_in(Path::new(&parent.point), &cgroup_name())?;
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
