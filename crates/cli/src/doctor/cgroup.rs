//! The memory limit that a process really has, in cgroup v2 or v1. The page
//! cache of a database in a cgroup is what this limit leaves of it.

use std::fs;
use std::path::{Path, PathBuf};

use coldstream_policy::memory::{Version, parse_limit, path_of_controller};
use serde::Serialize;

use super::machine::number;
use super::mounts::Mount;

/// A limit and where it comes from.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct MemoryLimit {
    /// The limit.
    pub limit_bytes: u64,
    /// What is used of it.
    pub used_bytes: Option<u64>,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// The cgroup that sets it.
    pub cgroup: PathBuf,
}

struct Hierarchy {
    version: Version,
    top: PathBuf,
    below: PathBuf,
}

/// The tightest limit between the cgroup of process `pid` (or `self`) and the top.
pub fn memory_limit(pid: &str, mounts: &[Mount]) -> Option<MemoryLimit> {
    let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let hierarchy = hierarchy(&membership, mounts)?;
    let mut tightest: Option<MemoryLimit> = None;
    for level in hierarchy.below.ancestors() {
        let cgroup = hierarchy.top.join(level);
        let limit = fs::read_to_string(cgroup.join(hierarchy.version.limit_file())).ok();
        let Some(limit_bytes) = limit.and_then(|text| parse_limit(&text)) else {
            continue;
        };
        if tightest
            .as_ref()
            .is_none_or(|known| limit_bytes < known.limit_bytes)
        {
            tightest = Some(MemoryLimit {
                limit_bytes,
                used_bytes: number(cgroup.join(hierarchy.version.usage_file())),
                cgroup_version: match hierarchy.version {
                    Version::V1 => 1,
                    Version::V2 => 2,
                },
                cgroup,
            });
        }
    }
    tightest
}

/// Where the memory controller is mounted, and the process's place in it. A v1
/// controller takes precedence: then v2 does not have it.
fn hierarchy(membership: &str, mounts: &[Mount]) -> Option<Hierarchy> {
    let path_of = |controller| path_of_controller(membership, controller);
    let v1 = || {
        let mount = mounts.iter().find(|mount| {
            mount.filesystem == "cgroup" && mount.options.split(',').any(|name| name == "memory")
        })?;
        Some((Version::V1, mount, path_of("memory")?))
    };
    let v2 = || {
        let mount = mounts.iter().find(|mount| mount.filesystem == "cgroup2")?;
        Some((Version::V2, mount, path_of("")?))
    };
    let (version, mount, path) = v1().or_else(v2)?;
    // In a container the mount may begin below the top of the hierarchy.
    let below = Path::new(path)
        .strip_prefix(&mount.root)
        .or_else(|_| Path::new(path).strip_prefix("/"))
        .unwrap_or(Path::new(""));
    Some(Hierarchy {
        version,
        top: PathBuf::from(&mount.point),
        below: below.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(filesystem: &str, root: &str, point: &str, options: &str) -> Mount {
        Mount {
            device: "0:1".into(),
            root: root.into(),
            point: point.into(),
            filesystem: filesystem.into(),
            source: "cgroup".into(),
            options: options.into(),
        }
    }

    #[test]
    fn the_controller_is_found_in_both_versions() {
        let v1 = mount("cgroup", "/", "/sys/fs/cgroup/memory", "rw,memory");
        let v2 = mount("cgroup2", "/", "/sys/fs/cgroup", "rw");
        let both = "8:pids:/\n4:memory:/a/b\n0::/c\n";
        let found = hierarchy(both, &[v1, v2.clone()]).unwrap();
        assert_eq!(
            (found.version, found.below),
            (Version::V1, PathBuf::from("a/b"))
        );
        let found = hierarchy("0::/c/d\n", &[v2]).unwrap();
        assert_eq!(
            (found.version, found.below),
            (Version::V2, PathBuf::from("c/d"))
        );
        let inner = mount("cgroup2", "/docker/1", "/sys/fs/cgroup", "rw");
        let found = hierarchy("0::/docker/1/x\n", &[inner]).unwrap();
        assert_eq!(found.below, PathBuf::from("x"));
        assert!(hierarchy("0::/\n", &[]).is_none());
    }
}
