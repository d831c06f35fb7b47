//! Names of a process's SSTables, by the numbers that events have.
//!
//! It holds the directories open, and no SSTable: an open descriptor would keep the space of a deleted file.

use crate::event::FileId;
use coldstream_policy::{FileKind, Profile};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// A directory is listed at most this often, and for a fiftieth of the time at most.
const LIST_PAUSE: Duration = Duration::from_millis(100);
const LIST_SHARE: u32 = 50;
/// Two changes within a tick of the kernel's clock may have the same time: ten milliseconds (`CONFIG_HZ=100`), and as much again.
const TICK: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Directory {
    handle: File,
    device: u64,
    /// The time of its last change when it was listed; `None` if a later one may have the same time.
    listed: Option<SystemTime>,
}

impl Directory {
    /// The time of its last change, unless another one may have the same time.
    fn changed(&self) -> Option<SystemTime> {
        let changed = self.handle.metadata().ok()?.modified().ok()?;
        (age_of(changed)? > TICK).then_some(changed)
    }
}

/// `None` for a time to come.
fn age_of(time: SystemTime) -> Option<Duration> {
    SystemTime::now().duration_since(time).ok()
}

/// Filesystems whose files have other numbers for the kernel's page cache than `stat(2)` tells.
const STRANGE: [(libc::c_long, &str); 2] = [
    (libc::OVERLAYFS_SUPER_MAGIC, "overlayfs"),
    (libc::BTRFS_SUPER_MAGIC, "btrfs"),
];

fn refuse_strange(directory: &File, path: &Path) -> io::Result<()> {
    let found = rustix::fs::fstatfs(directory)?.f_type;
    match STRANGE.iter().find(|(magic, _)| *magic == found) {
        None => Ok(()),
        Some((_, name)) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "{} is on {name}, whose files cannot be told apart from outside. In a container: put the data on a volume",
                path.display()
            ),
        )),
    }
}

/// The name of an SSTable.
#[derive(Debug)]
struct Named {
    /// The number of its directory.
    place: usize,
    name: OsString,
    kind: FileKind,
    /// The number of the listing that found it last.
    listing: u64,
}

/// Directories of SSTables, and the names in them.
#[derive(Debug)]
pub struct Catalogue {
    directories: Vec<Directory>,
    names: HashMap<FileId, Named>,
    /// The number of the last listing.
    listing: u64,
    next_list: Instant,
    /// The age of the youngest SSTable that has appeared.
    youngest: Option<Duration>,
}

