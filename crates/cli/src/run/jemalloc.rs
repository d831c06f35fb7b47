//! Cassandra's start script, which sets `LD_PRELOAD` itself.
//!
//! `bin/cassandra` looks for jemalloc and, where it finds it, *replaces* `LD_PRELOAD` by it: a
//! library that was there is silently gone. What it takes instead is the variable
//! `CASSANDRA_LIBJEMALLOC`, which it neither checks nor splits; `-` makes it leave `LD_PRELOAD`
//! alone. No other program knows the variable.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The script's variable.
pub const VARIABLE: &str = "CASSANDRA_LIBJEMALLOC";

/// Where the script looks (`find_library` in `bin/cassandra`), as far as libraries are there.
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

/// The names that the script takes.
const NAMES: [&str; 2] = ["libjemalloc.so", "libjemalloc.so.1"];

/// What the script would find.
pub fn installed() -> Option<PathBuf> {
    DIRECTORIES
        .iter()
        .flat_map(|directory| NAMES.map(|name| Path::new(directory).join(name)))
        .find(|path| path.exists())
}

/// The variable's value with our preload list in front of what it was, or would have become; none
/// if it is to stay as it is.
pub fn value(
    preload: &OsStr,
    before: Option<&OsStr>,
    installed: Option<&Path>,
) -> Option<OsString> {
    let jemalloc = match before {
        Some(before) if before == "-" => return None,
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
    fn the_library_comes_first_and_jemalloc_stays() {
        let value = |before: Option<&str>, installed: Option<&str>| {
            let value = value(
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
