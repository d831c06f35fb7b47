//! The log that the settings of a process name: whether its user can write it.
//!
//! The library goes on without a log that it cannot write, and has no other place to say so. `coldstream run` tries it
//! before the program starts. Under a bare `LD_PRELOAD` nobody does.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coldstream_host::process::{self, proc_path};
use coldstream_host::user_name;
use rustix::fs::{Mode, OFlags, ResolveFlags, StatVfsMountFlags};

use crate::processes;

const WRITE: u32 = 0o2;
const SEARCH: u32 = 0o1;

/// Who writes the log.
struct Writer {
    user: u32,
    groups: Vec<u32>,
}

impl Writer {
    /// What the permissions say. An access control list may say something else: then the answer is yes.
    fn may(&self, permission: u32, found: &Found) -> bool {
        let mode = found.metadata.mode();
        let bits = if self.user == found.metadata.uid() {
            mode >> 6
        } else if self.groups.contains(&found.metadata.gid()) {
            mode >> 3
        } else {
            mode
        };
        self.user == processes::ROOT || bits & permission != 0 || found.has_access_list
    }
}

/// A file or directory, as the process sees it.
struct Found {
    metadata: Metadata,
    is_read_only: bool,
    has_access_list: bool,
}

impl Found {
    /// Looks at it, and opens neither a pipe nor a device.
    fn in_root(root: &File, path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        let mount = rustix::fs::fstatvfs(&file)?;
        let file = File::from(file);
        // The call that takes a descriptor refuses one that is no more than a path.
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let list = rustix::fs::getxattr(name, c"system.posix_acl_access", &mut [0_u8; 0]);
        Ok(Self {
            metadata: file.metadata()?,
            is_read_only: mount.f_flag.contains(StatVfsMountFlags::RDONLY),
            has_access_list: list.is_ok(),
        })
    }
}

/// What to do about a log that the user of a process cannot write; none if it can, or if that is not known.
pub fn advice(pid: u32, log: &Path) -> Option<String> {
    let mut groups = process::supplementary_groups(pid);
    groups.extend(process::group(pid));
    let writer = Writer {
        user: process::user(pid)?,
        groups,
    };
    let root = File::open(proc_path(pid, "root")).ok()?;
    let why = why_unwritable(&root, log, &writer)?;
    Some(format!(
        "user {}, as whom it runs, cannot write the log {}: {why}. What Coldstream reports there is lost: change that, \
         or name another file in COLDSTREAM_LOG",
        user_name::shown(writer.user),
        log.display()
    ))
}

fn why_unwritable(root: &File, log: &Path, writer: &Writer) -> Option<String> {
    let directory = log.parent()?;
    let mut above: Vec<&Path> = directory.ancestors().collect();
    above.reverse();
    for part in above {
        match Found::in_root(root, part) {
            Ok(found) if !writer.may(SEARCH, &found) => {
                return Some(format!("it may not enter {}", part.display()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Some(format!("there is no directory {}", part.display()));
            }
            Err(_) => return None,
        }
    }
    match Found::in_root(root, log) {
        Ok(found) if found.metadata.is_dir() => Some("it is a directory".to_owned()),
        // A pipe or a device can be written all the same.
        Ok(found) if found.is_read_only && found.metadata.is_file() => {
            Some("it is on a read-only mount".to_owned())
        }
        Ok(found) if !writer.may(WRITE, &found) => {
            let owner = user_name::shown(found.metadata.uid());
            Some(format!(
                "it belongs to user {owner}, and is closed to others"
            ))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = Found::in_root(root, directory).ok()?;
            let place = directory.display();
            if above.is_read_only {
                Some(format!("{place} is on a read-only mount"))
            } else {
                (!writer.may(WRITE, &above)).then(|| format!("it may not make files in {place}"))
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_reason_is_the_first_part_that_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let set_mode = |name: &str, mode| {
            fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        };
        let owner = directory.path().metadata().unwrap();
        let stranger = Writer {
            user: owner.uid() + 1,
            groups: vec![owner.gid() + 1],
        };
        let of_group = Writer {
            user: owner.uid() + 1,
            groups: vec![owner.gid()],
        };
        let root = File::open("/").unwrap();
        let why = |name: &str, writer| why_unwritable(&root, &path(name), writer);
        fs::write(path("log"), "").unwrap();
        set_mode("log", 0o664);
        set_mode("", 0o755);
        let is_told =
            |why: Option<String>, words: &str| assert!(why.unwrap().contains(words), "{words}");
        is_told(why("log", &stranger), "closed to others");
        assert_eq!(why("log", &of_group), None);
        is_told(why("other", &of_group), "may not make files in");
        set_mode("", 0o777);
        assert_eq!(why("other", &stranger), None);
        is_told(why("no/log", &stranger), "there is no directory");
        is_told(why("", &stranger), "it is a directory");
        set_mode("", 0o700);
        is_told(why("log", &of_group), "may not enter");
        let itself = Writer {
            user: owner.uid(),
            groups: Vec::new(),
        };
        assert_eq!(why("log", &itself), None);
    }
}
