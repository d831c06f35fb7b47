//! A device that is as fast as a cloud volume: cgroup v1 `blkio`, as root. That cgroup holds whoever
//! submits a request, not the kernel's own writers. The benches of `preload` use it too.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// This process, and those that it starts, in a cgroup that may use the device so fast and no
/// faster; ended when dropped.
pub struct DeviceLimit(PathBuf);

impl DeviceLimit {
    /// Holds the device of a file or directory; `rule` is `read_bps_device` or `write_bps_device`.
    pub fn hold(place: &Path, rule: &str, bytes_per_second: u64) -> std::io::Result<Self> {
        let device = std::fs::metadata(place)?.dev();
        let limit = Self(format!("/sys/fs/cgroup/blkio/coldstream-{}", std::process::id()).into());
        std::fs::create_dir(&limit.0)?;
        let (major, minor) = (libc::major(device), libc::minor(device));
        let value = format!("{major}:{minor} {bytes_per_second}");
        std::fs::write(limit.0.join(format!("blkio.throttle.{rule}")), value)?;
        let process = std::process::id().to_string();
        std::fs::write(limit.0.join("cgroup.procs"), process)?;
        Ok(limit)
    }
}

impl Drop for DeviceLimit {
    fn drop(&mut self) {
        let process = std::process::id().to_string();
        let _ = std::fs::write("/sys/fs/cgroup/blkio/cgroup.procs", process);
        let _ = std::fs::remove_dir(&self.0);
    }
}
