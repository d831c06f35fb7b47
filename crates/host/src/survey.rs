//! All processes under Coldstream that the caller may see: its own, in containers too; for root those of all users.
//!
//! Unlike [`crate::status_page`], nothing here maps or removes a file. Pages are read by `read`: another user who
//! truncates a page cannot end the caller by `SIGBUS`.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use coldstream_control::{PAGE_BYTES, PageError, PageName, PageView, PidNamespace, Snapshot};
use rustix::fs::OFlags;

use crate::process::{self, proc_path};
use crate::status_page::{self, StatusPageError};
use crate::user_name;

/// Where every process's own view has its status pages.
const SHARED_MEMORY: &str = "dev/shm";
const DIRECTORY_PREFIX: &str = "coldstream-";

/// One process under Coldstream.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// Its id, as the caller sees it. [`Snapshot::header`] has the one in its container.
    pub pid: u32,
    /// Its effective user, as the caller sees it.
    pub user: Option<u32>,
    /// Its short name (`comm`), without control characters. 15 bytes at most.
    pub program: String,
    /// Its counters.
    pub snapshot: Snapshot,
    /// The process of `coldstream attach` that works for it.
    pub keeper: Option<u32>,
}

/// Files of a user's directory that are looked at: it may be full of them.
const PAGES_MAX: usize = 1024;

/// What [`survey`] found.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The processes, in ascending order of their ids.
    pub processes: Vec<Surveyed>,
    /// Pages that could not be read: path and reason, in one line each.
    pub unreadable: Vec<String>,
}

/// Looks at all status pages that the caller may see. Pages of ended processes are passed over.
///
/// # Errors
/// The directory of the caller's own pages cannot be used. Root goes on without it: another user may have made it.
pub fn survey() -> Result<Survey, StatusPageError> {
    let mut survey = Survey::default();
    let mut places = Vec::new();
    let is_root = rustix::process::geteuid().is_root();
    match status_page::own_directory() {
        Ok(directory) => places.push(directory),
        Err(error) if is_root => survey.unreadable.push(error.to_string()),
        Err(error) => return Err(error),
    }
    if is_root {
        let named = user_directories(Path::new("/"));
        places.extend(named.into_iter().filter(|it| is_of_its_user(it)));
    }
    let residents = Residents::visible();
    // Other users' roots cannot be entered: those give nothing.
    for pid in residents.representatives() {
        places.extend(user_directories(&proc_path(pid, "root")));
    }
    // Containers may share a `/dev/shm`: one look is enough.
    let mut looked_at = HashSet::new();
    places.retain(|directory| identity(directory).is_some_and(|it| looked_at.insert(it)));
    for (name, path) in places.iter().flat_map(|directory| pages_in(directory)) {
        let found = match residents.seen_from_here(name) {
            Some(pid) => look(&path, name.pid, pid),
            None => Err(residents.not_seen()),
        };
        match found {
            Ok(process) => survey.processes.push(process),
            Err(Problem::Gone) => {}
            Err(Problem::Unreadable(reason)) => {
                let line = format!("{}: {reason}", path.display());
                survey.unreadable.push(line);
            }
        }
    }
    survey.processes.sort_unstable_by_key(|process| process.pid);
    // A container may have copies.
    survey.processes.dedup_by_key(|process| process.pid);
    Ok(survey)
}

/// Device and inode of a directory.
fn identity(directory: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(directory).ok()?;
    Some((found.dev(), found.ino()))
}

/// Whether a directory belongs to the user in its name. In a container users may have other numbers.
fn is_of_its_user(directory: &Path) -> bool {
    let owner = fs::symlink_metadata(directory).map(|found| found.uid());
    owner.is_ok_and(|owner| directory == coldstream_control::directory_path(owner))
}

/// The directories of all users below a root directory, by their names.
fn user_directories(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(SHARED_MEMORY));
    let directories = entries.into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        let user = name
            .to_str()
            .and_then(|it| it.strip_prefix(DIRECTORY_PREFIX));
        let is_named = user.is_some_and(|user| user.parse::<u32>().is_ok());
        is_named && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    directories.map(|entry| entry.path()).collect()
}

fn pages_in(directory: &Path) -> Vec<(PageName, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let pages = entries.take(PAGES_MAX).filter_map(|entry| {
        let name = PageName::of_file_name(&entry.file_name())?;
        Some((name, entry.path()))
    });
    pages.collect()
}

/// The processes of containers: the caller's ids of these are not the ids on their pages.
struct Residents {
    /// The caller's own namespace.
    own: PidNamespace,
    /// The id that the caller sees, by id and namespace in the container.
    pids: HashMap<PageName, u32>,
    /// A process of each mount namespace but the caller's.
    mounts: HashMap<u64, u32>,
}

