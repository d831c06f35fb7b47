//! The data files of the table that is compacted: how large, and how much of them is in the page
//! cache.

use coldstream_io::residency;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Inputs and outputs of a compaction, as seen from outside.
#[derive(Debug)]
pub struct Tables {
    directory: PathBuf,
    inputs: Vec<File>,
    outputs: HashMap<PathBuf, File>,
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

fn size(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

fn cached_bytes(file: &File) -> u64 {
    residency::of_range(file.as_raw_fd(), 0, size(file))
        .map_or(0, |residency| residency.resident_pages * 4096)
}

impl Tables {
    /// What is there now are the inputs; whatever comes is an output.
    pub fn watch(directory: PathBuf) -> Self {
        Self {
            inputs: data_files(&directory)
                .iter()
                .filter_map(|path| File::open(path).ok())
                .collect(),
            outputs: HashMap::new(),
            directory,
        }
    }

    /// Number of the inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Bytes of the page cache that the inputs and the outputs hold.
    pub fn cached_bytes(&mut self) -> (u64, u64) {
        for path in data_files(&self.directory) {
            if !self.outputs.contains_key(&path)
                && let Ok(file) = File::open(&path)
                && !self.inputs.iter().any(|input| same_file(input, &file))
            {
                self.outputs.insert(path, file);
            }
        }
        (
            self.inputs.iter().map(cached_bytes).sum(),
            self.outputs.values().map(cached_bytes).sum(),
        )
    }

    /// Sizes of the inputs and the outputs.
    pub fn bytes(&self) -> (u64, u64) {
        (
            self.inputs.iter().map(size).sum(),
            self.outputs.values().map(size).sum(),
        )
    }
}

fn same_file(left: &File, right: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (left.metadata(), right.metadata()) {
        (Ok(left), Ok(right)) => left.ino() == right.ino() && left.dev() == right.dev(),
        _ => false,
    }
}
