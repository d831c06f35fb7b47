//! Input and output SSTables of each background thread.
//!
//! A compaction reads its inputs and writes its outputs in one thread. With subcompactions each thread does
//! so for its part of the keys.
//!
//! An SSTable that a thread has read is an input of all outputs of that thread, until an output has passed the
//! input's last key. If the thread writes two outputs at the same time, the input stays for both. A deleted
//! SSTable is no input any more.
//!
//! What there is no memory for is not remembered.

use super::blobs::Blobs;
use super::budget::LastHandover;
use crate::core::heap;
use crate::core::inode_map;
use coldstream_handover::InputReads;
use coldstream_io::lock::FutexLock;
use coldstream_io::proc_fd;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::process;
use coldstream_sstable::cassandra::{IndexCursor, Key};
use coldstream_sstable::memory::{self, TryVec};
use std::cell::Cell;
use std::ffi::CString;
use std::ops::Range;

/// The most threads whose work is remembered. A new thread replaces the one that has rested longest.
const THREADS_MAX: usize = 64;
/// Inputs of one thread. Further ones are cold: see [`Work::has_room_for_input`].
const INPUTS_MAX: usize = 1024;
/// An input that was not read among so many reads of its thread gives its place to another one.
const READS_OF_REST: u64 = 16 * INPUTS_MAX as u64;
/// Outputs of one thread. Without early opens, a leveled compaction publishes all its outputs at its end.
const OUTPUTS_MAX: usize = 1024;
/// SSTables of RocksDB that one thread writes side by side; RocksDB writes two.
const STARTED_MAX: usize = 8;
/// The longest path of an SSTable, with its NUL (`PATH_MAX`).
pub(super) const PATH_BYTES: usize = 4096;

/// An SSTable that was read.
pub struct Input {
    pub stamp: FileStamp,
    pub path: CString,
    /// The lowest offset that was read. Opening an SSTable reads its end only.
    pub lowest_offset: u64,
    reads: InputReads,
    /// The number of its last read among those of the thread.
    last_read: u64,
    /// Where the next part of an output continues in it (Cassandra).
    pub cursor: IndexCursor,
    /// The input was cold. It is not examined again before this time of the monotonic clock.
    pub cold_until_ns: Cell<i128>,
    /// Up to here its pages in the page cache were looked at; all of it where they tell nothing.
    pub recalled_to: Cell<u64>,
}

impl Input {
    /// One that was read from `lowest_offset` on.
    pub(super) fn new(stamp: FileStamp, path: CString, lowest_offset: u64) -> Self {
        Self {
            stamp,
            path,
            lowest_offset,
            reads: InputReads::default(),
            last_read: 0,
            cursor: IndexCursor::default(),
            cold_until_ns: Cell::new(0),
            recalled_to: Cell::new(0),
        }
    }
}

/// A mapped SSTable.
pub struct MappedInput {
    pub(super) input: Input,
    /// Its first and last separator, once they were needed.
    pub(super) separators: Option<[Vec<u8>; 2]>,
    pub(super) is_mapped: bool,
}

/// An SSTable of Cassandra that is being written.
#[derive(Clone, Copy)]
pub struct Output {
    pub stamp: FileStamp,
    /// The descriptor by which it is written; the number may be another file's by now.
    pub descriptor: i32,
    /// The position in the index up to which the output was handed over.
    pub cursor: IndexCursor,
    /// The byte of the file up to which the output was handed over.
    pub end: u64,
    /// Chunks of a part were not known any more: all of it is handed over once more when it is finished.
    pub is_incomplete: bool,
    /// Index and data do not agree: nothing more is handed over before it is finished.
    pub is_declined: bool,
}

/// An SSTable of RocksDB that was started.
#[derive(Clone, Copy)]
struct Started {
    stamp: FileStamp,
    /// The descriptor by which it is written; the number may be another file's by now.
    descriptor: i32,
}

/// What a thread reads and writes.
pub struct Work {
    thread: i32,
    used: u64,
    pub inputs: Vec<Input>,
    /// Reads of inputs so far.
    reads: u64,
    pub outputs: Vec<Output>,
    /// SSTables of the last output's directory that are mapped, by inode.
    pub mapped: Vec<MappedInput>,
    /// SSTables of RocksDB that are being written, and some that no longer are.
    started: Vec<Started>,
    /// Blob files of RocksDB.
    pub(super) blobs: Blobs,
    /// The last key of the Cassandra SSTable that was handed over to last.
    pub passed: Option<Key>,
    /// The thread's last handover.
    pub last_handover: LastHandover,
}

