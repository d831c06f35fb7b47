//! The data files of the table that is compacted: how much of them is in the page cache.

use coldstream_io::residency;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// To ask the kernel about a page that is there takes it 0.1 µs: 20 ms for 700 MiB, four times a
/// second, showed in the p99 of modes that leave more in the page cache. So files are looked at in
/// slices, and not at all of them every time.
const SLICE_BYTES: u64 = 32 << 20;
/// After so many times at the latest everything has been looked at.
const TURNS_MAX: u64 = 16;

/// Inputs and outputs of a compaction, as seen from outside. No file is kept open: one that is
/// deleted must go.
#[derive(Debug)]
pub struct Tables {
    directory: PathBuf,
    inputs: Vec<PathBuf>,
    /// What each slice of each file held when it was looked at last, in bytes.
    cached: BTreeMap<PathBuf, Vec<u64>>,
    turn: u64,
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

/// Brings the slices whose turn it is up to date.
fn look(path: &Path, slices: &mut Vec<u64>, turn: u64) {
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

impl Tables {
    /// What is there now are the inputs; whatever comes is an output.
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

    /// Bytes of the page cache that the inputs and the outputs hold, those of large files as of up
    /// to sixteen calls ago.
    pub fn cached_bytes(&mut self) -> (u64, u64) {
        let (mut of_inputs, mut of_outputs) = (0, 0);
        let files = data_files(&self.directory);
        self.cached.retain(|path, _| files.contains(path));
        self.turn += 1;
        for path in files {
            let slices = self.cached.entry(path.clone()).or_default();
            look(&path, slices, self.turn);
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

    /// What is seen, in two looks, of a file of five slices that is all in the page cache.
    fn seen_of_a_large_file() -> [u64; 2] {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("nb-1-big-Data.db");
        let file = File::create(&path).unwrap();
        // Pages of holes are in the page cache when they have been read.
        file.set_len(5 * SLICE_BYTES).unwrap();
        let mut tables = Tables::watch(directory.path().to_path_buf());
        assert_eq!(tables.cached_bytes(), (0, 0));
        drop(fs::read(&path).unwrap());
        let seen = [0, 1].map(|_| tables.cached_bytes().0);
        assert!(seen[0] < seen[1], "{seen:?}");
        seen
    }

    #[test]
    fn every_slice_has_its_turn() {
        // A machine that reclaims pages by itself may take some meanwhile, but not each time.
        assert!((0..5).any(|_| seen_of_a_large_file()[1] == 5 * SLICE_BYTES));
    }
}
