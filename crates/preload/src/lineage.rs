//! What becomes of what: the tables that each background thread reads, and those that it writes.
//!
//! A compaction reads its inputs and writes its outputs in one thread; with subcompactions each
//! thread does so for its part of the keys. A table that a thread has read stays an input of
//! whatever it writes until its last key has been passed, or it is gone.

use coldstream_io::lock::FutexLock;
use coldstream_io::probe;
use coldstream_io::sys::file::FileStamp;
use coldstream_sstable::cassandra::Place;
use std::ffi::{CStr, CString};

/// Threads whose work is remembered; the one that has rested longest makes room.
const THREADS_MAX: usize = 64;
/// Inputs of one thread.
const INPUTS_MAX: usize = 256;
/// Outputs of one thread.
const OUTPUTS_MAX: usize = 16;
/// Longest path of a table.
const PATH_BYTES: usize = 4096;

/// A table that was read.
pub(crate) struct Input {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) path: CString,
    pub(crate) size_bytes: u64,
    /// The lowest offset that was read: who opens a table reads its end only.
    pub(crate) lowest_offset: u64,
    /// Where the next part of an output goes on in its index (Cassandra).
    pub(crate) place: Place,
}

/// A table of Cassandra that is being written.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// What has been handed over of it: up to this entry of its index,
    pub(crate) place: Place,
    /// and to this byte of the file.
    pub(crate) end: u64,
}

/// What a thread reads and writes.
pub(crate) struct Work {
    thread: i32,
    used: u64,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
}

#[derive(Default)]
struct Threads {
    works: Vec<Work>,
    clock: u64,
}

/// All threads' work; all-zero memory is none.
#[repr(C)]
pub(crate) struct Lineage {
    threads: FutexLock<Option<Box<Threads>>>,
}

impl Threads {
    fn work(&mut self, thread: i32) -> Option<&mut Work> {
        self.clock += 1;
        let place = match self.works.iter().position(|work| work.thread == thread) {
            Some(place) => place,
            None => {
                self.make_room();
                self.works.push(Work {
                    thread,
                    used: 0,
                    inputs: Vec::new(),
                    outputs: Vec::new(),
                });
                self.works.len() - 1
            }
        };
        let work = self.works.get_mut(place)?;
        work.used = self.clock;
        Some(work)
    }

    fn make_room(&mut self) {
        if self.works.len() < THREADS_MAX {
            return;
        }
        let rested = self
            .works
            .iter()
            .enumerate()
            .min_by_key(|(_, work)| work.used);
        if let Some((place, _)) = rested {
            self.works.swap_remove(place);
        }
    }
}

impl Lineage {
    /// Thread `thread` has read at `offset` of the table behind `descriptor`.
    pub(crate) fn note_read(&self, thread: i32, descriptor: i32, stamp: &FileStamp, offset: u64) {
        let mut threads = self.threads.lock();
        let Some(work) = threads.get_or_insert_default().work(thread) else {
            return;
        };
        let known = work
            .inputs
            .iter_mut()
            .find(|input| input.inode == stamp.inode && input.device == stamp.device);
        if let Some(input) = known {
            input.lowest_offset = input.lowest_offset.min(offset);
            return;
        }
        let mut path = [0; PATH_BYTES];
        let path = match probe::path_of(descriptor, &mut path) {
            Ok(length) => path.get(..length).and_then(|path| CString::new(path).ok()),
            Err(_) => None,
        };
        let Some(path) = path else {
            return;
        };
        if work.inputs.len() >= INPUTS_MAX {
            work.inputs.remove(0);
        }
        work.inputs.push(Input {
            device: stamp.device,
            inode: stamp.inode,
            path,
            size_bytes: stamp.size_bytes,
            lowest_offset: offset,
            place: Place::default(),
        });
    }

    /// Thread `thread` has made a new table of Cassandra.
    pub(crate) fn note_output(&self, thread: i32, stamp: &FileStamp) {
        let mut threads = self.threads.lock();
        let Some(work) = threads.get_or_insert_default().work(thread) else {
            return;
        };
        if work.outputs.len() >= OUTPUTS_MAX {
            work.outputs.remove(0);
        }
        work.outputs.push(Output {
            device: stamp.device,
            inode: stamp.inode,
            place: Place::default(),
            end: 0,
        });
    }

    /// Takes the work of a thread out; nobody else asks for it meanwhile.
    pub(crate) fn take(&self, thread: i32) -> Option<Work> {
        let mut threads = self.threads.lock();
        let works = &mut threads.as_mut()?.works;
        let place = works.iter().position(|work| work.thread == thread)?;
        Some(works.swap_remove(place))
    }

    /// Puts it back.
    pub(crate) fn give_back(&self, work: Work) {
        let mut threads = self.threads.lock();
        let threads = threads.get_or_insert_default();
        threads.make_room();
        threads.works.push(work);
    }
}

impl Input {
    /// Its path.
    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    /// Whether this is the file that was read.
    pub(crate) fn is(&self, stamp: &FileStamp) -> bool {
        self.inode == stamp.inode && self.device == stamp.device
    }

    /// The number under which its heat is kept.
    pub(crate) fn key(&self) -> u64 {
        crate::inodes::key(self.device, self.inode)
    }
}

impl Output {
    /// Whether this is the file.
    pub(crate) fn is(&self, stamp: &FileStamp) -> bool {
        self.inode == stamp.inode && self.device == stamp.device
    }
}