#[derive(Default)]
struct Threads {
    works: Vec<Work>,
    clock: u64,
}

/// All threads' work; all-zero memory is none.
#[repr(C)]
pub struct Lineage {
    threads: FutexLock<Option<Box<Threads>>>,
}

impl Work {
    /// Of a thread that has neither read nor written.
    pub(super) fn none(thread: i32) -> Self {
        Self {
            thread,
            used: 0,
            inputs: Vec::new(),
            reads: 0,
            outputs: Vec::new(),
            mapped: Vec::new(),
            started: Vec::new(),
            blobs: Blobs::default(),
            passed: None,
            last_handover: LastHandover::none(process::clock_ns(libc::CLOCK_MONOTONIC)),
        }
    }

    /// The input that was read last: its path, and what is behind it. `None` also without memory for it.
    pub(super) fn last_input(&self) -> Option<(CString, FileStamp)> {
        let last = self.inputs.iter().max_by_key(|input| input.last_read)?;
        Some((c_string(&[last.path.to_bytes()])?, last.stamp))
    }

    /// Whether one input more can be remembered. A merge of many reads them in turn: if each new one took the place of
    /// another, that would be read next, and no input would ever keep its place in its index.
    fn has_room_for_input(&mut self) -> bool {
        if self.inputs.len() < INPUTS_MAX {
            return true;
        }
        let inputs = self.inputs.iter().enumerate();
        let rested = inputs
            .min_by_key(|(_, input)| input.last_read)
            .filter(|(_, input)| self.reads - input.last_read > READS_OF_REST);
        let Some((index, _)) = rested else {
            return false;
        };
        self.inputs.remove(index);
        true
    }

    /// Whether the thread writes an SSTable of RocksDB beside this one, which is about to be closed.
    pub fn writes_beside(&mut self, closing: &FileStamp) -> bool {
        // Removes also SSTables that were closed by a call that Coldstream did not see.
        self.started.retain(|sstable| {
            !sstable.stamp.same_inode(closing)
                && file::is_same_inode(sstable.descriptor, &sstable.stamp)
        });
        !self.started.is_empty()
    }
}

impl Threads {
    fn make_room(&mut self) {
        if self.works.len() < THREADS_MAX {
            return;
        }
        let rested = self
            .works
            .iter()
            .enumerate()
            .min_by_key(|(_, work)| work.used);
        if let Some((index, _)) = rested {
            self.works.swap_remove(index);
        }
    }
}

impl Lineage {
    /// Thread `thread` reads these bytes of the SSTable behind `descriptor`. Returns those before its last
    /// read that it has skipped.
    pub fn record_read(
        &self,
        thread: i32,
        descriptor: i32,
        stamp: &FileStamp,
        read: Range<u64>,
    ) -> Option<Range<u64>> {
        let offset = read.start;
        let mut skipped = None;
        self.with_work(thread, |work| {
            work.reads += 1;
            let mut inputs = work.inputs.iter_mut();
            let known = inputs.find(|input| input.stamp.same_inode(stamp));
            if let Some(input) = known {
                input.lowest_offset = input.lowest_offset.min(offset);
                if offset == 0 {
                    // The thread reads the input from its beginning, perhaps for a second time.
                    input.cursor = IndexCursor::default();
                }
                if input.stamp.size_bytes != stamp.size_bytes
                    || input.stamp.changed_ns != stamp.changed_ns
                {
                    // Either a hard link to the file was made, or the inode number belongs to a new file.
                    input.stamp = *stamp;
                    if let Some(path) = path_of(descriptor)
                        && path != input.path
                    {
                        *input = Input::new(*stamp, path, offset);
                    }
                }
                input.last_read = work.reads;
                skipped = input.reads.pass(read);
                return;
            }
            if !work.has_room_for_input() {
                return;
            }
            let Some(path) = path_of(descriptor) else {
                return;
            };
            let mut input = Input::new(*stamp, path, offset);
            input.last_read = work.reads;
            skipped = input.reads.pass(read);
            let _ = work.inputs.try_push(input);
        });
        skipped
    }

