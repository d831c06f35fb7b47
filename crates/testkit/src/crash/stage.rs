//! The page of a writer's promises, and the comparison of files with it.

use crate::crash::{Progress, TABLE_BYTES_MAX, TABLES, identity, name};
use crate::directories;
use crate::files::{fill, first_difference};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The directory of a writer. The progress page is beside the working directory, and may be on another filesystem.
#[derive(Debug)]
pub struct Stage {
    records: TempDir,
    progress: File,
}

/// What a writer promised of one SSTable, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promised {
    thread: usize,
    number: u64,
    intended: u64,
    durable: u64,
    shortest: u64,
}

impl Promised {
    /// Bytes that were synced, and not cut off since.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether it is of the same SSTable.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        (self.thread, self.number) == (other.thread, other.number)
    }
}

/// The promises at one moment.
pub(super) type Promises = Vec<Promised>;

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage {
    /// A new one.
    ///
    /// # Panics
    /// The page cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let records = directories::on_disk();
        let path = records.path().join("progress");
        let progress = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(path)
            .expect("progress page");
        progress
            .set_len(size_of::<Progress>() as u64)
            .expect("size of the progress page");
        Self { records, progress }
    }

    /// Makes a writer's directory, with the page beside it and no promise on the page.
    ///
    /// # Panics
    /// It cannot be made.
    pub fn prepare(&self, work: &Path) {
        let _ = std::fs::remove_dir_all(work);
        std::fs::create_dir(work).expect("directory of the writer");
        let page = work.parent().expect("a parent").join("progress");
        let _ = std::fs::remove_file(&page);
        std::os::unix::fs::symlink(self.records.path().join("progress"), page)
            .expect("name of the progress page");
        self.progress
            .write_all_at(&[0; size_of::<Progress>()], 0)
            .expect("an empty progress page");
    }

    /// A path for the writer's journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.records.path().join("journal")
    }

    /// The words of the page, as they are now. The writer has it mapped: a read sees what it has stored.
    fn look(&self) -> Promises {
        let mut page = [0; size_of::<Progress>()];
        self.progress
            .read_exact_at(&mut page, 0)
            .expect("the progress page");
        let (words, _) = page.as_chunks::<8>();
        let (promises, _) = words.as_chunks::<4>();
        let promised = promises.iter().enumerate().map(|(index, promise)| {
            let [number, intended, durable, shortest] = promise.map(u64::from_le_bytes);
            Promised {
                thread: index / TABLES as usize,
                number,
                intended,
                durable,
                shortest,
            }
        });
        promised.filter(|it| it.number != 0).collect()
    }

    /// Bytes that were written so far into the present SSTables.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.look().iter().map(|promised| promised.intended).sum()
    }

    /// The promises at this moment. An SSTable whose number changes meanwhile is left out.
    pub(super) fn now(&self) -> Promises {
        let promises = self.look();
        let after = self.look();
        let stayed = |it: &Promised| after.iter().any(|other| other.is_of(it));
        promises.into_iter().filter(stayed).collect()
    }

    /// The shortest length to which an SSTable may have been truncated since.
    fn shortest(&self, thread: usize, number: u64) -> Option<u64> {
        let promises = self.look();
        let found = promises
            .iter()
            .find(|it| (it.thread, it.number) == (thread, number));
        found.map(|promised| promised.shortest)
    }

    /// Checks a directory against promises from before the crash. `at_most` holds the longest possible
    /// lengths at the crash.
    pub(super) fn check(
        &self,
        work: &Path,
        before: &Promises,
        at_most: &Promises,
        crash: Crash,
    ) -> Result<Checked, String> {
        let mut checked = Checked::default();
        for promised in before {
            let Promised { thread, number, .. } = *promised;
            let Some(shortest) = self.shortest(thread, number) else {
                // Deleted, or about to be.
                continue;
            };
            let path = work.join(name(thread, number));
            let durable = promised.durable.min(shortest);
            let size = std::fs::metadata(&path).map_or(0, |status| status.len());
            if size < durable {
                return Err(format!(
                    "{}: {size} bytes, {durable} were synced",
                    path.display()
                ));
            }
        }
        for (thread, number, path) in tables(work) {
            let bytes = read(&path);
            let of_table = |promises: &Promises| {
                promises
                    .iter()
                    .find(|it| (it.thread, it.number) == (thread, number))
                    .map(|it| (it.durable, it.intended))
            };
            if let Some(place) = first_difference(identity(thread, number), 0, &bytes) {
                let shortest = self.shortest(thread, number).unwrap_or(0);
                let synced = of_table(before).map_or(0, |(durable, _)| durable.min(shortest));
                if crash == Crash::Kill
                    || place < synced
                    || !only_zeros_are_wrong(thread, number, &bytes)
                {
                    return Err(format!(
                        "{}: a wrong byte at {place} of {}, {synced} were synced",
                        path.display(),
                        bytes.len()
                    ));
                }
                checked.tables_with_zeros += 1;
            }
            let longest =
                of_table(at_most).map_or(TABLE_BYTES_MAX + (2 << 20), |(_, intended)| intended);
            if bytes.len() as u64 > longest {
                return Err(format!(
                    "{}: {} bytes, {longest} were ever written",
                    path.display(),
                    bytes.len()
                ));
            }
            checked.bytes += bytes.len() as u64;
        }
        Ok(checked)
    }
}

/// The kind of crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process: no byte of a table may be wrong.
    Kill,
    /// The machine: what was not synced may read as zeros. Plain buffered appends show that too:
    /// a journaling filesystem may have the new size on the disk before the new end of a block
    /// that had been there already. Whatever else is wrong is somebody else's data, or stale.
    Power,
}

/// What was checked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checked {
    pub(super) bytes: u64,
    /// SSTables with unsynced bytes that read as zeros.
    pub(super) tables_with_zeros: u64,
}

impl std::ops::AddAssign for Checked {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.tables_with_zeros += other.tables_with_zeros;
    }
}

fn only_zeros_are_wrong(thread: usize, number: u64, bytes: &[u8]) -> bool {
    let mut expected = vec![0; bytes.len()];
    fill(identity(thread, number), 0, &mut expected);
    expected
        .iter()
        .zip(bytes)
        .all(|(expected, byte)| expected == byte || *byte == 0)
}

/// The SSTables in a directory: thread, number, path.
fn tables(work: &Path) -> Vec<(usize, u64, PathBuf)> {
    let mut found = Vec::new();
    // The directory itself may be missing before the first sync of a file in it.
    for entry in std::fs::read_dir(work).into_iter().flatten().flatten() {
        let file = entry.file_name().into_string().unwrap();
        let thread = match &file {
            file if file.starts_with("nb-") => 0,
            file if file.starts_with("da-") => 1,
            file if file.ends_with(".sst") => 2,
            _ => continue,
        };
        let digits: String = file
            .chars()
            .skip_while(|character| !character.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        found.push((thread, digits.parse().unwrap(), entry.path()));
    }
    found
}

fn read(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes
}
