//! Names of a process's SSTables, by the numbers that events have.
//!
//! It holds the directories open, and no SSTable: an open descriptor would keep the space of a deleted file.

use crate::event::FileId;
use coldstream_host::block_device::BlockDevice;
use coldstream_host::mounts::{self, Mount};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_policy::{FileKind, Profile};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A directory is listed at most this often, and for a fiftieth of the time at most.
const LIST_PAUSE: Duration = Duration::from_millis(100);
const LIST_SHARE: u32 = 50;

#[derive(Debug)]
struct Directory {
    handle: File,
    device: u64,
    path: PathBuf,
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

/// Directories of SSTables, and the names in them.
#[derive(Debug)]
pub struct Catalogue {
    directories: Vec<Directory>,
    names: HashMap<FileId, (usize, OsString, FileKind)>,
    next_list: Instant,
    has_new: bool,
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
                path,
            });
        }
        if directories.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut catalogue = Self {
            directories,
            names: HashMap::new(),
            next_list: Instant::now(),
            has_new: false,
        };
        catalogue.list();
        catalogue.has_new = false;
        Ok(catalogue)
    }

    /// The most that the kernel reads ahead in these directories without advice, in pages. `None` unless it is
    /// known of all of them.
    #[must_use]
    pub fn usual_readahead_pages(&self, mounts: &[Mount]) -> Option<u32> {
        let kib = |directory: &Directory| {
            let mount = mounts::of_path(&directory.path, mounts)?;
            BlockDevice::of_mount(mount)?.read_ahead_kib_of_mount(mount)
        };
        let mut most = 0;
        for directory in &self.directories {
            most = most.max(kib(directory)?);
        }
        u32::try_from(most * 1024 / PAGE_BYTES).ok()
    }

    /// Number of SSTables.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Lists the directories anew, unless that was a short time ago. Returns whether it did.
    pub fn list(&mut self) -> bool {
        let started = Instant::now();
        if started < self.next_list {
            return false;
        }
        let before = std::mem::take(&mut self.names);
        for (place, directory) in self.directories.iter().enumerate() {
            let path = format!("/proc/self/fd/{}", directory.handle.as_raw_fd());
            let Ok(entries) = fs::read_dir(path) else {
                // No descriptor is left. What is known stays.
                let known = before.iter().filter(|(_, known)| known.0 == place);
                (self.names).extend(known.map(|(id, known)| (*id, known.clone())));
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let kind = Profile::Auto.kind_of_file(name.as_bytes());
                if kind.is_sstable() {
                    let id = FileId {
                        device: directory.device,
                        inode: entry.ino(),
                    };
                    let known = before.get(&id).is_some_and(|(_, known, _)| *known == name);
                    self.has_new |= !known;
                    self.names.insert(id, (place, name, kind));
                }
            }
        }
        self.next_list = Instant::now() + LIST_PAUSE.max(started.elapsed() * LIST_SHARE);
        true
    }

    /// Whether an SSTable has appeared since this was asked last.
    pub fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.has_new)
    }

    /// The kind of a file, if it is an SSTable that was listed.
    #[must_use]
    pub fn kind(&self, id: FileId) -> Option<FileKind> {
        self.names.get(&id).map(|(_, _, kind)| *kind)
    }

    /// Opens an SSTable for a moment; `None` if it is gone, or its name is another file's by now.
    #[must_use]
    pub fn open(&self, id: FileId) -> Option<File> {
        Some(self.open_with_kind(id)?.0)
    }

    /// The same, and what it is.
    pub(crate) fn open_with_kind(&self, id: FileId) -> Option<(File, FileKind)> {
        let (place, name, kind) = self.names.get(&id)?;
        let directory = self.directories.get(*place)?.handle.as_raw_fd();
        let path = PathBuf::from(format!("/proc/self/fd/{directory}")).join(name);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .ok()?;
        let metadata = file.metadata().ok()?;
        let is_it = metadata.is_file() && metadata.ino() == id.inode && metadata.dev() == id.device;
        is_it.then_some((file, *kind))
    }
}
