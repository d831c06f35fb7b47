//! The promises of a writer that makes SSTables, and the comparison of files with them.

use crate::crash::page::Page;
use crate::crash::{Checked, Crash, Progress, Record, TABLE_BYTES_MAX, TABLES, identity, name};
use crate::files::{fill, first_difference};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The record of a writer that makes SSTables.
#[derive(Debug)]
pub struct Stage(Page);

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
    /// Whether it is of the same SSTable.
    fn is_of(&self, other: &Self) -> bool {
        (self.thread, self.number) == (other.thread, other.number)
    }
}

/// The promises at one moment.
type Promises = Vec<Promised>;

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
        Self(Page::new(size_of::<Progress>()))
    }

    /// A path for the writer's journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.0.beside("journal")
    }

    /// The words of the page, as they are now.
    fn look(&self) -> Promises {
        let words = self.0.words();
        let (promises, _) = words.as_chunks::<4>();
        let promised = promises.iter().enumerate().map(|(index, promise)| {
            let [number, intended, durable, shortest] = *promise;
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

    /// The shortest length to which an SSTable may have been truncated since.
    fn shortest(&self, thread: usize, number: u64) -> Option<u64> {
        let promises = self.look();
        let found = promises
            .iter()
            .find(|it| (it.thread, it.number) == (thread, number));
        found.map(|promised| promised.shortest)
    }
}

impl Record for Stage {
    type Promises = Promises;

    fn prepare(&self, work: &Path) {
        self.0.prepare(work);
    }

    /// A MiB is in the present SSTables.
    fn has_begun(&self) -> bool {
        let written: u64 = self.look().iter().map(|promised| promised.intended).sum();
        written > 1 << 20
    }

    /// An SSTable whose number changes meanwhile is left out.
    fn now(&self) -> Promises {
        let promises = self.look();
        let after = self.look();
        let stayed = |it: &Promised| after.iter().any(|other| other.is_of(it));
        promises.into_iter().filter(stayed).collect()
    }

    /// Bytes that were synced, and not cut off since.
    fn durable(&self, promises: &Promises) -> u64 {
        promises.iter().map(|promised| promised.durable).sum()
    }

    fn check(
        &self,
        work: &Path,
        before: &Promises,
        after: &Promises,
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
                checked.files_with_zeros += 1;
            }
            // An SSTable that was created meanwhile may have any length.
            let longest = of_table(before)
                .and(of_table(after))
                .map_or(TABLE_BYTES_MAX + (2 << 20), |(_, intended)| intended);
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
