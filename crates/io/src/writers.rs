//! Threads of the library's own that write buffers for the application's threads.
//!
//! A thread that has filled a buffer hands its write over, and fills another buffer meanwhile.
//!
//! Its promises:
//! - there is no queue: a write goes to a free writer thread, or the caller makes it itself;
//! - the caller gets the result of its own write, exactly once;
//! - the threads take no lock and use no thread-local storage ([`crate::sys::thread`]).
//!
//! A thread is started when it is first needed, and lives as long as the process.

use crate::credentials::{self, Follower};
use crate::sync::{AtomicU32, Ordering, futex_wait, futex_wake_one};
use crate::sys::pwrite::pwrite;
use crate::sys::stat::{FileStamp, is_same_inode};
use crate::sys::{Descriptor, Errno, process, thread, thread_priority};
use std::cell::UnsafeCell;

/// The most writes at once.
pub const WRITERS_MAX: usize = 8;

/// A write that is handed over.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// A descriptor for direct writes.
    pub descriptor: Descriptor,
    /// The file that the descriptor must still name.
    pub stamp: FileStamp,
    /// First byte in memory.
    pub address: usize,
    /// Bytes.
    pub length_bytes: usize,
    /// File offset of the first.
    pub offset: u64,
    /// I/O priority of the thread that hands it over, in the kernel's format; 0 is none.
    pub io_priority: i32,
}

/// A write in flight: handed over and not finished. By default none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flight(u32);

impl Flight {
    fn index(&self) -> Option<usize> {
        self.0.checked_sub(1).map(|index| index as usize)
    }
}

/// The writer threads. All-zero memory is valid: there are none yet.
#[repr(C)]
pub struct Writers {
    /// Not zero: the kernel has refused to start a thread.
    refused: AtomicU32,
    writers: [Writer; WRITERS_MAX],
}

impl Writers {
    /// Hands a write over. `None` if no thread is free: the write has not been started then.
    ///
    /// # Safety
    /// The bytes of the request must neither move nor change before [`Writers::finish`]. The writers must
    /// live as long as the process.
    pub unsafe fn start(&self, request: &Request) -> Option<Flight> {
        let (number, writer) = self.claim()?;
        writer.submit(*request);
        Some(Flight(number as u32 + 1))
    }

    /// Whether [`Writers::finish`] would return without a wait.
    pub fn is_finished(&self, flight: &Flight) -> bool {
        self.writer(flight).is_none_or(Writer::is_done)
    }

    /// Waits for the end of a write, and returns how many bytes were written. They may be fewer than asked.
    ///
    /// # Errors
    /// The kernel's; `EBADF` if the descriptor names another file by now.
    pub fn finish(&self, flight: Flight) -> Result<usize, Errno> {
        match self.writer(&flight) {
            Some(writer) => Errno::check(writer.take()),
            None => Err(Errno(libc::EBADF)),
        }
    }

    /// Wakes the threads that have not followed the process's credentials. Returns whether there were any. A
    /// thread that is about to fall asleep misses it: wake it again.
    pub fn wake_followers(&self) -> bool {
        let mut any = false;
        for writer in &self.writers {
            if writer.word.load(Ordering::Relaxed) != ABSENT && writer.credentials.is_behind() {
                futex_wake_one(&writer.word);
                any = true;
            }
        }
        any
    }

    fn writer(&self, flight: &Flight) -> Option<&Writer> {
        self.writers.get(flight.index()?)
    }

    fn claim(&self) -> Option<(usize, &Writer)> {
        let mut numbered = self.writers.iter().enumerate();
        if let Some(free) = numbered.find(|(_, writer)| writer.claim(FREE)) {
            return Some(free);
        }
        if self.refused.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let mut numbered = self.writers.iter().enumerate();
        let (number, writer) = numbered.find(|(_, writer)| writer.claim(ABSENT))?;
        // SAFETY: the writer lives as long as the process, and its thread keeps to what a thread
        // without thread-local storage may do.
        match unsafe { thread::start(serve, std::ptr::from_ref(writer) as usize) } {
            Ok(()) => Some((number, writer)),
            Err(_) => {
                writer.word.store(ABSENT, Ordering::Relaxed);
                // A limit or a filter. A new attempt for every buffer would only cost time.
                self.refused.store(1, Ordering::Relaxed);
                None
            }
        }
    }
}

