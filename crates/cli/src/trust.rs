//! Whether somebody else could change where a path leads, or what it names. Root must not write there, or load it.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Links that are followed; the kernel follows as many (`MAXSYMLINKS`, include/linux/namei.h).
const LINKS_MAX: usize = 40;
/// Write permission of the group and of others.
const WRITABLE: u32 = 0o022;
/// In such a directory only the owner of a file may replace it.
const STICKY: u32 = 0o1000;

/// A part of a path that others may change.
#[derive(Debug, PartialEq, Eq)]
pub struct Changeable {
    /// The part: a directory above, a link on the way, or the file itself.
    pub part: PathBuf,
    /// Its owner.
    pub owner: u32,
}

/// The first part of a path that somebody other than root and the caller may change, its links followed. Parts that are
/// not there are passed over.
pub fn changeable_by_others(path: &Path) -> Option<Changeable> {
    let own = rustix::process::geteuid().as_raw();
    let mut links = 0;
    let mut paths = VecDeque::from([std::path::absolute(path).ok()?]);
    while let Some(path) = paths.pop_front() {
        let mut parts: Vec<_> = path.ancestors().collect();
        parts.reverse();
        for part in parts {
            let Ok(found) = fs::symlink_metadata(part) else {
                continue;
            };
            let is_open = found.mode() & WRITABLE != 0
                && !found.is_symlink()
                && !(found.is_dir() && found.mode() & STICKY != 0);
            if is_open || ![0, own].contains(&found.uid()) {
                return Some(Changeable {
                    part: part.to_owned(),
                    owner: found.uid(),
                });
            }
            if found.is_symlink() {
                links += 1;
                let target = fs::read_link(part).ok().filter(|_| links <= LINKS_MAX)?;
                let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
                let there = part.parent().unwrap_or(Path::new("/")).join(target);
                // `..` is resolved by the kernel, so behind links.
                paths.push_back(fs::canonicalize(&there).unwrap_or(there).join(rest));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn directories_links_and_files_of_others_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("own")).unwrap();
        fs::create_dir_all(at("open")).unwrap();
        fs::write(at("own/file"), "").unwrap();
        fs::write(at("open/file"), "").unwrap();
        symlink(at("open/file"), at("own/link")).unwrap();
        let found = |name: &str| changeable_by_others(&at(name)).map(|it| it.part);
        assert_eq!(found("own/file"), None);
        assert_eq!(found("own/link"), None);
        assert_eq!(found("own/absent"), None);
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(found("own/file"), None);
        assert_eq!(found("own/link"), Some(at("open")));
        assert_eq!(found("open/absent"), Some(at("open")));
        // As /tmp.
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(found("own/link"), None);
        fs::set_permissions(at("own/file"), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(found("own/file"), Some(at("own/file")));
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(at("own/file"), fs::Permissions::from_mode(0o644)).unwrap();
            std::os::unix::fs::chown(at("own"), Some(65534), None).unwrap();
            let owner = changeable_by_others(&at("own/file")).unwrap();
            assert_eq!((owner.part, owner.owner), (at("own"), 65534));
        }
    }
}
