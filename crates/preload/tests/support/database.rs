//! The tables of a database of RocksDB.

use super::process::Program;
use super::{files, residency};
use std::fs::File;
use std::path::{Path, PathBuf};

/// All of them; none while there is no directory, which `db_bench` removes once more before it
/// begins with a new database.
pub fn tables(database: &Path) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(database) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        entries => entries.expect("read the database's directory"),
    };
    entries
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .collect()
}

/// A hash of every key and value, by `ldb scan`.
pub fn content(database: &Path) -> String {
    let scan = Program::new("ldb")
        .argument(format!("--db={}", database.display()))
        .arguments(["scan", "--hex"])
        .run()
        .well();
    assert!(!scan.stdout.is_empty(), "{database:?} is empty");
    files::Hash::of(&scan.stdout).to_string()
}

/// None of their pages is in the page cache, and they have rested.
pub fn make_cold(paths: &[PathBuf]) {
    for path in paths {
        residency::drop_pages(&File::open(path).expect("open"));
    }
    std::thread::sleep(files::SETTLE);
}
