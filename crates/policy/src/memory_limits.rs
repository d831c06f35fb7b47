//! The texts of the kernel about memory: limits of cgroups, and pressure.

/// In cgroup v1 "no limit" is the largest number of pages. No real limit comes near it.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// A version of the interface of memory cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for memory alone.
    V1,
    /// The unified hierarchy.
    V2,
}

impl Version {
    /// The usual mount point.
    pub const fn top(self) -> &'static str {
        match self {
            Version::V1 => "/sys/fs/cgroup/memory",
            Version::V2 => "/sys/fs/cgroup",
        }
    }

    /// The name of its controller in `/proc/self/cgroup`. Version 2 has the empty one.
    pub const fn controller(self) -> &'static str {
        match self {
            Version::V1 => "memory",
            Version::V2 => "",
        }
    }

    /// The name of the file with a cgroup's hard limit.
    pub const fn limit_file(self) -> &'static str {
        match self {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        }
    }

    /// The name of the file with a cgroup's usage.
    pub const fn usage_file(self) -> &'static str {
        match self {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        }
    }

    /// The name of the file with the limit above which a cgroup's tasks are slowed down. Version 1 has
    /// no such limit.
    pub const fn high_file(self) -> Option<&'static str> {
        match self {
            Version::V1 => None,
            Version::V2 => Some("memory.high"),
        }
    }

    /// The files of a cgroup that may hold a limit. A limit is hard, or slows the tasks down. A file that
    /// does not exist means no limit.
    pub fn limit_files(self) -> impl Iterator<Item = &'static str> {
        [Some(self.limit_file()), self.high_file()]
            .into_iter()
            .flatten()
    }
}

/// Calls `visit` for each cgroup that may limit the memory of a process with this `/proc/self/cgroup`.
/// They are its cgroups and all above, in both versions, below the usual mount points. In a container only
/// the topmost exist. The path is below [`Version::top`]. The process's own cgroup comes first, then those
/// above it. Does not allocate.
pub fn each_cgroup(membership: &str, mut visit: impl FnMut(Version, &str)) {
    for version in [Version::V1, Version::V2] {
        let Some(path) = path_of_controller(membership, version.controller()) else {
            continue;
        };
        let mut path = path.trim_end_matches('/');
        loop {
            visit(version, path);
            match path.rsplit_once('/') {
                Some((parent, _)) => path = parent,
                None => break,
            }
        }
    }
}

/// The path of a process in the hierarchy of a controller, from its `/proc/self/cgroup`. Version 2 has
/// the empty name.
pub fn path_of_controller<'m>(membership: &'m str, controller: &str) -> Option<&'m str> {
    membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        controllers
            .split(',')
            .any(|name| name == controller)
            .then_some(path)
    })
}

/// The limit in the text of such a file, in bytes; `None` for "no limit".
pub fn parse_limit(text: &str) -> Option<u64> {
    let limit = text.trim().parse().ok()?;
    (limit < UNLIMITED_BYTES).then_some(limit)
}

/// The percentage of the last ten seconds in which all tasks waited for memory. The text is that of
/// `/proc/pressure/memory`; the value is `avg10` of its `full` line.
pub fn parse_full_pressure(text: &str) -> Option<f32> {
    let line = text.lines().find_map(|line| line.strip_prefix("full "))?;
    let field = line
        .split(' ')
        .find_map(|field| field.strip_prefix("avg10="))?;
    field.parse().ok()
}

/// How many pages of files were evicted and read again, if this is the line of `memory.stat` or `/proc/vmstat` that tells.
/// Of version 1 it is the line that includes the cgroups below.
pub fn parse_refaults(line: &str, version: Option<Version>) -> Option<u64> {
    let name = match version {
        Some(Version::V1) => "total_workingset_refault_file ",
        Some(Version::V2) | None => "workingset_refault_file ",
    };
    line.strip_prefix(name)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_versions_up_to_the_top() {
        let membership = "7:cpu,cpuacct:/a\n4:memory:/outer/inner\n0::/slice/\nnonsense\n";
        let mut files = Vec::new();
        each_cgroup(membership, |version, path| {
            let top = version.top();
            files.extend((version.limit_files()).map(|file| format!("{top}{path}/{file}")));
        });
        assert_eq!(
            files,
            [
                "/sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/outer/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/slice/memory.max",
                "/sys/fs/cgroup/slice/memory.high",
                "/sys/fs/cgroup/memory.max",
                "/sys/fs/cgroup/memory.high",
            ]
        );
        assert_eq!(parse_limit("1048576\n"), Some(1 << 20));
        assert_eq!(parse_limit("max\n"), None);
        assert_eq!(parse_limit("9223372036854771712\n"), None);
    }

    #[test]
    fn pressure_is_that_of_all_tasks() {
        let text = "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=3.25 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(parse_full_pressure(text), Some(3.25));
        assert_eq!(parse_full_pressure(""), None);
    }

    #[test]
    fn refaults_of_a_cgroup_are_those_below_it_too() {
        let of = |line, version| parse_refaults(line, version);
        assert_eq!(of("workingset_refault_file 7", Some(Version::V1)), None);
        assert_eq!(
            of("total_workingset_refault_file 9", Some(Version::V1)),
            Some(9)
        );
        assert_eq!(of("workingset_refault_file 7", Some(Version::V2)), Some(7));
        assert_eq!(of("workingset_refault_file 7\n", None), Some(7));
        assert_eq!(of("workingset_refault_anon 7", None), None);
    }
}
