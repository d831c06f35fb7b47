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
    /// The same when it was asked last whether it has changed.
    asked: Option<SystemTime>,
}

impl Directory {
    fn new(handle: File) -> io::Result<Self> {
        let device = handle.metadata()?.dev();
        Ok(Self {
            handle,
            device,
            listed: None,
            asked: None,
        })
    }

    /// Whether it may have changed since this was asked last.
    fn take_change(&mut self) -> bool {
        let changed = self.changed();
        let before = std::mem::replace(&mut self.asked, changed);
        changed.is_none() || changed != before
    }

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

/// Where a directory of a process is for this process. `path` is what the kernel shows of its descriptors: with the path of
/// its own root directory in front (`chroot`), and without that of its mount namespace.
fn path_for_us(pid: u32, path: &Path) -> io::Result<PathBuf> {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    if let Ok(inside) = path.strip_prefix(fs::read_link(&root)?) {
        return Ok(root.join(inside));
    }
    // It was opened before the process changed its root directory.
    let namespace = |of: &str| {
        let found = fs::metadata(format!("/proc/{of}/ns/mnt"))?;
        io::Result::Ok((found.dev(), found.ino()))
    };
    if namespace(&pid.to_string())? == namespace("self")? {
        return Ok(path.to_owned());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{} is outside of its root directory, and in another mount namespace: `nsenter --mount --target {pid} coldstream \
             attach {pid}`",
            path.display()
        ),
    ))
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
    /// Names were listed since it was asked last whether anything has changed.
    has_listed: bool,
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
        let mut directories = Vec::new();
        for path in paths {
            let handle = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_DIRECTORY)
                .open(path_for_us(pid, &path)?)?;
            refuse_strange(&handle, &path)?;
            directories.push(Directory::new(handle)?);
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
            has_listed: false,
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
        let mut listed = HashSet::new();
        let mut is_whole = true;
        for place in 0..self.directories.len() {
            match self.list_if_changed(place) {
                Ok(true) => {
                    listed.insert(place);
                }
                Ok(false) => {}
                Err(error) => is_whole &= !is_out_of_descriptors(&error),
            }
        }
        let listing = self.listing;
        self.has_listed |= !listed.is_empty();
        if !listed.is_empty() {
            (self.names).retain(|_, it| it.listing == listing || !listed.contains(&it.place));
        }
        self.next_list = Instant::now() + LIST_PAUSE.max(started.elapsed() * LIST_SHARE);
        is_whole
    }

    /// Returns whether it did. After an error, what is known stays.
    fn list_if_changed(&mut self, place: usize) -> io::Result<bool> {
        let Some(directory) = self.directories.get_mut(place) else {
            return Ok(false);
        };
        // Before it is read: a change during that is seen the next time.
        let changed = directory.changed();
        if changed.is_some() && changed == directory.listed {
            return Ok(false);
        }
        directory.listed = None;
        let path = format!("/proc/self/fd/{}", directory.handle.as_raw_fd());
        let entries = fs::read_dir(path)?;
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
        Ok(true)
    }

    /// Whether any name in them may have come or gone since this was asked last, or such a change was found by a listing.
    pub fn take_change(&mut self) -> bool {
        let mut has_changed = std::mem::take(&mut self.has_listed);
        for directory in &mut self.directories {
            has_changed |= directory.take_change();
        }
        has_changed
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

    /// Opens an SSTable for a moment.
    ///
    /// # Errors
    /// The kernel's; `NotFound` if it is gone, or its name is another file's by now.
    pub fn open(&self, id: FileId) -> io::Result<File> {
        Ok(self.open_with_kind(id)?.0)
    }

    /// The same, and what it is.
    pub(crate) fn open_with_kind(&self, id: FileId) -> io::Result<(File, FileKind)> {
        let named = self.names.get(&id).ok_or(io::ErrorKind::NotFound)?;
        let directory = self.directories.get(named.place);
        let directory = directory.ok_or(io::ErrorKind::NotFound)?.handle.as_raw_fd();
        let path = PathBuf::from(format!("/proc/self/fd/{directory}")).join(&named.name);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)?;
        let metadata = file.metadata()?;
        let is_it = metadata.is_file() && metadata.ino() == id.inode && metadata.dev() == id.device;
        match is_it {
            true => Ok((file, named.kind)),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Whether an open failed for the lack of a descriptor: it may succeed later.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
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
        let directory = Directory::new(File::open(scene.path()).unwrap()).unwrap();
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

    #[test]
    fn a_directory_has_changed_if_a_file_was_deleted_in_it() {
        let scene = tempfile::tempdir().unwrap();
        let path = scene.path().join("000007.sst");
        File::create(&path).unwrap();
        let directory = Directory::new(File::open(scene.path()).unwrap()).unwrap();
        let mut catalogue = Catalogue::of_directories(vec![directory]);
        let rest = || std::thread::sleep(2 * TICK);
        rest();
        assert!(catalogue.take_change());
        assert!(!catalogue.take_change());
        std::fs::remove_file(&path).unwrap();
        // Another change may have the same time.
        assert!(catalogue.take_change() && catalogue.take_change());
        rest();
        assert!(catalogue.take_change());
        assert!(!catalogue.take_change());
        // Only now it is known that the name has gone.
        catalogue.next_list = Instant::now();
        assert!(catalogue.list() && catalogue.take_change());
        assert!(!catalogue.take_change());
    }

    #[test]
    fn a_file_is_gone_if_it_has_no_name_or_its_name_is_another_ones() {
        let scene = tempfile::tempdir().unwrap();
        let path = scene.path().join("000007.sst");
        let metadata = File::create(&path).unwrap().metadata().unwrap();
        let directory = Directory::new(File::open(scene.path()).unwrap()).unwrap();
        let catalogue = Catalogue::of_directories(vec![directory]);
        let id = FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        let of_open = |id| catalogue.open(id).map(drop).map_err(|error| error.kind());
        let unknown = FileId { inode: 1, ..id };
        assert_eq!(of_open(id), Ok(()));
        assert_eq!(of_open(unknown), Err(io::ErrorKind::NotFound));
        let kept = scene.path().join("kept");
        std::fs::rename(&path, &kept).unwrap();
        assert_eq!(of_open(id), Err(io::ErrorKind::NotFound));
        File::create(&path).unwrap();
        assert_eq!(of_open(id), Err(io::ErrorKind::NotFound));
        // It may be there. It cannot be opened.
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&kept, &path).unwrap();
        assert!(of_open(id).is_err_and(|kind| kind != io::ErrorKind::NotFound));
    }

    #[test]
    fn a_lack_of_descriptors_passes() {
        let is_lack = |errno| is_out_of_descriptors(&io::Error::from_raw_os_error(errno));
        assert!(is_lack(libc::EMFILE) && is_lack(libc::ENFILE));
        assert!(!is_lack(libc::ENOENT) && !is_lack(libc::EACCES));
    }
}
