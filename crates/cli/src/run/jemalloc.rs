//! Keeps the library in `LD_PRELOAD` through Cassandra's start script.
//!
//! `bin/cassandra` searches for jemalloc. If it finds it, it *replaces* `LD_PRELOAD` with that path, and the library
//! is lost without a message. The variable `CASSANDRA_LIBJEMALLOC` overrides the search. The script neither checks
//! nor splits its value, so that it can hold a list. The value `-` leaves `LD_PRELOAD` alone. No other program knows
//! the variable.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::unit::Root;

/// The script's variable.
pub const VARIABLE: &str = "CASSANDRA_LIBJEMALLOC";
/// Its value for no jemalloc: the script leaves `LD_PRELOAD` alone.
pub const NONE: &str = "-";

/// The directories that the script searches (`find_library` in `bin/cassandra`) and that may hold libraries.
const DIRECTORIES: [&str; 9] = [
    "/lib64",
    "/lib",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
];

/// How the file names begin that the script accepts, since 4.1 (CASSANDRA-15767). Debian's package has
/// `libjemalloc.so.2` and no other.
const NAME: &[u8] = b"libjemalloc.so";

/// The jemalloc that the script finds, as a path inside of the root. Of several the script takes the last
/// in the order of their paths.
///
/// It also searches subdirectories, which takes seconds, and takes links to nothing. This does neither.
pub fn find_installed(root: &Root) -> Option<PathBuf> {
    let configured = configured_directories(&root.at("etc"));
    let directories = DIRECTORIES.iter().map(PathBuf::from).chain(configured);
    directories
        .flat_map(|directory| {
            let entries = fs::read_dir(root.at(&directory)).into_iter().flatten();
            let names = entries.flatten().map(|entry| entry.file_name());
            let names = names.filter(|name| name.as_bytes().starts_with(NAME));
            names.map(|name| directory.join(name)).collect::<Vec<_>>()
        })
        .filter(|path| root.at(path).exists())
        .max()
}

/// The directories in `ld.so.conf` and `ld.so.conf.d` below `etc`.
fn configured_directories(etc: &Path) -> Vec<PathBuf> {
    let mut files = vec![etc.join("ld.so.conf")];
    if let Ok(entries) = fs::read_dir(etc.join("ld.so.conf.d")) {
        let paths = entries.flatten().map(|entry| entry.path());
        files.extend(paths.filter(|path| path.extension().is_some_and(|it| it == "conf")));
    }
    let texts = files
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    texts
        .flat_map(|text| {
            let lines = text.lines().map(str::trim);
            let directories = lines.filter(|line| line.starts_with('/'));
            directories.map(PathBuf::from).collect::<Vec<_>>()
        })
        .collect()
}

/// The new value of the variable: our preload list, then its old value, or else the jemalloc that the script finds.
/// `None` leaves the variable as it is.
pub fn variable_value(
    preload: &OsStr,
    before: Option<&OsStr>,
    installed: Option<&Path>,
) -> Option<OsString> {
    let jemalloc = match before {
        Some(before) if before == NONE => return None,
        Some(before) if !before.is_empty() => Some(before),
        _ => installed.map(Path::as_os_str),
    };
    let mut value = preload.to_owned();
    if let Some(jemalloc) = jemalloc {
        value.push(":");
        value.push(jemalloc);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_own_directories_are_searched_too() {
        let etc = tempfile::tempdir().unwrap();
        fs::create_dir(etc.path().join("ld.so.conf.d")).unwrap();
        fs::write(
            etc.path().join("ld.so.conf"),
            "include ld.so.conf.d/*.conf\n/opt/a/lib\n",
        )
        .unwrap();
        fs::write(etc.path().join("ld.so.conf.d/b.conf"), "# b\n/opt/b/lib\n").unwrap();
        assert_eq!(
            configured_directories(etc.path()),
            [PathBuf::from("/opt/a/lib"), "/opt/b/lib".into()]
        );
        assert!(configured_directories(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn the_last_jemalloc_in_the_order_of_paths_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        assert_eq!(find_installed(&root), None);
        let add = |path: &str| {
            let path = root.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        for (added, found) in [
            ("usr/lib/libjemalloc.so.1", "/usr/lib/libjemalloc.so.1"),
            ("lib64/libjemalloc.so.2", "/usr/lib/libjemalloc.so.1"),
            ("usr/lib/libjemalloc.so", "/usr/lib/libjemalloc.so.1"),
            ("usr/lib/libjemalloc.so.2", "/usr/lib/libjemalloc.so.2"),
            ("usr/lib/libjemalloc_pic.a", "/usr/lib/libjemalloc.so.2"),
            (
                "usr/lib/deeper/libjemalloc.so.3",
                "/usr/lib/libjemalloc.so.2",
            ),
        ] {
            add(added);
            assert_eq!(find_installed(&root), Some(found.into()), "with {added}");
        }
        std::os::unix::fs::symlink("nothing", root.at("usr/lib/libjemalloc.so.4")).unwrap();
        assert_eq!(
            find_installed(&root),
            Some("/usr/lib/libjemalloc.so.2".into())
        );
    }

    #[test]
    fn the_library_comes_first_and_jemalloc_stays() {
        let value = |before: Option<&str>, installed: Option<&str>| {
            let value = variable_value(
                OsStr::new("/c.so"),
                before.map(OsStr::new),
                installed.map(Path::new),
            );
            value.map(|value| value.into_string().unwrap())
        };
        assert_eq!(value(None, None).as_deref(), Some("/c.so"));
        assert_eq!(value(None, Some("/j.so")).as_deref(), Some("/c.so:/j.so"));
        assert_eq!(
            value(Some("/mine.so"), Some("/j.so")).as_deref(),
            Some("/c.so:/mine.so")
        );
        assert_eq!(
            value(Some(""), Some("/j.so")).as_deref(),
            Some("/c.so:/j.so")
        );
        assert_eq!(value(Some("-"), Some("/j.so")), None);
    }
}
