//! The data set. It is loaded once. Each run gets a copy by hard links: SSTables never change
//! after they were written. Files that the engine does change are copied.

use crate::free_space::check_space;
use crate::linked::LinkedCopy;
use crate::testbed::Testbed;
use crate::units::mib;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The data set that a load program wants.
pub struct WantedDataset {
    /// Name of its directory.
    pub name: String,
    /// Bytes of all values.
    pub values_bytes: u64,
    /// Extension of its SSTables.
    pub extension: &'static str,
    /// All on which its content depends. A data set that was made with something else is outdated.
    pub made_with: String,
    /// How it is loaded, for people.
    pub how: String,
}

/// A loaded data set on disk. Removed when dropped, except with `--keep`.
#[derive(Debug)]
pub struct Dataset {
    path: PathBuf,
    extension: &'static str,
    keep: bool,
}

impl Dataset {
    /// Extension of its SSTables.
    pub fn extension(&self) -> &'static str {
        self.extension
    }

    /// Takes the data set that is wanted, or loads it into a directory with `load`. `keep`: it stays
    /// when this is dropped.
    pub fn prepare(
        wanted: WantedDataset,
        keep: bool,
        testbed: &mut Testbed,
        load: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        // Removed if it cannot be completed.
        let mut dataset = Self {
            path: testbed.directory().join(wanted.name),
            extension: wanted.extension,
            keep: false,
        };
        let path = &dataset.path;
        let complete = path.join("COMPLETE");
        let is_complete = fs::read_to_string(&complete).ok().as_ref() == Some(&wanted.made_with);
        let needed_bytes = needed_bytes(wanted.values_bytes, is_complete);
        check_space(testbed.directory(), wanted.values_bytes, needed_bytes)?;
        if !is_complete {
            if path.exists() {
                fs::remove_dir_all(path)
                    .with_context(|| format!("remove the outdated {}", path.display()))?;
            }
            testbed.progress.line(&format!(
                "loading {:.1} MiB of values, {}",
                mib(wanted.values_bytes),
                wanted.how
            ));
            load(path)?;
            fs::write(&complete, wanted.made_with)
                .with_context(|| complete.display().to_string())?;
        }
        dataset.keep = keep;
        Ok(dataset)
    }

    /// A copy that the engine may change, removed when dropped.
    pub fn copy(&self, work_dir: &Path) -> Result<LinkedCopy> {
        LinkedCopy::make(&self.path, self.extension, work_dir)
    }
}

/// What a data set and a run need.
///
/// - A data set takes up to twice its values while it is loaded.
/// - A run shares its SSTables, and writes up to as much again: a database deletes an SSTable, but
///   the data set keeps it.
fn needed_bytes(values_bytes: u64, is_loaded: bool) -> u64 {
    values_bytes / 2 * if is_loaded { 3 } else { 5 }
}

impl Drop for Dataset {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
