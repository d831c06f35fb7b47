//! How much of the SSTables that a compaction reads and writes is in the page cache.

use coldstream_io::residency;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Files are examined in slices, and only some slices each time. The kernel needs 0.1 µs for each
/// resident page, 20 ms for 700 MiB. Four times a second this showed in the p99 of those modes that
/// leave more in the page cache.
const SLICE_BYTES: u64 = 32 << 20;
/// Every slice is examined once in at most this number of calls.
const TURNS_MAX: u64 = 16;

/// SSTables of a directory in which compaction runs. No file is kept open: the kernel must be able to
/// free those that the database deletes.
#[derive(Debug)]
pub struct CompactionFiles {
    directory: PathBuf,
    suffix: String,
    inputs: BTreeSet<PathBuf>,
    /// Resident bytes of each slice of each file when it was examined last.
    cached: BTreeMap<PathBuf, Vec<u64>>,
    turn: u64,
}

/// The files of a directory whose names end so, unfinished ones too.
pub fn with_suffix(directory: &Path, suffix: &str) -> BTreeSet<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return BTreeSet::new();
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect()
}

impl CompactionFiles {
    /// Watches the files of a directory whose names end so. The present ones are the inputs; all
    /// later ones are outputs.
    pub fn watch(directory: PathBuf, suffix: &str) -> Self {
        Self {
            inputs: with_suffix(&directory, suffix),
            suffix: suffix.to_owned(),
            cached: BTreeMap::new(),
            turn: 0,
            directory,
        }
    }

    /// Resident bytes of the inputs and of the outputs. Where there are many slices, they are up to
    /// sixteen calls old.
    pub fn cached_bytes(&mut self) -> (u64, u64) {
        let files = with_suffix(&self.directory, &self.suffix);
        self.cached.retain(|path, _| files.contains(path));
        self.turn += 1;
        self.examine(&files);
        let (mut of_inputs, mut of_outputs) = (0, 0);
        for (path, slices) in &self.cached {
            let cached = slices.iter().sum::<u64>();
            if self.inputs.contains(path) {
                of_inputs += cached;
            } else {
                of_outputs += cached;
            }
        }
        (of_inputs, of_outputs)
    }

    /// Examines those slices of the files that are due in this turn.
    fn examine(&mut self, files: &BTreeSet<PathBuf>) {
        let mut count = 0;
        for path in files {
            let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
            let slices = self.cached.entry(path.clone()).or_default();
            slices.resize(bytes.div_ceil(SLICE_BYTES) as usize, 0);
            count += slices.len() as u64;
        }
        let turns = (count / 2).clamp(1, TURNS_MAX);
        let mut due = (self.turn..).map(|number| number % turns == 0);
        for (path, slices) in &mut self.cached {
            let mut file = None;
            for ((number, slice), is_due) in (0..).zip(slices).zip(&mut due) {
                if is_due {
                    file = file.or_else(|| File::open(path).ok());
                    *slice = file.as_ref().map_or(0, |file| {
                        resident_bytes(file, number * SLICE_BYTES, SLICE_BYTES)
                    });
                }
            }
        }
    }
}

fn resident_bytes(file: &File, offset: u64, bytes: u64) -> u64 {
    let found = residency::of_range(file.as_raw_fd(), offset, bytes);
    found.map_or(0, |residency| residency.resident_pages * 4096)
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
        let mut files = CompactionFiles::watch(directory.path().to_path_buf(), "-Data.db");
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
