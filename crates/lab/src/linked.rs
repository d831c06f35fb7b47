//! Tables that a run shares with the data set by hard links.
//!
//! A database that deletes such a table does not delete its last name, so that the kernel would
//! keep its pages: those of a table of the database's own would be gone at once. They are dropped
//! as soon as the laboratory sees it.

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File};
use std::path::{Path, PathBuf};

/// A run's own copy of a data set, removed when dropped.
#[derive(Debug)]
pub struct LinkedCopy {
    path: PathBuf,
    /// The data set's name and the run's of each table.
    tables: Vec<(PathBuf, PathBuf)>,
}

impl LinkedCopy {
    /// Copies a data set, which has tables of this extension, into a directory of the run's own.
    /// Tables become hard links: databases never change one, but write another file of the same
    /// name.
    pub fn make(data_set: &Path, extension: &str, work_dir: &Path) -> Result<Self> {
        let mut copy = Self {
            path: work_dir.join("run"),
            tables: Vec::new(),
        };
        let _ = fs::remove_dir_all(&copy.path);
        let to = copy.path.clone();
        copy.take(data_set, &to, extension.as_ref())?;
        Ok(copy)
    }

    fn take(&mut self, from: &Path, to: &Path, extension: &OsStr) -> Result<()> {
        fs::create_dir_all(to).with_context(|| to.display().to_string())?;
        for entry in entries(from)? {
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let both = || format!("{} to {}", source.display(), target.display());
            if source.is_dir() {
                self.take(&source, &target, extension)?;
            } else if source.extension() == Some(extension) {
                fs::hard_link(&source, &target).with_context(both)?;
                self.tables.push((source, target));
            } else {
                fs::copy(&source, &target).with_context(both)?;
            }
        }
        Ok(())
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Drops all of the tables from the page cache.
    pub fn drop_pages(&self) -> Result<()> {
        self.tables
            .iter()
            .try_for_each(|(from, _)| drop_from_page_cache(from))
    }

    /// Drops from the page cache what the database has deleted since the last time: to be called a
    /// few times a second.
    pub fn drop_deleted(&mut self) {
        self.tables.retain(|(from, to)| {
            let alive = to.exists();
            if !alive {
                // Best effort: a few pages more or less that nobody reads.
                let _ = drop_from_page_cache(from);
            }
            alive
        });
    }
}

impl Drop for LinkedCopy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What is in a directory.
pub fn entries(directory: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect);
    entries.with_context(|| directory.display().to_string())
}

/// Drops a file's pages; they are written back first, since what is dirty stays.
fn drop_from_page_cache(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.sync_data()
        .with_context(|| path.display().to_string())?;
    fadvise(&file, 0, None, Advice::DontNeed).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_io::residency;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    fn resident_pages(path: &Path) -> u64 {
        let file = File::open(path).unwrap();
        let residency = residency::of_range(file.as_raw_fd(), 0, 1 << 20).unwrap();
        residency.resident_pages
    }

    /// Pages that are left of a table of 256 which was not deleted.
    fn pages_of_what_is_kept() -> u64 {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let data_set = directory.path().join("data set");
        fs::create_dir_all(data_set.join("inner")).unwrap();
        let table = |name: &str| data_set.join("inner").join(name);
        for name in ["kept.sst", "deleted.sst", "LOG"] {
            fs::write(table(name), vec![7; 1 << 20]).unwrap();
            File::open(table(name)).unwrap().sync_all().unwrap();
        }
        let mut copy = LinkedCopy::make(&data_set, "sst", directory.path()).unwrap();
        let path = copy.path().to_path_buf();
        let links = |name: &str| fs::metadata(path.join("inner").join(name)).unwrap().nlink();
        assert_eq!((links("kept.sst"), links("LOG")), (2, 1));
        for name in ["kept.sst", "deleted.sst"] {
            drop(fs::read(table(name)).unwrap());
        }
        fs::remove_file(path.join("inner/deleted.sst")).unwrap();
        copy.drop_deleted();
        assert_eq!(resident_pages(&table("deleted.sst")), 0);
        let kept = resident_pages(&table("kept.sst"));
        copy.drop_pages().unwrap();
        assert_eq!(resident_pages(&table("kept.sst")), 0);
        drop(copy);
        assert!(!path.exists() && table("kept.sst").exists());
        kept
    }

    #[test]
    fn what_the_database_deletes_leaves_the_page_cache() {
        // A machine that reclaims pages by itself may take some meanwhile, but not each time.
        assert!((0..3).any(|_| pages_of_what_is_kept() == 256));
    }
}
