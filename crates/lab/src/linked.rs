//! A run's copy of a data set. It shares the SSTables with the data set by hard links.
//!
//! A database that deletes a linked SSTable does not delete its last name. The kernel would keep its
//! pages, which it frees at once for a database with SSTables of its own. So the laboratory drops
//! these pages as soon as it sees the deletion.

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File};
use std::path::{Path, PathBuf};

/// A run's own copy of a data set, removed when dropped.
#[derive(Debug)]
pub struct LinkedCopy {
    path: PathBuf,
    /// The two paths of each SSTable: in the data set, and in the run's directory.
    sstables: Vec<(PathBuf, PathBuf)>,
}

impl LinkedCopy {
    /// Copies a data set into a directory of the run's own, in `work_dir`. Files with this extension
    /// are SSTables and become hard links: databases never change one.
    pub fn make(dataset: &Path, extension: &str, work_dir: &Path) -> Result<Self> {
        let mut copy = Self {
            path: work_dir.join("run"),
            sstables: Vec::new(),
        };
        let _ = fs::remove_dir_all(&copy.path);
        let to = copy.path.clone();
        copy.add_directory(dataset, &to, extension.as_ref())?;
        Ok(copy)
    }

    fn add_directory(&mut self, from: &Path, to: &Path, extension: &OsStr) -> Result<()> {
        fs::create_dir_all(to).with_context(|| to.display().to_string())?;
        for entry in entries(from)? {
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let both = || format!("{} to {}", source.display(), target.display());
            if source.is_dir() {
                self.add_directory(&source, &target, extension)?;
            } else if source.extension() == Some(extension) {
                fs::hard_link(&source, &target).with_context(both)?;
                self.sstables.push((source, target));
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

    /// Drops all pages of the SSTables from the page cache.
    pub fn drop_pages(&self) -> Result<()> {
        self.sstables
            .iter()
            .try_for_each(|(from, _)| drop_from_page_cache(from))
    }

    /// Drops the pages of those SSTables that the database has deleted since the last call. To be
    /// called a few times a second.
    pub fn drop_deleted(&mut self) {
        self.sstables.retain(|(from, to)| {
            let alive = to.exists();
            if !alive {
                // Best effort: nobody reads these pages any more.
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

/// The entries of a directory.
pub fn entries(directory: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect);
    entries.with_context(|| directory.display().to_string())
}

/// Drops a file's pages. It writes them back first, because the kernel keeps dirty pages.
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

    /// Resident pages, of 256, of an SSTable that was not deleted.
    fn pages_of_a_kept_sstable() -> u64 {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let dataset = directory.path().join("data set");
        fs::create_dir_all(dataset.join("inner")).unwrap();
        let sstable = |name: &str| dataset.join("inner").join(name);
        for name in ["kept.sst", "deleted.sst", "LOG"] {
            fs::write(sstable(name), vec![7; 1 << 20]).unwrap();
            File::open(sstable(name)).unwrap().sync_all().unwrap();
        }
        let mut copy = LinkedCopy::make(&dataset, "sst", directory.path()).unwrap();
        let path = copy.path().to_path_buf();
        let links = |name: &str| fs::metadata(path.join("inner").join(name)).unwrap().nlink();
        assert_eq!((links("kept.sst"), links("LOG")), (2, 1));
        for name in ["kept.sst", "deleted.sst"] {
            drop(fs::read(sstable(name)).unwrap());
        }
        fs::remove_file(path.join("inner/deleted.sst")).unwrap();
        copy.drop_deleted();
        assert_eq!(resident_pages(&sstable("deleted.sst")), 0);
        let kept = resident_pages(&sstable("kept.sst"));
        copy.drop_pages().unwrap();
        assert_eq!(resident_pages(&sstable("kept.sst")), 0);
        drop(copy);
        assert!(!path.exists() && sstable("kept.sst").exists());
        kept
    }

    #[test]
    fn deleted_sstables_leave_the_page_cache() {
        // A machine that reclaims pages by itself may take some meanwhile, but not each time.
        assert!((0..3).any(|_| pages_of_a_kept_sstable() == 256));
    }
}
