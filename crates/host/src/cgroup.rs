//! The memory limit of a process's cgroup, in both versions. The page cache of a database in a cgroup is what this
//! limit leaves.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use coldstream_policy::memory_limits::{Version, parse_limit, path_of_controller};
use serde::{Deserialize, Serialize};

use crate::counters;
use crate::kernel_file::{number, text};
use crate::mounts::Mount;

/// A memory limit, and the cgroup that sets it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct MemoryLimit {
    /// The limit.
    pub limit_bytes: u64,
    /// Memory in use under this limit, page cache included.
    pub used_bytes: Option<u64>,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// The cgroup that sets it.
    pub cgroup: PathBuf,
}

/// A process's place in the hierarchy of the memory controller.
struct Membership {
    version: Version,
    top: PathBuf,
    below: PathBuf,
}

/// The tightest limit between the cgroup of a process and the top. `process` is its id, or `self`.
#[must_use]
pub fn memory_limit(process: impl Display, mounts: &[Mount]) -> Option<MemoryLimit> {
    limit_of(&membership_of_process(process, mounts)?)
}

fn membership_of_process(process: impl Display, mounts: &[Mount]) -> Option<Membership> {
    let membership = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    membership_of(&membership, mounts)
}

fn limit_of(membership: &Membership) -> Option<MemoryLimit> {
    let Membership {
        version,
        top,
        below,
    } = membership;
    let limits = below.ancestors().filter_map(|level| {
        let cgroup = top.join(level);
        let limit_bytes = parse_limit(&text(cgroup.join(version.limit_file()))?)?;
        Some((limit_bytes, cgroup))
    });
    // The first of equal limits: the process's own cgroup comes first.
    let (limit_bytes, cgroup) = limits.min_by_key(|(limit_bytes, _)| *limit_bytes)?;
    Some(MemoryLimit {
        limit_bytes,
        used_bytes: number(cgroup.join(version.usage_file())),
        cgroup_version: match version {
            Version::V1 => 1,
            Version::V2 => 2,
        },
        cgroup,
    })
}

/// What the memory of a cgroup consists of, as `memory.stat` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// The tightest limit; `None` if there is none.
    pub limit_bytes: Option<u64>,
    /// All memory, page cache included.
    pub used_bytes: Option<u64>,
    /// Memory of programs.
    pub anonymous_bytes: Option<u64>,
    /// Page cache.
    pub file_bytes: Option<u64>,
    /// What kubelets call the working set: all memory but inactive file pages.
    pub working_set_bytes: Option<u64>,
    /// Page cache that has to be written back.
    pub dirty_bytes: Option<u64>,
}

/// The memory of the cgroup of a process: of the one that sets its tightest limit, else of its own. `process` is its
/// id, or `self`. `None` without a memory controller.
#[must_use]
pub fn memory_use(process: impl Display, mounts: &[Mount]) -> Option<MemoryUse> {
    let membership = membership_of_process(process, mounts)?;
    let limit = limit_of(&membership);
    let cgroup = match &limit {
        Some(limit) => limit.cgroup.clone(),
        None => membership.top.join(&membership.below),
    };
    let used_bytes = number(cgroup.join(membership.version.usage_file()));
    let statistics = fs::read_to_string(cgroup.join("memory.stat")).ok()?;
    let mut memory = parse_use(&statistics, membership.version, used_bytes);
    memory.limit_bytes = limit.map(|limit| limit.limit_bytes);
    Some(memory)
}

/// The names are those of `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`.
fn parse_use(statistics: &str, version: Version, used_bytes: Option<u64>) -> MemoryUse {
    let value = |v1, v2| {
        let name = match version {
            Version::V1 => v1,
            Version::V2 => v2,
        };
        counters::value(statistics, name)
    };
    let inactive = value("total_inactive_file", "inactive_file");
    MemoryUse {
        limit_bytes: None,
        used_bytes,
        anonymous_bytes: value("total_rss", "anon"),
        file_bytes: value("total_cache", "file"),
        working_set_bytes: used_bytes
            .zip(inactive)
            .map(|(used, inactive)| used.saturating_sub(inactive)),
        dirty_bytes: value("total_dirty", "file_dirty"),
    }
}

