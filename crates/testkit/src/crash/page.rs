//! The page of a writer's promises. The writer maps it: its promises outlive it, and need no call.

use crate::directories;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The page. It is beside the writer's working directory by name, and may be on another filesystem.
#[derive(Debug)]
pub(super) struct Page {
    directory: TempDir,
    file: File,
    bytes: usize,
}

impl Page {
    pub(super) fn new(bytes: usize) -> Self {
        let directory = directories::on_disk();
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(directory.path().join("progress"))
            .expect("progress page");
        file.set_len(bytes as u64)
            .expect("size of the progress page");
        Self {
            directory,
            file,
            bytes,
        }
    }

    /// A path beside it.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Makes a writer's directory. The page is empty, and `../progress` from there.
    pub(super) fn prepare(&self, work: &Path) {
        let _ = std::fs::remove_dir_all(work);
        std::fs::create_dir(work).expect("directory of the writer");
        let name = work.parent().expect("a parent").join("progress");
        let _ = std::fs::remove_file(&name);
        std::os::unix::fs::symlink(self.beside("progress"), name)
            .expect("name of the progress page");
        self.file
            .write_all_at(&vec![0; self.bytes], 0)
            .expect("an empty progress page");
    }

    /// Its words, as they are now: a read sees what the writer has stored.
    pub(super) fn words(&self) -> Vec<u64> {
        let mut page = vec![0; self.bytes];
        self.file
            .read_exact_at(&mut page, 0)
            .expect("the progress page");
        let (words, _) = page.as_chunks::<8>();
        words.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }
}