/// The thread was not started.
const ABSENT: u32 = 0;
/// The thread waits for a request.
const FREE: u32 = 1;
/// A caller is about to submit a request.
const CLAIMED: u32 = 2;
/// The thread has a request.
const SUBMITTED: u32 = 3;
/// The thread has a request, and its caller sleeps until the result is there.
const AWAITED: u32 = 4;
/// The result waits for the caller.
const DONE: u32 = 5;

/// One thread and its write. The word says who may use the cells: the caller from `CLAIMED` and from
/// `DONE` on, the thread from `SUBMITTED` on.
#[repr(C)]
struct Writer {
    word: AtomicU32,
    credentials: Follower,
    result: UnsafeCell<isize>,
    request: UnsafeCell<Request>,
}

// SAFETY: the word hands the cells to one thread at a time.
unsafe impl Sync for Writer {}

impl Writer {
    /// Takes a writer in this state, `FREE` or `ABSENT`, for the caller. Whether it got it.
    fn claim(&self, state: u32) -> bool {
        self.word
            .compare_exchange(state, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Submits a request to a writer that the caller has claimed.
    fn submit(&self, request: Request) {
        // SAFETY: claimed by the caller; the thread reads a request only after its submission.
        unsafe { *self.request.get() = request };
        self.word.store(SUBMITTED, Ordering::Release);
        futex_wake_one(&self.word);
    }

    fn is_done(&self) -> bool {
        self.word.load(Ordering::Relaxed) == DONE
    }

    /// Waits for the result of the caller's request, and frees the writer.
    fn take(&self) -> isize {
        loop {
            match self.word.load(Ordering::Acquire) {
                SUBMITTED => {
                    let _ = self.word.compare_exchange(
                        SUBMITTED,
                        AWAITED,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                }
                AWAITED => futex_wait(&self.word, AWAITED),
                _ => break,
            }
        }
        // SAFETY: done: the thread does not use the cells until the next submission.
        let result = unsafe { *self.result.get() };
        self.word.store(FREE, Ordering::Release);
        result
    }

    /// The thread's side: waits for a request, and performs it.
    fn serve_one(&self, perform: impl FnOnce(&Request) -> isize) {
        loop {
            match self.word.load(Ordering::Acquire) {
                SUBMITTED | AWAITED => break,
                other => {
                    self.credentials.follow();
                    futex_wait(&self.word, other);
                }
            }
        }
        // SAFETY: submitted: the cells belong to this thread until the word is `DONE`.
        unsafe { *self.result.get() = perform(&*self.request.get()) };
        if self.word.swap(DONE, Ordering::AcqRel) == AWAITED {
            futex_wake_one(&self.word);
        }
    }
}

/// The main function of a writer thread.
unsafe extern "C" fn serve(writer: usize) -> ! {
    process::set_thread_name(c"coldstream-io");
    credentials::begin();
    thread_priority::copy_from_first_thread();
    let own = thread_priority::io_priority_with_class(thread_priority::io_priority(0).unwrap_or(0));
    let mut io_priority = own;
    // SAFETY: the address of a writer that lives as long as the process.
    let writer = unsafe { &*(writer as *const Writer) };
    loop {
        writer.serve_one(|request| {
            let wanted = match request.io_priority {
                0 => own,
                of_the_caller => of_the_caller,
            };
            if wanted != io_priority {
                io_priority = wanted;
                let _ = thread_priority::set_io_priority(0, wanted);
            }
            perform(request)
        });
    }
}

fn perform(request: &Request) -> isize {
    // Somebody may have closed the descriptor without a call that Coldstream sees. Its number may name
    // another file by now.
    if !is_same_inode(request.descriptor, &request.stamp) {
        return -libc::EBADF as isize;
    }
    // SAFETY: the caller vouches for the bytes until the write is done.
    let bytes =
        unsafe { std::slice::from_raw_parts(request.address as *const u8, request.length_bytes) };
    match pwrite(request.descriptor, bytes, request.offset) {
        Ok(written) => written as isize,
        Err(Errno(error)) => -error as isize,
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    impl Writer {
        fn for_test() -> Self {
            // SAFETY: numbers only.
            let request = unsafe { std::mem::zeroed() };
            Self {
                word: AtomicU32::new(FREE),
                credentials: Follower::default(),
                result: UnsafeCell::new(0),
                request: UnsafeCell::new(request),
            }
        }
    }

    /// Two callers with two writes and one. Each gets its own result, its bytes stay unchanged until then,
    /// and no thread sleeps for ever.
    #[test]
    fn loom_each_gets_the_result_of_its_own_write() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Arc::new((Writer::for_test(), loom::cell::UnsafeCell::new(0_u64)));
            let submit_and_take = |shared: &(Writer, loom::cell::UnsafeCell<u64>), number: u64| {
                let (writer, bytes) = shared;
                while !writer.claim(FREE) {
                    loom::thread::yield_now();
                }
                // SAFETY: claimed; loom fails the test if that is not enough.
                bytes.with_mut(|bytes| unsafe { *bytes = number });
                let mut request = *Writer::for_test().request.get_mut();
                request.offset = number;
                writer.submit(request);
                let _ = writer.is_done();
                assert_eq!(writer.take(), number as isize * 10);
            };
            let thread = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || {
                    for _ in 0..3 {
                        shared.0.serve_one(|request| {
                            // SAFETY: as above.
                            let bytes = shared.1.with(|bytes| unsafe { *bytes });
                            assert_eq!(bytes, request.offset);
                            request.offset as isize * 10
                        });
                    }
                })
            };
            let other = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || submit_and_take(&shared, 3))
            };
            submit_and_take(&shared, 1);
            submit_and_take(&shared, 2);
            other.join().unwrap();
            thread.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mapping::{OnFork, map_for_life};
    use crate::sys::stat::stamp;

