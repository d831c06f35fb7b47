//! The SSTables of a RocksDB database.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::process::Program;
use crate::{files, residency};

/// All SSTables. Empty while there is no directory: `db_bench` removes it before it begins a new database.
///
/// # Panics
/// The directory cannot be read.
#[must_use]
pub fn sstables(database: &Path) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(database) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        entries => entries.expect("read the database's directory"),
    };
    entries
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .collect()
}

/// A number as SSTables have it: seven bits a byte, the lowest first (`util/coding.h`).
#[must_use]
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A hash of every key and value, by `ldb scan`.
///
/// # Panics
/// The database is empty or cannot be read.
#[must_use]
pub fn content(database: &Path) -> String {
    let scan = Program::new("ldb")
        .argument(format!("--db={}", database.display()))
        .arguments(["scan", "--hex"])
        .run()
        .well();
    assert!(!scan.stdout.is_empty(), "{} is empty", database.display());
    files::Hash::of(&scan.stdout).to_string()
}

/// Drops the files' pages from the page cache, and waits until the files may be read in windows.
///
/// # Panics
/// A file cannot be opened.
pub fn make_cold(paths: &[PathBuf]) {
    for path in paths {
        residency::drop_pages(&File::open(path).expect("open"));
    }
    std::thread::sleep(files::REST);
}