impl Catalogue {
    /// Finds the directories of the SSTables that a process has open. Needs the right to look into it.
    ///
    /// # Errors
    /// The kernel's; `NotFound` if it has none open; `Unsupported` on a filesystem that cannot be followed.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        let open = coldstream_host::process::open_files(pid)?;
        let mut paths = BTreeSet::new();
        for path in open {
            let name = path.as_os_str().as_bytes();
            let is_manifest = path
                .file_name()
                .is_some_and(|name| name.as_bytes().starts_with(b"MANIFEST-"));
            if (Profile::Auto.kind_of_file(name).is_sstable() || is_manifest)
                && let Some(directory) = path.parent()
            {
                paths.insert(directory.to_owned());
            }
        }
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let mut directories = Vec::new();
        for path in paths {
            let inside = root.join(path.strip_prefix("/").unwrap_or(&path));
            let handle = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECTORY)
                .open(inside)?;
            refuse_strange(&handle, &path)?;
            let device = handle.metadata()?.dev();
            directories.push(Directory {
                handle,
                device,
                listed: None,
            });
        }
        if directories.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self::of_directories(directories))
    }

    fn of_directories(directories: Vec<Directory>) -> Self {
        let mut catalogue = Self {
            directories,
            names: HashMap::new(),
            listing: 0,
            next_list: Instant::now(),
            youngest: None,
        };
        catalogue.list();
        catalogue
    }

    /// The devices of the directories, each once.
    #[must_use]
    pub fn devices(&self) -> BTreeSet<u64> {
        let directories = self.directories.iter();
        directories.map(|directory| directory.device).collect()
    }

    /// Number of SSTables.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Lists the directories that have changed, unless that was a short time ago. Returns whether all names are known now.
    pub fn list(&mut self) -> bool {
        let started = Instant::now();
        if started < self.next_list {
            return false;
        }
        self.listing += 1;
        let places = 0..self.directories.len();
        let listed: HashSet<usize> = places
            .filter(|place| self.list_if_changed(*place))
            .collect();
        let listing = self.listing;
        if !listed.is_empty() {
            (self.names).retain(|_, it| it.listing == listing || !listed.contains(&it.place));
        }
        self.next_list = Instant::now() + LIST_PAUSE.max(started.elapsed() * LIST_SHARE);
        true
    }

    /// Returns whether it did.
    fn list_if_changed(&mut self, place: usize) -> bool {
        let Some(directory) = self.directories.get_mut(place) else {
            return false;
        };
        // Before it is read: a change during that is seen the next time.
        let changed = directory.changed();
        if changed.is_some() && changed == directory.listed {
            return false;
        }
        let path = format!("/proc/self/fd/{}", directory.handle.as_raw_fd());
        let Ok(entries) = fs::read_dir(path) else {
            // No descriptor is left. What is known stays.
            directory.listed = None;
            return false;
        };
        directory.listed = changed;
        let device = directory.device;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let kind = Profile::Auto.kind_of_file(name.as_bytes());
            if !kind.is_sstable() {
                continue;
            }
            let inode = entry.ino();
            let named = Named {
                place,
                name,
                kind,
                listing: self.listing,
            };
            let before = self.names.insert(FileId { device, inode }, named);
            let is_known = before.is_some_and(|before| before.name == entry.file_name());
            // What is there from the start on is no news.
            if !is_known
                && self.listing > 1
                && let Some(age) = age_of_file(&entry)
            {
                self.youngest = Some(self.youngest.map_or(age, |youngest| youngest.min(age)));
            }
        }
        true
    }

    /// The age of the youngest SSTable that was listed for the first time since this was asked last.
    pub fn take_youngest(&mut self) -> Option<Duration> {
        self.youngest.take()
    }

    /// The kind of a file, if it is an SSTable that was listed.
    #[must_use]
    pub fn kind(&self, id: FileId) -> Option<FileKind> {
        self.names.get(&id).map(|named| named.kind)
    }

    /// Opens an SSTable for a moment; `None` if it is gone, or its name is another file's by now.
    #[must_use]
    pub fn open(&self, id: FileId) -> Option<File> {
        Some(self.open_with_kind(id)?.0)
    }

    /// The same, and what it is.
    pub(crate) fn open_with_kind(&self, id: FileId) -> Option<(File, FileKind)> {
        let named = self.names.get(&id)?;
        let directory = self.directories.get(named.place)?.handle.as_raw_fd();
        let path = PathBuf::from(format!("/proc/self/fd/{directory}")).join(&named.name);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .ok()?;
        let metadata = file.metadata().ok()?;
        let is_it = metadata.is_file() && metadata.ino() == id.inode && metadata.dev() == id.device;
        is_it.then_some((file, named.kind))
    }
}

/// Since a file was made; where the filesystem does not say that, since it was written.
fn age_of_file(entry: &fs::DirEntry) -> Option<Duration> {
    let metadata = entry.metadata().ok()?;
    age_of(metadata.created().or_else(|_| metadata.modified()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_listed_after_a_change_and_a_new_sstable_has_an_age() {
        let scene = tempfile::tempdir().unwrap();
        let directory = Directory {
            handle: File::open(scene.path()).unwrap(),
            device: scene.path().metadata().unwrap().dev(),
            listed: None,
        };
        let mut catalogue = Catalogue::of_directories(vec![directory]);
        let listed = |catalogue: &mut Catalogue| {
            catalogue.next_list = Instant::now();
            assert!(catalogue.list());
            catalogue.directories[0].listed
        };
        assert_eq!((catalogue.count(), catalogue.take_youngest()), (0, None));
        let path = scene.path().join("000007.sst");
        let made = Instant::now();
        File::create(&path).unwrap();
        // The change is younger than a tick, or was seen by a listing after that.
        while listed(&mut catalogue).is_none() {
            std::thread::sleep(TICK / 4);
        }
        assert_eq!(catalogue.count(), 1);
        let age = catalogue.take_youngest().unwrap();
        assert!(age < made.elapsed() + TICK, "{age:?}");
        // Names that are known stay without being read again.
        catalogue.names.clear();
        let before = catalogue.directories[0].listed;
        assert_eq!(listed(&mut catalogue), before);
        assert_eq!((catalogue.count(), catalogue.take_youngest()), (0, None));
        std::fs::rename(&path, scene.path().join("000008.sst")).unwrap();
        listed(&mut catalogue);
        assert_eq!(catalogue.count(), 1);
    }
}
