//! Runs a program, one operation at a time, each on its thread. Records what the application saw: results,
//! descriptor numbers, `errno`, and a hash of every byte.

use super::journal::Journal;
use super::operations::{
    Action, DESCRIPTOR_LIMIT, MAPPINGS, Operation, PATHS, SLOTS, THREAD_NAMES,
};
use super::raw;
use coldstream_testkit::files;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// Longest single transfer.
pub const TRANSFER_BYTES: usize = 4 << 20;
const PAGE_BYTES: usize = 4096;
/// No call returns this `errno`. A call that changes it on success is detected.
pub const NO_ERRNO: i32 = 4242;

/// A variable with a descriptor. A closed one keeps its number and is still used. That must fail, or reach
/// the file that has the number by then.
#[derive(Clone, Copy)]
pub struct Slot {
    pub number: i32,
    pub open: bool,
    /// The offset of its scan.
    pub position: u64,
}

#[derive(Clone, Copy)]
pub struct Mapping {
    pub address: *mut u8,
    pub length: usize,
    pub writable: bool,
}

/// The variables of a program, and its memory for reads.
pub struct State {
    pub slots: [Slot; SLOTS],
    pub mappings: [Option<Mapping>; MAPPINGS],
    /// Page-aligned, with a guard page behind it.
    pub good: *mut u8,
    pub read_only: *mut u8,
    pub threads: [u64; THREAD_NAMES.len()],
    /// Number of the operation. It determines written content.
    pub step: usize,
}

// SAFETY: the pointers are to mappings that live as long as the process.
unsafe impl Send for State {}

impl State {
    fn new() -> Self {
        let good = raw::map_anonymous(
            TRANSFER_BYTES + PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
        );
        // SAFETY: the last page of the mapping just made.
        unsafe {
            let guard = good.add(TRANSFER_BYTES).cast();
            assert_eq!(libc::mprotect(guard, PAGE_BYTES, libc::PROT_NONE), 0);
        }
        Self {
            slots: [Slot {
                number: -1,
                open: false,
                position: 0,
            }; SLOTS],
            mappings: [None; MAPPINGS],
            good,
            read_only: raw::map_anonymous(TRANSFER_BYTES, libc::PROT_READ),
            threads: [0; THREAD_NAMES.len()],
            step: 0,
        }
    }
}

pub fn set_errno(errno: i32) {
    // SAFETY: libc returns the address of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// `errno`, if it was touched since it was set to [`NO_ERRNO`].
pub fn touched_errno() -> Option<i32> {
    // SAFETY: as above.
    let errno = unsafe { *libc::__errno_location() };
    (errno != NO_ERRNO).then_some(errno)
}

/// Creates the files that programs expect, in the current directory.
pub fn prepare_files() {
    // SAFETY: the path is NUL-terminated.
    unsafe { libc::mkdir(c"deeper".as_ptr(), 0o755) };
    for (identity, (path, size_bytes)) in PATHS.iter().enumerate() {
        let Some(size_bytes) = *size_bytes else {
            continue;
        };
        let descriptor = raw::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC);
        assert!(descriptor >= 0, "{path:?}");
        let mut bytes = vec![0; size_bytes as usize];
        files::fill(identity as u64, 0, &mut bytes);
        assert!(raw::write_at(descriptor, &bytes, 0), "{path:?}");
        raw::close(descriptor);
    }
}

/// Sets limits of the process, so that numbers are the same on every machine.
pub fn set_limits() {
    let limit = |resource, value| {
        let limit = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: reads one structure.
        unsafe { libc::setrlimit(resource, &limit) };
    };
    limit(libc::RLIMIT_NOFILE, DESCRIPTOR_LIMIT);
    limit(libc::RLIMIT_CORE, 0);
}

/// Runs the program. `operations` have their numbers in the full program.
pub fn run(operations: &[(usize, Operation)], journal: Journal) {
    let state = Mutex::new(State::new());
    let journal = Mutex::new(journal);
    let handles: [AtomicU64; THREAD_NAMES.len()] = Default::default();
    std::thread::scope(|scope| {
        let (done, finished) = mpsc::channel::<usize>();
        let mut workers = Vec::new();
        for thread in 0..THREAD_NAMES.len() {
            let (sender, receiver) = mpsc::channel::<(usize, Action)>();
            workers.push(sender);
            let (done, state, journal, handles) = (done.clone(), &state, &journal, &handles);
            scope.spawn(move || {
                // SAFETY: has no precondition.
                handles[thread].store(unsafe { libc::pthread_self() } as u64, Ordering::Relaxed);
                name_self(thread);
                let _ = done.send(thread);
                for (step, action) in receiver {
                    let mut state = state.lock().unwrap();
                    state.step = step;
                    let outcome = super::execute::execute(&mut state, &action);
                    journal
                        .lock()
                        .unwrap()
                        .line(&format!("{step} thread {thread} {action:?} -> {outcome}"));
                    drop(state);
                    if done.send(thread).is_err() {
                        return;
                    }
                }
            });
            finished.recv().unwrap();
            state.lock().unwrap().threads[thread] = handles[thread].load(Ordering::Relaxed);
        }
        for (step, operation) in operations {
            workers[operation.thread]
                .send((*step, operation.action.clone()))
                .unwrap();
            finished.recv().expect("a worker ended before its time");
        }
    });
    journal.lock().unwrap().line("end");
}

fn name_self(thread: usize) {
    // SAFETY: the name is NUL-terminated.
    unsafe {
        super::calls::pthread_setname_np(libc::pthread_self(), THREAD_NAMES[thread].as_ptr())
    };
}