    fn writers() -> &'static Writers {
        let memory = map_for_life(size_of::<Writers>(), OnFork::Unmap).unwrap();
        // SAFETY: page-aligned, zeroed, and never unmapped; zeroed memory is valid.
        unsafe { &*memory.cast::<Writers>() }
    }

    #[test]
    fn writers_write_what_is_handed_over() {
        let writers = writers();
        let file = tempfile::tempfile().unwrap();
        let stamp = stamp(&file).unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let request = |number: u64| Request {
            descriptor: Descriptor::from(&file),
            stamp,
            address: bytes.as_ptr() as usize,
            length_bytes: bytes.len(),
            offset: number << 20,
            io_priority: 0,
        };
        for round in 0..10 {
            let flights: Vec<Flight> = (0..WRITERS_MAX as u64)
                .map(|number| {
                    // SAFETY: the bytes do not change.
                    unsafe { writers.start(&request(round * WRITERS_MAX as u64 + number)) }.unwrap()
                })
                .collect();
            // SAFETY: as above.
            let one_more = unsafe { writers.start(&request(0)) };
            assert_eq!(one_more, None, "no thread is free");
            for flight in flights.into_iter().rev() {
                assert_eq!(writers.finish(flight), Ok(1 << 20));
            }
        }
        assert_eq!(file.metadata().unwrap().len(), 80 << 20);
        let mut other = request(0);
        other.stamp.inode += 1;
        // SAFETY: as above.
        let flight = unsafe { writers.start(&other) }.unwrap();
        while !writers.is_finished(&flight) {
            std::thread::yield_now();
        }
        assert_eq!(writers.finish(flight), Err(Errno(libc::EBADF)));
    }
}
