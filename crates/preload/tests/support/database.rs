//! The tables of a database of RocksDB.

use super::{files, residency};
use std::fs::File;
use std::path::{Path, PathBuf};

/// All of them.
pub fn tables(database: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(database)
        .expect("read the database's directory")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .collect()
}

/// None of their pages is in the page cache, and they have rested.
pub fn make_cold(paths: &[PathBuf]) {
    for path in paths {
        residency::drop_pages(&File::open(path).expect("open"));
    }
    std::thread::sleep(files::SETTLE);
}
