//! The path of a process's page: `/dev/shm/coldstream-UID/PID`.
//!
//! `/dev/shm` is memory on every Linux. A directory for each user keeps other users out. Containers may
//! share `/dev/shm` (those of a pod, `--ipc=host`), and each numbers its processes from 1. So the name
//! has the namespace of the process id too, unless that is the machine's own.

use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Permissions of a user's directory.
pub const DIRECTORY_MODE: u32 = 0o700;
/// Permissions of a page.
pub const FILE_MODE: u32 = 0o600;

/// The namespace that gave a process its id: the inode of `/proc/self/ns/pid` (namespaces(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PidNamespace(pub u64);

impl PidNamespace {
    /// The namespace of the machine (`PROC_PID_INIT_INO`, `include/linux/proc_ns.h`).
    pub const INITIAL: Self = Self(0xEFFF_FFFC);

    /// The namespace of the calling process; the machine's where `/proc` is not mounted.
    #[must_use]
    pub fn own() -> Self {
        fs::metadata("/proc/self/ns/pid").map_or(Self::INITIAL, |metadata| Self(metadata.ino()))
    }
}

/// The directory with the pages of a user's processes.
#[must_use]
pub fn directory_path(uid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/coldstream-{uid}"))
}

/// The path of a process's page.
#[must_use]
pub fn page_path(uid: u32, pid: u32, namespace: PidNamespace) -> PathBuf {
    directory_path(uid).join(PageName { pid, namespace }.to_string())
}

/// The file name of a process's page. Displaying it does not allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageName {
    /// The process id.
    pub pid: u32,
    /// The namespace of the id.
    pub namespace: PidNamespace,
}

impl fmt::Display for PageName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, namespace } = self;
        match *namespace {
            PidNamespace::INITIAL => write!(formatter, "{pid}"),
            PidNamespace(inode) => write!(formatter, "{pid}-{inode}"),
        }
    }
}

impl PageName {
    /// The page that has this file name; `None` for other files. Does not allocate.
    #[must_use]
    pub fn of_file_name(name: &OsStr) -> Option<Self> {
        let text = name.to_str()?;
        let (digits, inode) = match text.split_once('-') {
            Some((digits, inode)) => (digits, Some(inode.parse().ok()?)),
            None => (text, None),
        };
        let pid = digits.parse().ok()?;
        let namespace = inode.map_or(PidNamespace::INITIAL, PidNamespace);
        let page = Self { pid, namespace };
        // `+7` and `007` parse too, but are no names of pages.
        let mut rest = Rest(text);
        let is_same = write!(rest, "{page}").is_ok() && rest.0.is_empty();
        is_same.then_some(page)
    }
}

/// The id of the process whose page has this file name; `None` for other namespaces and other files. Does not
/// allocate.
#[must_use]
pub fn pid_of_file_name(name: &OsStr, namespace: PidNamespace) -> Option<u32> {
    let page = PageName::of_file_name(name)?;
    (page.namespace == namespace).then_some(page.pid)
}

/// What is left of a text after everything that is written to it. So nothing is allocated.
struct Rest<'a>(&'a str);

impl fmt::Write for Rest<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_belong_together() {
        let here = PidNamespace::INITIAL;
        let path = page_path(1000, 4711, here);
        assert_eq!(path, PathBuf::from("/dev/shm/coldstream-1000/4711"));
        assert_eq!(path.parent(), Some(directory_path(1000).as_path()));
        let pid = |name: &str, namespace| pid_of_file_name(OsStr::new(name), namespace);
        assert_eq!(pid("4711", here), Some(4711));
        for name in ["", "+7", "007", "12x", "-1", "99999999999", "7-8"] {
            assert_eq!(pid(name, here), None, "{name}");
        }
    }

    #[test]
    fn processes_of_another_namespace_are_not_taken_for_ours() {
        let (ours, theirs) = (PidNamespace(4_026_532_001), PidNamespace(4_026_532_002));
        let path = page_path(1000, 1, ours);
        assert_eq!(path.file_name().unwrap(), "1-4026532001");
        let pid = |namespace| pid_of_file_name(path.file_name().unwrap(), namespace);
        assert_eq!(pid(ours), Some(1));
        assert_eq!(pid(theirs), None);
        assert_eq!(pid(PidNamespace::INITIAL), None);
        assert_eq!(pid_of_file_name(OsStr::new("1"), ours), None);
        let page = PageName::of_file_name(OsStr::new("1-4026532001"));
        assert_eq!(page.map(|page| page.namespace), Some(ours));
    }
}