/// Where a cgroup with a memory limit can be made, and by which interface. A v1 memory controller comes first: while
/// it is mounted, v2 has none.
#[must_use]
pub fn memory_hierarchy(mounts: &[Mount]) -> Option<(&Mount, Version)> {
    let v1 = || Some((version_1(mounts, "memory")?, Version::V1));
    let v2 = || Some((version_2(mounts).next_back()?, Version::V2));
    v1().or_else(v2)
}

/// The mounted hierarchy of a v1 controller.
#[must_use]
pub fn version_1<'a>(mounts: &'a [Mount], controller: &str) -> Option<&'a Mount> {
    mounts
        .iter()
        .find(|mount| mount.filesystem == "cgroup" && mount.has_option(controller))
}

fn version_2(mounts: &[Mount]) -> impl DoubleEndedIterator<Item = &Mount> {
    mounts.iter().filter(|mount| mount.filesystem == "cgroup2")
}

fn membership_of(membership: &str, mounts: &[Mount]) -> Option<Membership> {
    let path_of = |version: Version| path_of_controller(membership, version.controller());
    let v1 = || {
        let mount = version_1(mounts, "memory")?;
        Some((Version::V1, mount, path_of(Version::V1)?))
    };
    let v2 = || {
        Some((
            Version::V2,
            version_2(mounts).next()?,
            path_of(Version::V2)?,
        ))
    };
    let (version, mount, path) = v1().or_else(v2)?;
    // In a container the mount may begin below the top of the hierarchy.
    let below = Path::new(path)
        .strip_prefix(&mount.root)
        .or_else(|_| Path::new(path).strip_prefix("/"))
        .unwrap_or(Path::new(""));
    Some(Membership {
        version,
        top: PathBuf::from(&mount.point),
        below: below.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts;

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
        let found = membership_of(both, &[v1, v2.clone()]).unwrap();
        assert_eq!(
            (found.version, found.below),
            (Version::V1, PathBuf::from("a/b"))
        );
        let found = membership_of("0::/c/d\n", &[v2]).unwrap();
        assert_eq!(
            (found.version, found.below),
            (Version::V2, PathBuf::from("c/d"))
        );
        let inner = mount("cgroup2", "/docker/1", "/sys/fs/cgroup", "rw");
        let found = membership_of("0::/docker/1/x\n", &[inner]).unwrap();
        assert_eq!(found.below, PathBuf::from("x"));
        assert!(membership_of("0::/\n", &[]).is_none());
    }

    #[test]
    fn the_working_set_is_all_but_inactive_file_pages() {
        let v2 = "anon 10\nfile 50\ninactive_file 30\nfile_dirty 2\n";
        let memory = parse_use(v2, Version::V2, Some(70));
        assert_eq!(memory.working_set_bytes, Some(40));
        assert_eq!(
            (memory.anonymous_bytes, memory.dirty_bytes),
            (Some(10), Some(2))
        );
        let v1 = "rss 1\ntotal_rss 10\ntotal_cache 50\ntotal_inactive_file 90\ntotal_dirty 2\n";
        let memory = parse_use(v1, Version::V1, Some(70));
        assert_eq!(memory.working_set_bytes, Some(0));
        assert_eq!(
            (memory.anonymous_bytes, memory.file_bytes),
            (Some(10), Some(50))
        );
    }

    #[test]
    fn a_memory_hierarchy_of_its_own_wins() {
        let hierarchy = |table: &str| {
            let mounts = mounts::parse(table.as_bytes());
            memory_hierarchy(&mounts).map(|(mount, version)| (mount.point.clone(), version))
        };
        let table = "1 0 0:1 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                     2 0 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     3 0 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(
            hierarchy(table),
            Some(("/sys/fs/cgroup/memory".into(), Version::V1))
        );
        assert_eq!(
            hierarchy("1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            Some(("/sys/fs/cgroup".into(), Version::V2))
        );
        assert_eq!(hierarchy("1 0 0:1 / /proc rw - proc proc rw\nshort"), None);
    }

    #[test]
    fn a_controller_of_version_1_is_found_by_its_option() {
        let point = |table: &str| {
            let mounts = mounts::parse(table.as_bytes());
            version_1(&mounts, "blkio").map(|mount| mount.point.clone())
        };
        let table = "2 0 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                     3 0 0:3 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n";
        assert_eq!(point(table).as_deref(), Some("/sys/fs/cgroup/blkio"));
        assert_eq!(
            point("1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,blkio\n"),
            None
        );
    }
}
