//! Where a node's configuration file is, and which release the node runs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use coldstream_host::process::{self, proc_path};

use crate::unit::Root;

/// Paths of the file in packages and containers, if the command line does not name it.
const USUAL: [&str; 4] = [
    "/etc/cassandra/cassandra.yaml",
    "/etc/cassandra/conf/cassandra.yaml",
    "/etc/cassandra/default.conf/cassandra.yaml",
    "/opt/cassandra/conf/cassandra.yaml",
];

/// The directory of the release's jar in packages.
const PACKAGED_JARS: &str = "/usr/share/cassandra";

/// Major and minor number of a release.
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

/// The release that a configuration file belongs to: that of the tarball around it, or the packaged one.
pub fn version_beside(configuration: &Path) -> Option<String> {
    let lib = configuration.ancestors().nth(2)?.join("lib");
    in_directory(&lib).or_else(|| in_directory(Path::new(PACKAGED_JARS)))
}

/// The packaged configuration file in a root, as it is inside of it, and the packaged release.
pub fn packaged(root: &Root) -> Option<(&'static str, Option<String>)> {
    let path = USUAL.into_iter().find(|path| root.at(path).is_file())?;
    let beside = Path::new(path).ancestors().nth(2)?.join("lib");
    let version = [beside.as_path(), Path::new(PACKAGED_JARS)]
        .into_iter()
        .find_map(|directory| in_directory(&root.at(directory)));
    Some((path, version))
}

/// `disk_access_mode` among options of the virtual machine. From 4.1 on it wins over the configuration file, if system
/// properties may do that (`YamlConfigurationLoader.maybeAddSystemProperties`).
pub fn disk_access_mode_of(options: &mut dyn Iterator<Item = &str>) -> Option<String> {
    let (mut is_allowed, mut mode) = (false, None);
    for option in options {
        match option.trim_matches(['"', '\'']).split_once('=') {
            Some(("-Dcassandra.config.allow_system_properties", value)) => {
                is_allowed = value == "true"
            }
            Some(("-Dcassandra.settings.disk_access_mode", value)) => mode = Some(value.to_owned()),
            _ => {}
        }
    }
    mode.filter(|_| is_allowed)
}

/// A Cassandra process, as `/proc` shows it.
pub struct Daemon {
    pid: u32,
    arguments: Vec<OsString>,
}

impl Daemon {
    /// The process `pid`; `None` if it is another program.
    pub fn of(pid: u32) -> Option<Self> {
        let arguments = process::arguments(pid)?;
        let is_daemon = |argument: &OsString| argument.as_bytes().ends_with(b".CassandraDaemon");
        arguments
            .iter()
            .any(is_daemon)
            .then_some(Self { pid, arguments })
    }

    /// Whether a path names the same file for the process and for us. The process may be in a container.
    pub fn shares_our_files(&self) -> bool {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let root = fs::read_link(proc_path(self.pid, "root")).ok();
        root == Some(PathBuf::from("/")) && namespace("self") == namespace(&self.pid.to_string())
    }

    /// The path at which we can open a file of the process.
    pub fn seen_from_here(&self, path: &Path) -> PathBuf {
        if self.shares_our_files() {
            return path.to_owned();
        }
        let below_root = path.strip_prefix("/").unwrap_or(path);
        proc_path(self.pid, "root").join(below_root)
    }

    /// The value of a system property.
    pub fn property(&self, name: &str) -> Option<&OsStr> {
        let prefix = format!("-D{name}=");
        // The last one counts in the virtual machine.
        self.arguments
            .iter()
            .rev()
            .find_map(|argument| argument.as_bytes().strip_prefix(prefix.as_bytes()))
            .map(OsStr::from_bytes)
    }

    /// `disk_access_mode` among the virtual machine's options, which wins over the file.
    pub fn disk_access_mode(&self) -> Option<String> {
        let mut options = self
            .arguments
            .iter()
            .filter_map(|argument| argument.to_str());
        disk_access_mode_of(&mut options)
    }

    /// The entries of the class path; a directory of jars ends with `*`.
    fn class_path(&self) -> Vec<PathBuf> {
        let follows = |option: &OsStr| {
            [&b"-cp"[..], b"-classpath", b"--class-path"].contains(&option.as_bytes())
        };
        let given = self
            .arguments
            .iter()
            .zip(self.arguments.iter().skip(1))
            .find_map(|(option, value)| follows(option).then(|| value.clone()));
        let of_environment = || {
            let variables = process::environment(self.pid);
            let mut named = variables
                .into_iter()
                .filter(|(name, _)| name == "CLASSPATH");
            Some(named.next()?.1)
        };
        let directory = fs::read_link(proc_path(self.pid, "cwd")).unwrap_or_default();
        given
            .or_else(of_environment)
            .unwrap_or_default()
            .as_bytes()
            .split(|&byte| byte == b':')
            .filter(|entry| !entry.is_empty())
            .map(|entry| directory.join(OsStr::from_bytes(entry)))
            .collect()
    }

    /// The release, by the name of its jar, which is open or on the class path.
    pub fn version(&self) -> Option<String> {
        let open = process::open_files(self.pid).unwrap_or_default();
        among(open).or_else(|| {
            let entries = self.class_path();
            among(entries.clone()).or_else(|| {
                entries
                    .iter()
                    .filter(|entry| entry.file_name().is_some_and(|name| name == "*"))
                    .find_map(|entry| in_directory(&self.seen_from_here(entry.parent()?)))
            })
        })
    }

    /// The configuration file, as the process names it. In this order:
    ///
    /// 1. the URL in the property `cassandra.config`;
    /// 2. a file with that name on the class path, where Cassandra's scripts put its directory;
    /// 3. a usual path.
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
