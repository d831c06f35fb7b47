//! A memory-limited cgroup, version 1 or 2, removed when dropped.

use coldstream_policy::memory::Version;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A cgroup of our own in any hierarchy, removed when dropped.
#[derive(Debug)]
pub(crate) struct OwnCgroup {
    path: PathBuf,
}

/// A cgroup of our own with a memory limit.
#[derive(Debug)]
pub struct Cgroup {
    own: OwnCgroup,
    version: Version,
}

/// Where a memory cgroup can be made: `(directory, version)`.
fn hierarchy(mounts: &str) -> Option<(PathBuf, Version)> {
    let v1 = || Some((version_1(mounts, "memory")?, Version::V1));
    let v2 = || {
        let (path, ..) = mounted(mounts).rfind(|(_, kind, _)| *kind == "cgroup2")?;
        Some((path.into(), Version::V2))
    };
    v1().or_else(v2)
}

/// What is mounted; names of directories may be any bytes.
pub(crate) fn mounts() -> Result<String, String> {
    let table =
        fs::read("/proc/self/mounts").map_err(|error| format!("/proc/self/mounts: {error}"))?;
    Ok(String::from_utf8_lossy(&table).into_owned())
}

/// Where the hierarchy of a controller of version 1 is mounted.
pub(crate) fn version_1(mounts: &str, controller: &str) -> Option<PathBuf> {
    let has_controller = |options: &str| options.split(',').any(|option| option == controller);
    let (path, ..) =
        mounted(mounts).find(|(_, kind, options)| *kind == "cgroup" && has_controller(options))?;
    Some(path.into())
}

/// Path, kind and options of each mount.
fn mounted(mounts: &str) -> impl DoubleEndedIterator<Item = (&str, &str, &str)> {
    mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?, fields.next()?))
    })
}

impl Cgroup {
    /// Makes a cgroup with a limit. The error says what is missing.
    pub fn create(limit_bytes: u64) -> Result<Self, String> {
        let mounts = mounts()?;
        let (parent, version) =
            hierarchy(&mounts).ok_or("no memory cgroup is mounted".to_string())?;
        if version == Version::V2 {
            let controllers =
                fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
            if !controllers.split_whitespace().any(|name| name == "memory") {
                return Err("the unified hierarchy has no memory controller".into());
            }
            // Fails harmlessly where it is enabled already or belongs to the service manager.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
        }
        let own = OwnCgroup::make_in(&parent)?;
        own.write(version.limit_file(), &limit_bytes.to_string())?;
        Ok(Self { own, version })
    }

    /// The file that takes process ids.
    pub fn processes_file(&self) -> PathBuf {
        self.own.processes_file()
    }

    /// The interface's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// `memory.stat`.
    pub fn memory_statistics(&self) -> io::Result<String> {
        fs::read_to_string(self.own.path.join("memory.stat"))
    }

    /// The file with the cgroup's own memory pressure; only version 2 has one.
    pub fn pressure_file(&self) -> Option<PathBuf> {
        let path = self.own.path.join("memory.pressure");
        (self.version == Version::V2 && path.exists()).then_some(path)
    }
}

impl OwnCgroup {
    /// Makes it in a hierarchy; one that was left behind by a process of this id is another one.
    pub(crate) fn make_in(hierarchy: &Path) -> Result<Self, String> {
        let path = hierarchy.join(format!("coldstream-lab-{}", std::process::id()));
        let mut made = fs::create_dir(&path);
        if made
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        {
            made = Self::remove(&path).and_then(|()| fs::create_dir(&path));
        }
        match made {
            Ok(()) => Ok(Self { path }),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Sets one of its files.
    pub(crate) fn write(&self, file: &str, value: &str) -> Result<(), String> {
        let file = self.path.join(file);
        fs::write(&file, value).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The file that takes process ids.
    pub(crate) fn processes_file(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Removes a cgroup whose processes are gone.
    fn remove(path: &Path) -> io::Result<()> {
        // Pages that belong to it may keep it busy for a moment after its last process.
        for _ in 0..50 {
            match fs::remove_dir(path) {
                Err(error) if error.raw_os_error() == Some(16) => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                other => return other,
            }
        }
        fs::remove_dir(path)
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        if let Err(error) = Self::remove(&self.path) {
            eprintln!("lab: cannot remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_hierarchy_of_its_own_wins() {
        let mounts = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
        assert_eq!(
            hierarchy(mounts),
            Some(("/sys/fs/cgroup/memory".into(), Version::V1))
        );
        assert_eq!(
            hierarchy("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            Some(("/sys/fs/cgroup".into(), Version::V2))
        );
        assert_eq!(hierarchy("proc /proc proc rw 0 0\nshort"), None);
    }
}
