//! Checks the files after a crash.

use crate::crash::writer::{Progress, Promise, TABLE_BYTES_MAX, identity, name};
use crate::subject::{self, raw};
use coldstream_testkit::directories;
use coldstream_testkit::files::{fill, first_difference};
use coldstream_testkit::process::Program;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tempfile::TempDir;

/// The directory of a writer. The progress page is beside the working directory, and may be on another
/// filesystem.
pub struct Stage {
    records: TempDir,
    progress: &'static Progress,
}

/// The promises at one moment, in the order of the page: number, durable, intended.
pub type Promises = Vec<(usize, u64, u64, u64)>;

impl Stage {
    pub fn new() -> Self {
        let records = directories::on_disk();
        let path = records.path().join("progress");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(size_of::<Progress>() as u64).unwrap();
        let c_path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        let descriptor = raw::open(&c_path, libc::O_RDWR);
        let address = raw::map(
            size_of::<Progress>(),
            libc::PROT_READ | libc::PROT_WRITE,
            descriptor,
            0,
        )
        .expect("progress");
        raw::close(descriptor);
        // SAFETY: a shared mapping that stays, of a type of which zeros are valid.
        let progress = unsafe { &*address.cast::<Progress>() };
        Self { records, progress }
    }

    /// The writer, to work in `work`.
    pub fn writer(&self, work: &Path) -> Program {
        let _ = std::fs::remove_dir_all(work);
        std::fs::create_dir(work).unwrap();
        let page = work.parent().unwrap().join("progress");
        let _ = std::fs::remove_file(&page);
        std::os::unix::fs::symlink(self.records.path().join("progress"), page).unwrap();
        for promise in self.promises() {
            promise.number.store(0, Ordering::SeqCst);
            promise.intended.store(0, Ordering::SeqCst);
        }
        subject::program("writer", work, &self.records.path().join("journal"))
    }

    fn promises(&self) -> impl Iterator<Item = &Promise> {
        self.progress.promises.iter().flatten()
    }

    /// Bytes that were written so far into the present SSTables.
    pub fn written(&self) -> u64 {
        self.promises()
            .map(|promise| promise.intended.load(Ordering::SeqCst))
            .sum()
    }

    /// The promises at this moment. An SSTable whose number changes meanwhile is left out.
    pub fn now(&self) -> Promises {
        let mut promises = Vec::new();
        for (thread, row) in self.progress.promises.iter().enumerate() {
            for promise in row {
                let number = promise.number.load(Ordering::SeqCst);
                let durable = promise.durable.load(Ordering::SeqCst);
                let intended = promise.intended.load(Ordering::SeqCst);
                if number != 0 && promise.number.load(Ordering::SeqCst) == number {
                    promises.push((thread, number, durable, intended));
                }
            }
        }
        promises
    }

    /// The shortest length to which an SSTable may have been truncated since.
    fn shortest(&self, thread: usize, number: u64) -> Option<u64> {
        self.progress.promises[thread].iter().find_map(|promise| {
            let shortest = promise.shortest.load(Ordering::SeqCst);
            (promise.number.load(Ordering::SeqCst) == number).then_some(shortest)
        })
    }

    /// Checks a directory against promises from before the crash. `at_most` holds the longest possible
    /// lengths at the crash.
    pub fn check(
        &self,
        work: &Path,
        before: &Promises,
        at_most: &Promises,
        crash: Crash,
    ) -> Result<Checked, String> {
        let mut checked = Checked::default();
        for (thread, number, durable, _) in before {
            let Some(shortest) = self.shortest(*thread, *number) else {
                // Deleted, or about to be.
                continue;
            };
            let path = work.join(name(*thread, *number));
            let durable = (*durable).min(shortest);
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
                    .find(|(t, n, ..)| (*t, *n) == (thread, number))
                    .map(|(.., durable, intended)| (*durable, *intended))
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
pub struct Checked {
    pub bytes: u64,
    /// SSTables with unsynced bytes that read as zeros.
    pub tables_with_zeros: u64,
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
    let file = std::fs::File::open(path).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    bytes
}
