//! Where a node's configuration is, and which release it is of.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::processes;

/// Where packages and the tarball put it, if the command line does not say.
const USUAL: [&str; 3] = [
    "/etc/cassandra/cassandra.yaml",
    "/etc/cassandra/conf/cassandra.yaml",
    "/opt/cassandra/conf/cassandra.yaml",
];

/// Where packages put the release's jar.
const PACKAGED_JARS: &str = "/usr/share/cassandra";

/// A release's number, to be compared.
pub type Number = (u32, u32);

/// Major and minor number of `4.1.10` or `6.0-alpha2`.
pub fn number(version: &str) -> Option<Number> {
    let mut parts = version.split(['.', '-']).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// The version in the name of Cassandra's own jar: `apache-cassandra-4.1.10.jar` in packages,
/// `cassandra-all-4.1.10.jar` from Maven.
fn of_jar(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".jar")?;
    let version = ["apache-cassandra-", "cassandra-all-"]
        .into_iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    number(version)?;
    Some(version.to_owned())
}

fn among(paths: impl IntoIterator<Item = PathBuf>) -> Option<String> {
    paths.into_iter().find_map(|path| of_jar(&path))
}

fn in_directory(directory: &Path) -> Option<String> {
    let entries = fs::read_dir(directory).ok()?;
    among(entries.flatten().map(|entry| entry.path()))
}

/// The release that a configuration file belongs to: of a tarball's `conf`, or the packaged one.
pub fn version_beside(configuration: &Path) -> Option<String> {
    let lib = configuration.ancestors().nth(2)?.join("lib");
    in_directory(&lib).or_else(|| in_directory(Path::new(PACKAGED_JARS)))
}

/// A Cassandra process, as `/proc` shows it.
pub struct Daemon {
    pid: u32,
    arguments: Vec<Vec<u8>>,
}

impl Daemon {
    /// `None` if it is another program.
    pub fn of(pid: u32) -> Option<Self> {
        let line = fs::read(processes::proc_path(pid, "cmdline")).ok()?;
        let arguments: Vec<_> = line.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        let is_daemon = |argument: &Vec<u8>| argument.ends_with(b".CassandraDaemon");
        arguments
            .iter()
            .any(is_daemon)
            .then_some(Self { pid, arguments })
    }

    /// Whether a path means the same file to it as to us: it may be in a container.
    pub fn shares_our_files(&self) -> bool {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let root = fs::read_link(processes::proc_path(self.pid, "root")).ok();
        root == Some(PathBuf::from("/")) && namespace("self") == namespace(&self.pid.to_string())
    }

    /// A path of the process as we can open it.
    pub fn seen_from_here(&self, path: &Path) -> PathBuf {
        if self.shares_our_files() {
            return path.to_owned();
        }
        let below_root = path.strip_prefix("/").unwrap_or(path);
        processes::proc_path(self.pid, "root").join(below_root)
    }

    /// The value of a system property.
    pub fn property(&self, name: &str) -> Option<&OsStr> {
        let prefix = format!("-D{name}=");
        // The virtual machine takes the last one.
        self.arguments
            .iter()
            .rev()
            .find_map(|argument| argument.strip_prefix(prefix.as_bytes()))
            .map(OsStr::from_bytes)
    }

    /// The entries of the class path; a directory of jars ends with `*`.
    fn class_path(&self) -> Vec<PathBuf> {
        let follows =
            |option: &[u8]| [&b"-cp"[..], b"-classpath", b"--class-path"].contains(&option);
        let given = self
            .arguments
            .iter()
            .zip(self.arguments.iter().skip(1))
            .find_map(|(option, value)| follows(option).then(|| value.clone()));
        let environment = fs::read(processes::proc_path(self.pid, "environ")).unwrap_or_default();
        let of_environment = environment
            .split(|&byte| byte == 0)
            .find_map(|variable| variable.strip_prefix(b"CLASSPATH="))
            .map(<[u8]>::to_vec);
        let directory = fs::read_link(processes::proc_path(self.pid, "cwd")).unwrap_or_default();
        given
            .or(of_environment)
            .unwrap_or_default()
            .split(|&byte| byte == b':')
            .filter(|entry| !entry.is_empty())
            .map(|entry| directory.join(OsStr::from_bytes(entry)))
            .collect()
    }

    /// The release: its jar is open, or on the class path.
    pub fn version(&self) -> Option<String> {
        let open = fs::read_dir(processes::proc_path(self.pid, "fd"));
        let open = open.into_iter().flatten().flatten();
        among(open.filter_map(|entry| fs::read_link(entry.path()).ok())).or_else(|| {
            let entries = self.class_path();
            among(entries.clone()).or_else(|| {
                entries
                    .iter()
                    .filter(|entry| entry.file_name().is_some_and(|name| name == "*"))
                    .find_map(|entry| in_directory(&self.seen_from_here(entry.parent()?)))
            })
        })
    }

    /// The configuration file, as the process names it: a URL in the property, else a file of that
    /// name on the class path (Cassandra's own scripts put its directory there), else where it
    /// usually is.
    pub fn configuration(&self) -> Option<PathBuf> {
        let named = self.property("cassandra.config");
        let name = match named.map(OsStr::as_bytes) {
            Some(url) if url.starts_with(b"file:") => {
                let path = url.strip_prefix(b"file:").unwrap_or(url);
                let path = path.strip_prefix(b"//").unwrap_or(path);
                return Some(PathBuf::from(OsStr::from_bytes(path)));
            }
            Some(name) => PathBuf::from(OsStr::from_bytes(name)),
            None => PathBuf::from("cassandra.yaml"),
        };
        let on_class_path = self.class_path().into_iter().map(|entry| entry.join(&name));
        on_class_path
            .chain(USUAL.map(PathBuf::from))
            .find(|path| self.seen_from_here(path).is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_names_of_jars() {
        let version = |name: &str| of_jar(Path::new(name));
        assert_eq!(
            version("/lib/apache-cassandra-4.1.10.jar").as_deref(),
            Some("4.1.10")
        );
        assert_eq!(
            version("cassandra-all-6.0-alpha2.jar").as_deref(),
            Some("6.0-alpha2")
        );
        for other in [
            "apache-cassandra-thrift-3.11.jar",
            "cassandra-driver-core-3.11.5-shaded.jar",
            "cassandra-all-4.1.10.pom",
            "*",
        ] {
            assert_eq!(version(other), None, "{other}");
        }
        assert_eq!(number("6.0-alpha2"), Some((6, 0)));
        assert!(number("4.1.10") < number("5.0.9"));
    }
}
