//! The SSTable files: their paths, their pages in the page cache, their checksums.

use coldstream_io::residency;
use coldstream_nodes::Node;
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

pub const KEYSPACE: &str = "coldstream";

fn entries(directory: &Path) -> Vec<PathBuf> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => panic!("{}: {error}", directory.display()),
    }
}

fn is_data(path: &Path) -> bool {
    path.to_string_lossy().ends_with("-Data.db")
}

/// The directories of a CQL table, or of all: `data/KEYSPACE/TABLE-ID`.
fn directories(node: &Node, table: Option<&str>) -> Vec<PathBuf> {
    let all = entries(&node.directory().join("data").join(KEYSPACE));
    let of_table = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        table.is_none_or(|table| {
            name.rsplit_once('-')
                .is_some_and(|(prefix, _)| prefix == table)
        })
    };
    all.into_iter().filter(of_table).collect()
}

/// The `Data.db` files of a CQL table, or of all, unfinished ones included.
pub fn data(node: &Node, table: Option<&str>) -> Vec<PathBuf> {
    let directories = directories(node, table);
    let files = directories.iter().flat_map(|directory| entries(directory));
    files.filter(|path| is_data(path)).collect()
}

/// Transaction logs of unfinished compactions.
pub fn compactions(node_directory: &Path) -> Vec<PathBuf> {
    let tables = entries(&node_directory.join("data").join(KEYSPACE)).into_iter();
    let files = tables.flat_map(|table| entries(&table));
    files
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.contains("_txn_compaction_") && name.ends_with(".log")
        })
        .collect()
}

/// The `Data.db` files of a snapshot.
pub fn of_snapshot(node: &Node, tag: &str) -> Vec<PathBuf> {
    let snapshots = directories(node, None).into_iter();
    let files = snapshots.flat_map(|table| entries(&table.join("snapshots").join(tag)));
    files.filter(|path| is_data(path)).collect()
}

/// Drops the files from the page cache: the next reads go to the device.
pub fn make_cold(paths: &[PathBuf]) {
    for path in paths {
        // Compaction may remove it at any moment.
        if let Ok(file) = File::open(path) {
            file.sync_data().expect("fdatasync");
            fadvise(&file, 0, None, Advice::DontNeed).expect("posix_fadvise");
        }
    }
}

/// Pages in the page cache, and all pages, of the files that still exist.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages {
    pub resident: u64,
    pub all: u64,
}

impl std::fmt::Display for Pages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} of {}", self.resident, self.all)
    }
}

impl Pages {
    pub fn of(paths: &[PathBuf]) -> Self {
        let mut pages = Self::default();
        for file in paths.iter().filter_map(|path| File::open(path).ok()) {
            let bytes = file.metadata().expect("fstat").len();
            if let Ok(residency) = residency::of_range(file.as_raw_fd(), 0, bytes) {
                pages.resident += residency.resident_pages;
                pages.all += residency.pages;
            }
        }
        pages
    }
}

/// CRC-32 of a file.
fn checksum(path: &Path) -> io::Result<u32> {
    let mut file = File::open(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Asserts that each file, read from the device, has the digest that Cassandra computed while it wrote the
/// file.
pub fn assert_digests(paths: &[PathBuf]) {
    make_cold(paths);
    for path in paths {
        let digest = path.to_string_lossy().replace("-Data.db", "-Digest.crc32");
        let digest =
            fs::read_to_string(&digest).unwrap_or_else(|error| panic!("{digest}: {error}"));
        let found = checksum(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(digest.trim(), found.to_string(), "{}", path.display());
    }
}
