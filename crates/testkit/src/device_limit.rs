//! A device as fast as a cloud volume: the `blkio` controller of cgroup v1, as root. That cgroup limits the process
//! that submits a request, not the kernel's own writers.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Moves this process, and those that it starts, into a cgroup with a limited rate. Dropping it moves them back.
#[derive(Debug)]
pub struct DeviceLimit(PathBuf);

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
        let limit = Self(format!("{HIERARCHY}/coldstream-{process}").into());
        std::fs::create_dir(&limit.0)?;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let value = format!("{major}:{minor} {bytes_per_second}");
        std::fs::write(limit.0.join(format!("blkio.throttle.{rule}")), value)?;
        std::fs::write(limit.0.join("cgroup.procs"), process)?;
        Ok(limit)
    }
}

impl Drop for DeviceLimit {
    fn drop(&mut self) {
        let process = std::process::id().to_string();
        let _ = std::fs::write(format!("{HIERARCHY}/cgroup.procs"), process);
        let _ = std::fs::remove_dir(&self.0);
    }
}
