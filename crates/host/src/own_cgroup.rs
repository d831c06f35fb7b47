//! Cgroups that exist for one run. Dropping one removes it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coldstream_policy::memory_limits::Version;
use rustix::io::Errno;
use thiserror::Error;

use crate::cgroup::memory_hierarchy;
use crate::counters::value;
use crate::kernel_file::number;
use crate::mounts;

/// Pages, and a process that was killed, keep a cgroup busy for a moment. Removing it is tried this often.
const REMOVALS_MAX: u32 = 250;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// Why there is no such cgroup.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// No hierarchy has a memory controller.
    #[error("no memory cgroup is mounted")]
    NoMemoryHierarchy,
    /// The unified hierarchy is there without the controller.
    #[error("the unified hierarchy has no memory controller")]
    NoMemoryController,
    /// A file or directory of the hierarchy refused.
    #[error("{}: {error}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What the kernel answered.
        error: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.to_owned();
    |error| CgroupError::File { path, error }
}

/// A cgroup in any hierarchy.
#[derive(Debug)]
pub struct OwnCgroup {
    path: PathBuf,
}

/// A cgroup with a memory limit.
#[derive(Debug)]
pub struct MemoryCgroup {
    own: OwnCgroup,
    version: Version,
    may_swap: bool,
}

impl OwnCgroup {
    /// Makes the cgroup `name` in a hierarchy. An empty one of this name is replaced: an earlier run left it behind.
    ///
    /// # Errors
    /// The hierarchy refused.
    pub fn make_in(hierarchy: &Path, name: &str) -> Result<Self, CgroupError> {
        let path = hierarchy.join(name);
        let mut made = fs::create_dir(&path);
        if made
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        {
            made = remove(&path).and_then(|()| fs::create_dir(&path));
        }
        made.map_err(at(&path))?;
        Ok(Self { path })
    }

    /// Writes one of its files.
    ///
    /// # Errors
    /// The kernel refused the value.
    pub fn write(&self, file: &str, value: &str) -> Result<(), CgroupError> {
        let file = self.path.join(file);
        fs::write(&file, value).map_err(at(&file))
    }

    /// Keeps its memory out of the swap (`memory.swap.max` in `Documentation/admin-guide/cgroup-v2.rst`,
    /// `memory.swappiness` in `cgroup-v1/memory.rst`).
    fn forbid_swap(&self, version: Version) -> Result<(), CgroupError> {
        let file = match version {
            Version::V1 => "memory.swappiness",
            Version::V2 => "memory.swap.max",
        };
        self.write(file, "0")
    }

    /// The file that takes process ids.
    #[must_use]
    pub fn processes_file(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            let path = self.path.display();
            eprintln!("coldstream: cannot remove the cgroup {path}: {error}");
        }
    }
}

impl MemoryCgroup {
    /// Makes the cgroup `name` with a limit. It does not swap, where the kernel lets it.
    ///
    /// # Errors
    /// There is no memory controller, or the hierarchy refused.
    pub fn create(name: &str, limit_bytes: u64) -> Result<Self, CgroupError> {
        let mounts = mounts::read();
        let (mount, version) = memory_hierarchy(&mounts).ok_or(CgroupError::NoMemoryHierarchy)?;
        let parent = Path::new(&mount.point);
        if version == Version::V2 {
            let controllers =
                fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
            if !controllers.split_whitespace().any(|name| name == "memory") {
                return Err(CgroupError::NoMemoryController);
            }
            // Fails without harm where it is enabled already or belongs to the service manager.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
        }
        let own = OwnCgroup::make_in(parent, name)?;
        own.write(version.limit_file(), &limit_bytes.to_string())?;
        Ok(Self {
            may_swap: own.forbid_swap(version).is_err(),
            own,
            version,
        })
    }

    /// Whether the kernel may swap memory of its processes out. The limit does not bind that memory.
    #[must_use]
    pub fn may_swap(&self) -> bool {
        self.may_swap
    }

    /// The file that takes process ids.
    #[must_use]
    pub fn processes_file(&self) -> PathBuf {
        self.own.processes_file()
    }

    /// The version of the interface.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// `memory.stat`.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn memory_statistics(&self) -> io::Result<String> {
        fs::read_to_string(self.own.path.join("memory.stat"))
    }

    /// Memory in use, page cache included.
    #[must_use]
    pub fn used_bytes(&self) -> Option<u64> {
        number(self.own.path.join(self.version.usage_file()))
    }

    /// How often an allocation met the limit.
    #[must_use]
    pub fn limit_hits(&self) -> Option<u64> {
        match self.version {
            Version::V1 => number(self.own.path.join("memory.failcnt")),
            Version::V2 => {
                let events = fs::read_to_string(self.own.path.join("memory.events")).ok()?;
                value(&events, "max")
            }
        }
    }

    /// How many of its processes the kernel has killed because they did not fit the limit.
    #[must_use]
    pub fn kills(&self) -> Option<u64> {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = fs::read_to_string(self.own.path.join(file)).ok()?;
        value(&text, "oom_kill")
    }

    /// The file with the memory pressure of this cgroup. Only version 2 has one.
    #[must_use]
    pub fn pressure_file(&self) -> Option<PathBuf> {
        let path = self.own.path.join("memory.pressure");
        (self.version == Version::V2 && path.exists()).then_some(path)
    }
}

/// Removes a cgroup whose processes have ended.
fn remove(path: &Path) -> io::Result<()> {
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir(path) {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                std::thread::sleep(REMOVAL_PAUSE);
            }
            other => return other,
        }
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_that_was_left_behind_is_replaced_and_drop_removes_it() {
        let hierarchy = tempfile::tempdir().unwrap();
        let path = hierarchy.path().join("one");
        fs::create_dir(&path).unwrap();
        let own = OwnCgroup::make_in(hierarchy.path(), "one").unwrap();
        assert_eq!(own.processes_file(), path.join("cgroup.procs"));
        drop(own);
        assert!(!path.exists());
        let error = OwnCgroup::make_in(&path, "two").unwrap_err().to_string();
        assert!(error.contains("one/two"), "{error}");
    }

    #[test]
    fn each_version_has_its_switch_for_swap() {
        for (version, file, value) in [
            (Version::V1, "memory.swappiness", "0"),
            (Version::V2, "memory.swap.max", "0"),
        ] {
            let hierarchy = tempfile::tempdir().unwrap();
            let own = OwnCgroup::make_in(hierarchy.path(), "one").unwrap();
            own.forbid_swap(version).unwrap();
            let file = hierarchy.path().join("one").join(file);
            assert_eq!(fs::read_to_string(&file).unwrap(), value);
            // Where the kernel has no such file it refuses.
            fs::remove_file(&file).unwrap();
            fs::create_dir(&file).unwrap();
            assert!(own.forbid_swap(version).is_err());
            fs::remove_dir(&file).unwrap();
        }
    }

    #[test]
    fn a_cgroup_with_a_limit_does_not_swap() {
        let name = format!("coldstream-unit-{}", std::process::id());
        let cgroup = match MemoryCgroup::create(&name, 1 << 30) {
            Ok(cgroup) => cgroup,
            Err(error) => return eprintln!("skipped: no memory cgroup can be made here: {error}"),
        };
        let file = match cgroup.version() {
            Version::V1 => "memory.swappiness",
            Version::V2 => "memory.swap.max",
        };
        let value = number(cgroup.own.path.join(file));
        assert_eq!(value, (!cgroup.may_swap()).then_some(0));
    }
}
