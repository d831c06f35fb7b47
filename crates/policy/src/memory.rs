//! What the kernel says about memory: the limit of a process's cgroup, and pressure.

/// In cgroup v1 "no limit" is the largest number of pages; nothing real comes near it.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The files that may hold a memory limit for a process of this membership (`/proc/self/cgroup`), hard
/// or one above which it is slowed down: of its cgroups and all above them, in both versions, where they
/// are usually mounted. In a
/// container the paths do not lead anywhere but at the top; those that do not exist hold no limit.
pub fn limit_files(membership: &str) -> Vec<String> {
    let mut files = Vec::new();
    each_cgroup(membership, |version, path| {
        let (top, file) = (version.top(), version.limit_file());
        files.push(format!("{top}{path}/{file}"));
        files.extend((version.high_file()).map(|file| format!("{top}{path}/{file}")));
    });
    files
}

/// One of the two interfaces of memory cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy of memory alone.
    V1,
    /// The unified hierarchy.
    V2,
}

impl Version {
    /// Where it is usually mounted.
    pub const fn top(self) -> &'static str {
        match self {
            Version::V1 => "/sys/fs/cgroup/memory",
            Version::V2 => "/sys/fs/cgroup",
        }
    }

    /// The file with a cgroup's hard limit.
    pub const fn limit_file(self) -> &'static str {
        match self {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        }
    }

    /// The file that says how much it has.
    pub const fn usage_file(self) -> &'static str {
        match self {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        }
    }

    /// The file with the limit above which its tasks are slowed down; version 1 has none that
    /// slows anybody.
    pub const fn high_file(self) -> Option<&'static str> {
        match self {
            Version::V1 => None,
            Version::V2 => Some("memory.high"),
        }
    }
}

/// Calls `visit` for each cgroup that may hold a memory limit for a process of this membership
/// (`/proc/self/cgroup`), with its path below [`Version::top`]: the process's own first, then all
/// above it. Does not allocate.
pub fn each_cgroup(membership: &str, mut visit: impl FnMut(Version, &str)) {
    for (controller, version) in [("memory", Version::V1), ("", Version::V2)] {
        let Some(path) = path_of_controller(membership, controller) else {
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

/// The file beside one of [`limit_files`] that says how much of the limit is used, page cache
/// included.
pub fn usage_file(limit_file: &str) -> Option<String> {
    let (directory, name) = limit_file.rsplit_once('/')?;
    let mut versions = [Version::V1, Version::V2].into_iter();
    let version = versions
        .find(|version| version.limit_file() == name || version.high_file() == Some(name))?;
    Some(format!("{directory}/{}", version.usage_file()))
}

/// A process's place in the hierarchy of a controller of cgroup v1, or of v2, which is named by
/// nothing, by its membership.
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

/// The limit that such a file holds, in bytes; `None` for "no limit".
pub fn parse_limit(text: &str) -> Option<u64> {
    let limit = text.trim().parse().ok()?;
    (limit < UNLIMITED_BYTES).then_some(limit)
}

/// How much of the last ten seconds every task stood still for want of memory, in percent
/// (`/proc/pressure/memory`: the `full` line's `avg10`).
pub fn parse_full_pressure(text: &str) -> Option<f32> {
    let line = text.lines().find_map(|line| line.strip_prefix("full "))?;
    let field = line
        .split(' ')
        .find_map(|field| field.strip_prefix("avg10="))?;
    field.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_versions_up_to_the_top() {
        let membership = "7:cpu,cpuacct:/a\n4:memory:/outer/inner\n0::/slice/\nnonsense\n";
        assert_eq!(
            limit_files(membership),
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
        assert_eq!(
            usage_file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes").as_deref(),
            Some("/sys/fs/cgroup/memory/a/memory.usage_in_bytes")
        );
        assert_eq!(
            usage_file("/sys/fs/cgroup/memory.high").as_deref(),
            Some("/sys/fs/cgroup/memory.current")
        );
        assert_eq!(usage_file("/sys/fs/cgroup/other"), None);
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
}
