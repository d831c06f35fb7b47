//! How much of the compaction's input and output SSTables is in the page cache.

use coldstream_io::residency;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Files are examined in slices, and only some slices each time. The kernel needs 0.1 µs for each
/// resident page, 20 ms for 700 MiB. Four times a second this showed in the p99 of those modes that
/// leave more in the page cache.
const SLICE_BYTES: u64 = 32 << 20;
/// Every slice is examined once in at most this number of calls.
const TURNS_MAX: u64 = 16;

/// Data files of the CQL table that is compacted. No file is kept open: the kernel must be able to
/// free those that the node deletes.
#[derive(Debug)]
pub struct CompactionFiles {
    directory: PathBuf,
    inputs: Vec<PathBuf>,
    /// Resident bytes of each slice of each file when it was examined last.
    cached: BTreeMap<PathBuf, Vec<u64>>,
    turn: u64,
}

/// The data files of the SSTables in a CQL table's directory, unfinished ones too.
pub fn data_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("-Data.db"))
        .collect()
}

/// Examines those slices of a file that are due in this turn.
fn update_slices(path: &Path, slices: &mut Vec<u64>, turn: u64) {
    let Ok(file) = File::open(path) else {
        return;
    };
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let count = bytes.div_ceil(SLICE_BYTES);
    slices.resize(count as usize, 0);
    let turns = (count / 2).clamp(1, TURNS_MAX);
    for (number, slice) in (0..).zip(slices) {
        if number % turns == turn % turns {
            let found = residency::of_range(file.as_raw_fd(), number * SLICE_BYTES, SLICE_BYTES);
            *slice = found.map_or(0, |residency| residency.resident_pages * 4096);
        }
    }
}

impl CompactionFiles {
    /// Watches a CQL table's directory. Its present SSTables are the inputs; all later ones are
    /// outputs.
    pub fn watch(directory: PathBuf) -> Self {
        Self {
            inputs: data_files(&directory),
            cached: BTreeMap::new(),
            turn: 0,
            directory,
        }
    }

    /// Number of the inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Resident bytes of the inputs and of the outputs. Those of large files are up to sixteen
    /// calls old.
    pub fn cached_bytes(&mut self) -> (u64, u64) {
        let (mut of_inputs, mut of_outputs) = (0, 0);
        let files = data_files(&self.directory);
        self.cached.retain(|path, _| files.contains(path));
        self.turn += 1;
        for path in files {
            let slices = self.cached.entry(path.clone()).or_default();
            update_slices(&path, slices, self.turn);
            let cached = slices.iter().sum::<u64>();
            if self.inputs.contains(&path) {
                of_inputs += cached;
            } else {
                of_outputs += cached;
            }
        }
        (of_inputs, of_outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident bytes after one and after two calls. The file has five slices, all resident.
    fn examined_bytes_of_a_large_file() -> [u64; 2] {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("nb-1-big-Data.db");
        let file = File::create(&path).unwrap();
        // Pages of holes are in the page cache when they have been read.
        file.set_len(5 * SLICE_BYTES).unwrap();
        let mut files = CompactionFiles::watch(directory.path().to_path_buf());
        assert_eq!(files.cached_bytes(), (0, 0));
        drop(fs::read(&path).unwrap());
        let bytes = [0, 1].map(|_| files.cached_bytes().0);
        assert!(bytes[0] < bytes[1], "{bytes:?}");
        bytes
    }

    #[test]
    fn every_slice_has_its_turn() {
        // A machine that reclaims pages by itself may take some meanwhile, but not each time.
        assert!((0..5).any(|_| examined_bytes_of_a_large_file()[1] == 5 * SLICE_BYTES));
    }
}
