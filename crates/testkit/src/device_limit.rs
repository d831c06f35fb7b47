//! A device as fast as a cloud volume: the `blkio` controller of cgroup v1, as root. That cgroup limits the process
//! that submits a request, not the kernel's own writers.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Moves this process, and those that it starts, into a cgroup with a limited rate. Dropping it moves them back.
#[derive(Debug)]
pub struct DeviceLimit {
    cgroup: PathBuf,
    rule: String,
    device: String,
}

/// Where distributions mount the controller.
const HIERARCHY: &str = "/sys/fs/cgroup/blkio";

impl DeviceLimit {
    /// Limits the device of a file or directory. `rule` is `read_bps_device` or `write_bps_device`.
    ///
    /// # Errors
    /// There is no such controller, or this process may not use it.
    pub fn hold(path: &Path, rule: &str, bytes_per_second: u64) -> io::Result<Self> {
        let device = std::fs::metadata(path)?.dev();
        let process = std::process::id().to_string();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let limit = Self {
            cgroup: format!("{HIERARCHY}/coldstream-{process}").into(),
            rule: format!("blkio.throttle.{rule}"),
            device: format!("{major}:{minor}"),
        };
        std::fs::create_dir(&limit.cgroup)?;
        limit.change(bytes_per_second)?;
        std::fs::write(limit.cgroup.join("cgroup.procs"), process)?;
        Ok(limit)
    }

    /// Changes the rate.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn change(&self, bytes_per_second: u64) -> io::Result<()> {
        let value = format!("{} {bytes_per_second}", self.device);
        std::fs::write(self.cgroup.join(&self.rule), value)
    }
}

impl Drop for DeviceLimit {
    fn drop(&mut self) {
        let process = std::process::id().to_string();
        let _ = std::fs::write(format!("{HIERARCHY}/cgroup.procs"), process);
        let _ = std::fs::remove_dir(&self.cgroup);
    }
}