    /// Thread `thread` has made a new SSTable of Cassandra, and writes it by `descriptor`.
    pub fn record_output(&self, thread: i32, descriptor: i32, stamp: &FileStamp) {
        self.with_work(thread, |work| {
            // An old output that was never finished may have had this inode number.
            work.outputs
                .retain(|output| !output.stamp.same_inode(stamp));
            if work.outputs.len() >= OUTPUTS_MAX {
                work.outputs.remove(0);
            }
            let _ = work.outputs.try_push(Output {
                stamp: *stamp,
                descriptor,
                cursor: IndexCursor::default(),
                end: 0,
                is_incomplete: false,
                is_declined: false,
            });
        });
    }

    /// Thread `thread` has made a new SSTable of RocksDB, and writes it by `descriptor`.
    pub fn record_started(&self, thread: i32, descriptor: i32, stamp: &FileStamp) {
        self.with_work(thread, |work| {
            if work.started.len() >= STARTED_MAX {
                work.started.remove(0);
            }
            let _ = work.started.try_push(Started {
                stamp: *stamp,
                descriptor,
            });
        });
    }

    /// Thread `thread` has made a new blob file, and writes it.
    pub fn record_blob_output(&self, thread: i32, stamp: &FileStamp) {
        self.with_work(thread, |work| {
            work.blobs.record_output(inode_map::key_of(stamp));
        });
    }

    /// Thread `thread` has read these bytes of a blob file. What there is no memory for is not remembered.
    pub fn record_blob_read(
        &self,
        thread: i32,
        key: u64,
        offset: u64,
        bytes: &[u8],
        heat: impl Fn(u64) -> u8,
    ) {
        self.with_work(thread, |work| {
            let _ = work.blobs.record_read(key, offset, bytes, heat);
        });
    }

    /// Thread `thread` has written these bytes to the end of a blob file.
    pub fn record_blob_written(&self, thread: i32, key: u64, bytes: &[u8]) {
        self.with_work(thread, |work| work.blobs.record_written(key, bytes));
    }

    /// The SSTables of Cassandra that a thread is writing.
    pub fn outputs(&self, thread: i32) -> Vec<Output> {
        let threads = self.threads.lock();
        let works = threads.as_ref().map_or(&[][..], |threads| &threads.works);
        let outputs = works
            .iter()
            .find(|work| work.thread == thread)
            .map(|work| memory::collected(work.outputs.iter().copied()));
        outputs.and_then(Result::ok).unwrap_or_default()
    }

    /// Thread `thread` has work, though none of its reads may be seen.
    pub fn know_thread(&self, thread: i32) {
        self.with_work(thread, |_| ());
    }

    /// Notes something in a thread's work. The lock is not held meanwhile: to note may wait for memory, or for a page
    /// of the application's buffer.
    fn with_work(&self, thread: i32, note: impl FnOnce(&mut Work)) {
        let mut work = self.take(thread).unwrap_or_else(|| Work::none(thread));
        note(&mut work);
        self.give_back(work);
    }

    /// Takes the work of a thread out. Only that thread ever asks for it.
    pub fn take(&self, thread: i32) -> Option<Work> {
        let mut threads = self.threads.lock();
        let works = &mut threads.as_mut()?.works;
        let index = works.iter().position(|work| work.thread == thread)?;
        Some(works.swap_remove(index))
    }

    /// Puts the work of a thread back.
    pub fn give_back(&self, mut work: Work) {
        let mut threads = self.threads.lock();
        if let Some(threads) = made(&mut threads) {
            threads.make_room();
            threads.clock += 1;
            work.used = threads.clock;
            let _ = threads.works.try_push(work);
        }
    }
}

/// The list of threads, which is made with the first one. `None` if there is no memory for it.
fn made(threads: &mut Option<Box<Threads>>) -> Option<&mut Threads> {
    if threads.is_none() {
        *threads = heap::boxed(Threads::default());
    }
    threads.as_deref_mut()
}

/// The path of the file behind a descriptor.
pub fn path_of(descriptor: i32) -> Option<CString> {
    let mut path = [0; PATH_BYTES];
    let length = proc_fd::path_of(descriptor, &mut path).ok()?;
    c_string(&[path.get(..length)?])
}