impl Residents {
    /// Those that the caller sees.
    fn visible() -> Self {
        let mut found = Self {
            own: PidNamespace::own(),
            pids: HashMap::new(),
            mounts: HashMap::new(),
        };
        found.look_for();
        found
    }

    fn look_for(&mut self) {
        let own_mounts = namespace("self", "mnt");
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|it| it.parse::<u32>().ok()) else {
                continue;
            };
            if let Some(mounts) = namespace(&name, "mnt")
                && Some(mounts) != own_mounts
            {
                self.mounts.entry(mounts).or_insert(pid);
            }
            let Some(inode) = namespace(&name, "pid") else {
                continue;
            };
            let namespace = PidNamespace(inode);
            if namespace != self.own
                && let Some(inside) = process::id_in_container(pid)
            {
                let page = PageName {
                    pid: inside,
                    namespace,
                };
                self.pids.insert(page, pid);
            }
        }
    }

    /// A process of each other mount namespace.
    fn representatives(&self) -> impl Iterator<Item = u32> {
        self.mounts.values().copied()
    }

    /// The caller's id of the process that has this page.
    fn seen_from_here(&self, page: PageName) -> Option<u32> {
        if page.namespace == self.own {
            return Some(page.pid);
        }
        self.pids.get(&page).copied()
    }

    /// Why a page's process is not seen. The machine's own namespace has all processes; one of a container has not.
    fn not_seen(&self) -> Problem {
        if self.own == PidNamespace::INITIAL {
            return Problem::Gone;
        }
        Problem::Unreadable(
            "its process is not in this container's namespace of process ids: share that with it \
             (in Kubernetes `shareProcessNamespace: true`)"
                .to_owned(),
        )
    }
}

/// The inode of a namespace of a process.
fn namespace(pid: impl AsRef<OsStr>, kind: &str) -> Option<u64> {
    let path = Path::new("/proc").join(pid.as_ref()).join("ns").join(kind);
    Some(fs::metadata(path).ok()?.ino())
}

enum Problem {
    /// The process has ended; or the page vanished meanwhile.
    Gone,
    Unreadable(String),
}

/// Reads the page at `path` of the process that calls itself `inside`, and that the caller knows as `pid`.
fn look(path: &Path, inside: u32, pid: u32) -> Result<Surveyed, Problem> {
    let Some(started) = process::started(pid) else {
        return Err(Problem::Gone);
    };
    let user = process::user(pid);
    let words = words(path, user).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::Gone,
        _ => Problem::Unreadable(error.to_string()),
    })?;
    let page = PageView::new(&words).and_then(|view| match status_page::is_kept(&view) {
        true => view.snapshot_of(inside, started),
        false => Err(PageError::Stale { pid: inside }),
    });
    let keeper = PageView::new(&words).ok().and_then(|view| view.keeper());
    let snapshot = page.map_err(|error| match error {
        PageError::Stale { .. } => Problem::Gone,
        other => Problem::Unreadable(other.to_string()),
    })?;
    Ok(Surveyed {
        pid,
        user,
        program: process::short_name(pid),
        snapshot,
        keeper: keeper.map(|(keeper, _)| keeper),
    })
}

/// The words of a page, which must belong to the user of its process: nobody else knows its figures.
fn words(path: &Path, user: Option<u32>) -> io::Result<Vec<AtomicU64>> {
    // O_NONBLOCK: the path may name a pipe, whose open would wait.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if user != Some(found.uid()) {
        let owner = user_name::shown(found.uid());
        let reason = format!("belongs to user {owner}, and the process does not");
        return Err(io::Error::other(reason));
    }
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    file.take(PAGE_BYTES as u64).read_to_end(&mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    Ok(words.map(AtomicU64::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_pages_are_said_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1");
        let pid = std::process::id();
        assert!(matches!(look(&path, pid, pid), Err(Problem::Gone)));
        fs::write(&path, [7; 4096]).unwrap();
        assert!(matches!(look(&path, pid, pid), Err(Problem::Unreadable(_))));
        fs::write(&path, "short").unwrap();
        assert!(matches!(look(&path, pid, pid), Err(Problem::Unreadable(_))));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/proc/self/stat", &path).unwrap();
        assert!(matches!(look(&path, pid, pid), Err(Problem::Unreadable(_))));
        assert!(matches!(look(&path, pid, u32::MAX), Err(Problem::Gone)));
    }

    #[test]
    fn only_directories_with_a_users_number_are_entered() {
        let root = tempfile::tempdir().unwrap();
        let shared = root.path().join(SHARED_MEMORY);
        for name in ["coldstream-0", "coldstream-x", "other-1"] {
            fs::create_dir_all(shared.join(name)).unwrap();
        }
        fs::write(shared.join("coldstream-2"), "").unwrap();
        assert_eq!(user_directories(root.path()), [shared.join("coldstream-0")]);
    }
}
