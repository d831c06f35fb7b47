//! The data set: loaded once, copied for every run by hard links. Tables never change after
//! they were written; what the engine does change is copied.

use super::arguments::RocksDbArgs;
use super::driver::{Driver, base_options};
use crate::linked::LinkedCopy;
use crate::testbed::Testbed;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// How a data set is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Overlapping sorted runs, the first in the last level, the others above it.
    pub sorted_runs: u64,
    /// Uniformly chosen keys that are rewritten then, with compactions as the engine makes them.
    pub updates: u64,
}

impl Shape {
    /// One that suits the load. For a compaction of everything two runs: it reads two bytes for
    /// each that it writes. For continuous updates the shape that levels have in the long run, so
    /// that nothing is left to compact before the updates begin.
    fn of(arguments: &RocksDbArgs) -> Self {
        match arguments.update_mib_per_second {
            0 => Self {
                sorted_runs: 2,
                updates: 0,
            },
            _ => Self {
                sorted_runs: 1,
                updates: arguments.sizes().keys / 4,
            },
        }
    }
}

/// A loaded data set on disk.
#[derive(Debug)]
pub struct Dataset {
    path: PathBuf,
    keep: bool,
}

impl Dataset {
    /// Takes the data set for these parameters, loading it if it is not there.
    pub fn prepare(
        arguments: &RocksDbArgs,
        driver: &Driver,
        testbed: &mut Testbed,
    ) -> Result<Self> {
        let keys = arguments.sizes().keys;
        let name = format!("dataset-{keys}x{}", arguments.value_bytes);
        let path = testbed.directory().join(name);
        // Removed if it cannot be completed.
        let mut dataset = Self { path, keep: false };
        let path = &dataset.path;
        let complete = path.join("COMPLETE");
        let shape = Shape::of(arguments);
        let options = base_options(arguments);
        let made_with = format!("{shape:?} {} {options}", arguments.engine_library);
        if fs::read_to_string(&complete).ok().as_ref() != Some(&made_with) {
            if path.exists() {
                fs::remove_dir_all(path)
                    .with_context(|| format!("remove the outdated {}", path.display()))?;
            }
            testbed.progress.line(&format!(
                "loading {keys} keys of {} bytes, {} times, and {} updates",
                arguments.value_bytes, shape.sorted_runs, shape.updates
            ));
            driver.load(arguments, &dataset.path, &options, shape)?;
            fs::write(&complete, made_with).with_context(|| complete.display().to_string())?;
        }
        dataset.keep = arguments.work_dir.keep;
        Ok(dataset)
    }

    /// A copy that the engine may change, removed when dropped.
    pub fn copy(&self, work_dir: &Path) -> Result<LinkedCopy> {
        LinkedCopy::make(&self.path, "sst", work_dir)
    }
}

impl Drop for Dataset {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