/// Parts of a path, as a string for a system call. `None` if there is a NUL in it, or no memory for it.
pub(super) fn c_string(parts: &[&[u8]]) -> Option<CString> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut whole = Vec::new();
    // Exactly: otherwise the string would be moved to memory of its own length.
    whole.try_reserve_exact(length + 1).ok()?;
    for part in parts {
        memory::append(part, &mut whole).ok()?;
    }
    whole.try_push(0).ok()?;
    CString::from_vec_with_nul(whole).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_io::sys::file;
    use std::os::fd::AsRawFd;

    fn lineage() -> Lineage {
        Lineage {
            threads: FutexLock::new(None),
        }
    }

    fn a_file() -> (tempfile::NamedTempFile, FileStamp) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stamp = file::stamp(file.as_file().as_raw_fd()).unwrap();
        (file, stamp)
    }

    #[test]
    fn a_number_that_another_sstable_has_now_is_that_sstable() {
        let (lineage, (first, before), (second, stamp)) = (lineage(), a_file(), a_file());
        lineage.record_read(1, first.as_file().as_raw_fd(), &before, 500..600);
        // The kernel gives numbers of deleted files out again.
        let now = FileStamp {
            device: before.device,
            inode: before.inode,
            changed_ns: stamp.changed_ns + 1,
            ..stamp
        };
        lineage.record_read(1, second.as_file().as_raw_fd(), &now, 7000..7100);
        let work = lineage.take(1).unwrap();
        let [input] = &work.inputs[..] else {
            panic!("{}", work.inputs.len());
        };
        let path = path_of(second.as_file().as_raw_fd()).unwrap();
        assert_eq!((&input.path, input.lowest_offset), (&path, 7000));
    }

    #[test]
    fn an_sstable_that_was_only_linked_to_stays_what_it_is() {
        let (lineage, (file, before)) = (lineage(), a_file());
        let descriptor = file.as_file().as_raw_fd();
        lineage.record_read(1, descriptor, &before, 500..600);
        let now = FileStamp {
            changed_ns: before.changed_ns + 1,
            ..before
        };
        lineage.record_read(1, descriptor, &now, 7000..7100);
        let work = lineage.take(1).unwrap();
        assert_eq!(work.inputs.len(), 1);
        assert_eq!(work.inputs[0].lowest_offset, 500);
    }

    #[test]
    fn of_more_inputs_than_fit_the_first_ones_stay_while_they_are_read() {
        let (lineage, (file, stamp)) = (lineage(), a_file());
        let read = |number: u64| {
            let stamp = FileStamp {
                inode: number,
                ..stamp
            };
            lineage.record_read(1, file.as_file().as_raw_fd(), &stamp, 500..600);
        };
        let numbers = || {
            let work = lineage.take(1).unwrap();
            let numbers: Vec<u64> = work.inputs.iter().map(|input| input.stamp.inode).collect();
            lineage.give_back(work);
            numbers
        };
        let fit = INPUTS_MAX as u64;
        (0..3).for_each(|_| (0..fit + 100).for_each(read));
        assert_eq!(numbers(), (0..fit).collect::<Vec<_>>());
        // Another compaction of the same thread, which reads few.
        for _ in 0..READS_OF_REST {
            read(1);
            read(fit);
        }
        let now = numbers();
        assert!(now.len() == INPUTS_MAX && now.contains(&1) && now.contains(&fit));
    }

    #[test]
    fn what_is_written_beside_is_what_is_open_still() {
        let (lineage, (first, stamp), (second, other)) = (lineage(), a_file(), a_file());
        lineage.record_started(1, first.as_file().as_raw_fd(), &stamp);
        lineage.record_started(1, second.as_file().as_raw_fd(), &other);
        let mut work = lineage.take(1).unwrap();
        assert!(work.writes_beside(&stamp));
        lineage.give_back(work);
        // Without a handover, closed SSTables stay in the list until the next check.
        drop(second);
        lineage.record_started(1, first.as_file().as_raw_fd(), &stamp);
        let mut work = lineage.take(1).unwrap();
        assert!(!work.writes_beside(&stamp));
        assert!(work.started.is_empty());
    }

    #[test]
    fn an_output_that_was_given_up_does_not_stand_for_the_next() {
        let (lineage, (file, stamp)) = (lineage(), a_file());
        lineage.record_output(1, file.as_file().as_raw_fd(), &stamp);
        let mut work = lineage.take(1).unwrap();
        work.outputs[0].end = 9000;
        lineage.give_back(work);
        lineage.record_output(1, file.as_file().as_raw_fd(), &stamp);
        let outputs = lineage.outputs(1);
        assert_eq!(outputs.len(), 1);
        assert_eq!(outputs[0].end, 0);
    }
}
