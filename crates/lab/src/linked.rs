//! Tables that a run shares with the data set by hard links.
//!
//! A database that deletes such a table does not delete its last name, so that the kernel would
//! keep its pages: those of a table of the database's own would be gone at once. They are dropped
//! as soon as the laboratory sees it.

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Links that were made for a run.
#[derive(Debug, Default)]
pub struct Linked {
    /// The data set's name and the run's.
    pairs: Vec<(PathBuf, PathBuf)>,
}

impl Linked {
    /// Gives a file of the data set a name in the run's directory.
    pub fn link(&mut self, from: PathBuf, to: PathBuf) -> Result<()> {
        fs::hard_link(&from, &to)
            .with_context(|| format!("{} to {}", from.display(), to.display()))?;
        self.pairs.push((from, to));
        Ok(())
    }

    /// Drops all of the files from the page cache.
    pub fn cool_down(&self) -> Result<()> {
        self.pairs
            .iter()
            .try_for_each(|(from, _)| drop_from_page_cache(from))
    }

    /// Drops from the page cache what the database has deleted since the last time.
    pub fn drop_deleted(&mut self) {
        self.pairs.retain(|(from, to)| {
            let alive = to.exists();
            if !alive {
                // Best effort: a few pages more or less that nobody reads.
                let _ = drop_from_page_cache(from);
            }
            alive
        });
    }
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

    fn resident_pages(path: &Path) -> u64 {
        let file = File::open(path).unwrap();
        let residency = residency::of_range(file.as_raw_fd(), 0, 1 << 20).unwrap();
        residency.resident_pages
    }

    #[test]
    fn what_the_database_deletes_leaves_the_page_cache() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["kept", "deleted"] {
            fs::write(path(name), vec![7; 1 << 20]).unwrap();
        }
        let mut linked = Linked::default();
        for name in ["kept", "deleted"] {
            linked
                .link(path(name), path(&format!("{name}.run")))
                .unwrap();
            drop(fs::read(path(name)).unwrap());
        }
        File::open(path("deleted")).unwrap().sync_all().unwrap();
        fs::remove_file(path("deleted.run")).unwrap();
        linked.drop_deleted();
        assert_eq!(resident_pages(&path("deleted")), 0);
        assert_eq!(resident_pages(&path("kept")), 256);
        linked.cool_down().unwrap();
        assert_eq!(resident_pages(&path("kept")), 0);
    }
}
