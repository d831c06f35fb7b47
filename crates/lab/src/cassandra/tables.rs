//! The data files of the table that is compacted: how large, and how much of them is in the page
//! cache.

use coldstream_io::residency;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Inputs and outputs of a compaction, as seen from outside. No file is kept open: one that is
/// deleted must go.
#[derive(Debug)]
pub struct Tables {
    directory: PathBuf,
    inputs: BTreeMap<PathBuf, u64>,
    outputs: BTreeMap<PathBuf, u64>,
}

fn data_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("-Data.db"))
        .collect()
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn cached_bytes(path: &Path) -> u64 {
    let Ok(file) = File::open(path) else {
        return 0;
    };
    residency::of_range(file.as_raw_fd(), 0, size(path))
        .map_or(0, |residency| residency.resident_pages * 4096)
}

impl Tables {
    /// What is there now are the inputs; whatever comes is an output.
    pub fn watch(directory: PathBuf) -> Self {
        let sized = |path: PathBuf| (path.clone(), size(&path));
        Self {
            inputs: data_files(&directory).into_iter().map(sized).collect(),
            outputs: BTreeMap::new(),
            directory,
        }
    }

    /// Number of the inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Bytes of the page cache that the inputs and the outputs hold. To be called a few times a
    /// second, or outputs that live shortly are missed.
    pub fn cached_bytes(&mut self) -> (u64, u64) {
        let (mut of_inputs, mut of_outputs) = (0, 0);
        for path in data_files(&self.directory) {
            let cached = cached_bytes(&path);
            if self.inputs.contains_key(&path) {
                of_inputs += cached;
            } else {
                of_outputs += cached;
                let size = size(&path);
                let largest = self.outputs.entry(path).or_default();
                *largest = size.max(*largest);
            }
        }
        (of_inputs, of_outputs)
    }

    /// Bytes of the inputs, and of the outputs as far as they were seen.
    pub fn bytes(&self) -> (u64, u64) {
        (self.inputs.values().sum(), self.outputs.values().sum())
    }
}
