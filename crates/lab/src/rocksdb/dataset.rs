//! The data set. The driver loads it once. Each run gets a copy by hard links: SSTables never change
//! after they were written. Files that the engine does change are copied.

use super::arguments::RocksDbArgs;
use super::driver::Driver;
use super::parameters::{DatabaseParameters, LoadParameters, Shape};
use crate::linked::LinkedCopy;
use crate::testbed::Testbed;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The shape that suits the load.
///
/// - A compaction of everything: two sorted runs, so that it reads two bytes for each that it
///   writes.
/// - Continuous updates: the shape that levels have in the long run, so that nothing is left to
///   compact before the updates begin.
fn shape(arguments: &RocksDbArgs) -> Shape {
    match arguments.update_mib_per_second {
        0 => Shape {
            sorted_runs: 2,
            updates: 0,
        },
        _ => Shape {
            sorted_runs: 1,
            updates: arguments.sizes().keys / 4,
        },
    }
}

/// A loaded data set on disk. Removed when dropped, except with `--keep`.
#[derive(Debug)]
pub struct Dataset {
    path: PathBuf,
    keep: bool,
}

impl Dataset {
    /// Takes the data set of these parameters, or loads it.
    pub fn prepare(
        arguments: &RocksDbArgs,
        driver: &Driver,
        testbed: &mut Testbed,
    ) -> Result<Self> {
        let keys = arguments.sizes().keys;
        let name = format!("dataset-{keys}x{}", arguments.value_bytes);
        // Removed if it cannot be completed.
        let mut dataset = Self {
            path: testbed.directory().join(name),
            keep: false,
        };
        let path = &dataset.path;
        let complete = path.join("COMPLETE");
        let parameters = LoadParameters {
            database: DatabaseParameters::of(arguments, path),
            shape: shape(arguments),
        };
        let DatabaseParameters {
            library, options, ..
        } = &parameters.database;
        let made_with = format!("{:?} {library} {options}", parameters.shape);
        if fs::read_to_string(&complete).ok().as_ref() != Some(&made_with) {
            if path.exists() {
                fs::remove_dir_all(path)
                    .with_context(|| format!("remove the outdated {}", path.display()))?;
            }
            testbed.progress.line(&format!(
                "loading {keys} keys of {} bytes, {} times, and {} updates",
                arguments.value_bytes, parameters.shape.sorted_runs, parameters.shape.updates
            ));
            driver.load(&parameters)?;
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
