//! Which preload library a process runs, and whether another file is in its place by now.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coldstream_host::process::{Mappings, proc_path};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::environment::Environment;
use crate::run::elf;
use crate::{library, loader};

/// The preload library in a process.
pub struct Loaded {
    /// Its file.
    pub path: PathBuf,
    /// Whether this file was deleted since, or another one is where `LD_PRELOAD` names it.
    pub is_replaced: bool,
    /// Where `LD_PRELOAD` names it, if another file or none is there.
    pub named_elsewhere: Option<PathBuf>,
    /// Whether a file is where `LD_PRELOAD` names it. Where the caller may not look, nothing says that there is none.
    pub restart_finds_it: bool,
}

/// The library in process `pid`; `has_page` if that has a status page mapped. A library under a name of its own is known
/// by what it exports.
pub fn of(
    pid: u32,
    mappings: &Mappings,
    environment: &Environment,
    has_page: bool,
) -> Option<Loaded> {
    let files = mappings.files();
    let path = by_name(&files).or_else(|| {
        let may_be = |path: &&PathBuf| {
            let is_shared = name(path).windows(3).any(|it| it == b".so");
            environment.preloads(path) || is_shared && (has_page || mappings.is_deleted(path))
        };
        let mut others = files.iter().filter(may_be);
        others.find(|path| match mappings.is_deleted(path) {
            true => was_library(pid, mappings, environment, has_page, path),
            false => elf::check_library(&in_its_root(pid, path)).is_ok(),
        })
    })?;
    let named = environment
        .library_asked_for()
        .and_then(|named| loader::resolved(&named, path))
        .filter(|named| named.is_absolute());
    let restart_finds_it = is_there(pid, named.as_deref().unwrap_or(path));
    let named_elsewhere = named.filter(|named| named != path && !is_same(pid, named, path));
    let is_replaced = mappings.is_deleted(path) || named_elsewhere.is_some();
    Some(Loaded {
        path: path.clone(),
        is_replaced,
        named_elsewhere,
        restart_finds_it,
    })
}

/// The library by its name, or else under one that somebody has lengthened, such as `libcoldstream.so.old`.
fn by_name(files: &BTreeSet<PathBuf>) -> Option<&PathBuf> {
    let own = library::FILE_NAME.as_bytes();
    let exact = files.iter().find(|path| name(path) == own);
    exact.or_else(|| files.iter().find(|path| name(path).starts_with(own)))
}

fn name(path: &Path) -> &[u8] {
    path.file_name().unwrap_or_default().as_bytes()
}

/// Whether a file that was deleted is the library.
fn was_library(
    pid: u32,
    mappings: &Mappings,
    environment: &Environment,
    has_page: bool,
    path: &Path,
) -> bool {
    let link = mappings.link_to(pid, path);
    match link.filter(|link| File::open(link).is_ok()) {
        Some(link) => elf::check_library(&link).is_ok(),
        None => has_page && is_beside(environment.library_asked_for().as_deref(), path),
    }
}

/// Whether a deleted file, which the caller may not read, was where `LD_PRELOAD` names the library.
fn is_beside(named: Option<&Path>, deleted: &Path) -> bool {
    let directories = named.and_then(Path::parent).zip(deleted.parent());
    directories.is_some_and(|(named, deleted)| loader::may_mean(named, deleted))
}

/// Where a file of process `pid` is, as this process sees it.
pub fn in_its_root(pid: u32, path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    proc_path(pid, "root").join(relative)
}

/// Whether a process finds a file at a path.
fn is_there(pid: u32, path: &Path) -> bool {
    let root = File::open(proc_path(pid, "root"));
    root.map_or(true, |root| identity(&root, path).is_some())
}

/// Whether two paths are one file to a process. Where the caller may not look, nothing says that they are two.
fn is_same(pid: u32, named: &Path, mapped: &Path) -> bool {
    let Ok(root) = File::open(proc_path(pid, "root")) else {
        return true;
    };
    identity(&root, mapped).is_none_or(|mapped| identity(&root, named) == Some(mapped))
}

/// Device and inode of a file, if one is at this path below `root`.
fn identity(root: &File, path: &Path) -> Option<(u64, u64)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    let found = File::from(found.ok()?).metadata().ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_file_that_nobody_can_read_is_known_by_its_place() {
        for (named, is_it) in [
            (Some("/opt/libcoldstream.so"), true),
            (Some("/opt/a/libcoldstream.so"), false),
            (Some("libcoldstream.so"), false),
            (Some("$ORIGIN/libcoldstream.so"), true),
            (None, false),
        ] {
            let named = named.map(Path::new);
            assert_eq!(
                is_beside(named, Path::new("/opt/before.so")),
                is_it,
                "{named:?}"
            );
        }
    }

    #[test]
    fn the_library_is_known_by_its_name_and_longer_ones() {
        let found = |names: &[&str]| {
            let files = names.iter().map(PathBuf::from).collect();
            by_name(&files).cloned()
        };
        for (names, path) in [
            (
                &["/a/libc.so.6", "/opt/libcoldstream.so"][..],
                Some("/opt/libcoldstream.so"),
            ),
            (
                &["/a/libcoldstream.so.old"],
                Some("/a/libcoldstream.so.old"),
            ),
            (
                &["/a/libcoldstream.so.old", "/b/libcoldstream.so"],
                Some("/b/libcoldstream.so"),
            ),
            (
                &["/a/libcoldstream_io.so.1", "/a/my-libcoldstream.so"],
                None,
            ),
        ] {
            assert_eq!(found(names), path.map(PathBuf::from), "{names:?}");
        }
    }
}
