//! Threads of the library's own that write for others: who has filled a buffer hands it over, and
//! fills another one meanwhile.
//!
//! There is no queue. A write is handed to a thread that has nothing to do, or not at all: the
//! caller then makes it itself, as if there were no such threads. They are made when they are first
//! needed, live as long as the process, take no lock and touch no thread-local storage
//! ([`crate::sys::thread`]).

use crate::sync::{AtomicU32, Ordering, futex_wait, futex_wake_one};
use crate::sys::file::{self, FileStamp};
use crate::sys::{Errno, priority, process, thread};
use std::cell::UnsafeCell;

/// So many writes go on at once at most.
pub const WRITERS_MAX: usize = 8;

/// A write that is handed over.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// A descriptor for direct writes.
    pub descriptor: i32,
    /// The file that it must still be of.
    pub stamp: FileStamp,
    /// First byte in memory.
    pub address: usize,
    /// Bytes.
    pub length_bytes: usize,
    /// File offset of the first.
    pub offset: u64,
    /// I/O priority of whoever hands it over, as the kernel has it; 0 is none.
    pub io_priority: i32,
}

/// A write that was handed over, until it is finished; by default none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flight(u32);

impl Flight {
    fn index(&self) -> Option<usize> {
        self.0.checked_sub(1).map(|index| index as usize)
    }
}

/// The threads; all-zero memory has none yet.
#[repr(C)]
pub struct Writers {
    /// Not zero: no more threads can be made.
    refused: AtomicU32,
    writers: [Writer; WRITERS_MAX],
}

impl Writers {
    /// Hands a write over. None if nobody is free: then it has not been begun.
    ///
    /// # Safety
    /// The bytes of the request must neither move nor change before [`Writers::finish`], and the
    /// writers must live as long as the process.
    pub unsafe fn begin(&self, request: &Request) -> Option<Flight> {
        let (number, writer) = self.claim()?;
        writer.give(*request);
        Some(Flight(number as u32 + 1))
    }

    /// Whether [`Writers::finish`] would not have to wait.
    pub fn is_finished(&self, flight: &Flight) -> bool {
        self.writer(flight).is_none_or(Writer::is_done)
    }

    /// Waits for a write's end; its result, which may be short.
    ///
    /// # Errors
    /// The kernel's; `EBADF` if the descriptor has become another file's.
    pub fn finish(&self, flight: Flight) -> Result<usize, Errno> {
        match self.writer(&flight) {
            Some(writer) => Errno::check(writer.take()),
            None => Err(Errno(libc::EBADF)),
        }
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
                // A limit or a filter: asking again for every buffer would only cost time.
                self.refused.store(1, Ordering::Relaxed);
                None
            }
        }
    }
}

/// There is no thread.
const ABSENT: u32 = 0;
/// It waits for a request.
const FREE: u32 = 1;
/// Somebody is about to give it one.
const CLAIMED: u32 = 2;
/// It has one.
const GIVEN: u32 = 3;
/// It has one, and whoever gave it sleeps until it is done.
const AWAITED: u32 = 4;
/// The result is there, and waits to be taken.
const DONE: u32 = 5;

/// One thread, and the write that it was given. The word says whose the rest is: the giver's from
/// `CLAIMED` and from `DONE` on, the thread's from `GIVEN` on.
#[repr(C)]
struct Writer {
    word: AtomicU32,
    result: UnsafeCell<isize>,
    request: UnsafeCell<Request>,
}

// SAFETY: the word hands the cells to one thread at a time.
unsafe impl Sync for Writer {}

impl Writer {
    /// Whether a thread in this state, `FREE` or `ABSENT`, is the caller's now.
    fn claim(&self, state: u32) -> bool {
        self.word
            .compare_exchange(state, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Of a writer that the caller has claimed.
    fn give(&self, request: Request) {
        // SAFETY: claimed by the caller; the thread looks only at what it is given.
        unsafe { *self.request.get() = request };
        self.word.store(GIVEN, Ordering::Release);
        futex_wake_one(&self.word);
    }

    fn is_done(&self) -> bool {
        self.word.load(Ordering::Relaxed) == DONE
    }

    /// Waits for the result of what the caller gave, and frees the writer.
    fn take(&self) -> isize {
        loop {
            match self.word.load(Ordering::Acquire) {
                GIVEN => {
                    let _ = self.word.compare_exchange(
                        GIVEN,
                        AWAITED,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                }
                AWAITED => futex_wait(&self.word, AWAITED),
                _ => break,
            }
        }
        // SAFETY: done: the thread is through with it, until it is given the next.
        let result = unsafe { *self.result.get() };
        self.word.store(FREE, Ordering::Release);
        result
    }

    /// The thread's side: waits for a request, and makes it.
    fn serve_one(&self, perform: impl FnOnce(&Request) -> isize) {
        loop {
            match self.word.load(Ordering::Acquire) {
                GIVEN | AWAITED => break,
                other => futex_wait(&self.word, other),
            }
        }
        // SAFETY: given: the cells are this thread's until it says that it is done.
        unsafe { *self.result.get() = perform(&*self.request.get()) };
        if self.word.swap(DONE, Ordering::AcqRel) == AWAITED {
            futex_wake_one(&self.word);
        }
    }
}

/// What a thread runs.
unsafe extern "C" fn serve(writer: usize) -> ! {
    process::set_thread_name(c"coldstream-io");
    priority::copy_from_first_thread();
    let own = priority::io_priority_with_class(priority::io_priority(0).unwrap_or(0));
    let mut io_priority = own;
    // SAFETY: the address of a writer that lives as long as the process.
    let writer = unsafe { &*(writer as *const Writer) };
    loop {
        writer.serve_one(|request| {
            let wanted = match request.io_priority {
                0 => own,
                of_the_giver => of_the_giver,
            };
            if wanted != io_priority {
                io_priority = wanted;
                let _ = priority::set_io_priority(0, wanted);
            }
            perform(request)
        });
    }
}

fn perform(request: &Request) -> isize {
    // A number that somebody closed unseen may be another file's by now.
    if !file::is_still(request.descriptor, &request.stamp) {
        return -libc::EBADF as isize;
    }
    // SAFETY: whoever gave the request vouches for the bytes until it is done.
    let bytes =
        unsafe { std::slice::from_raw_parts(request.address as *const u8, request.length_bytes) };
    match file::pwrite(request.descriptor, bytes, request.offset) {
        Ok(written) => written as isize,
        Err(Errno(error)) => -error as isize,
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    impl Writer {
        fn of_a_test() -> Self {
            // SAFETY: numbers only.
            let request = unsafe { std::mem::zeroed() };
            Self {
                word: AtomicU32::new(FREE),
                result: UnsafeCell::new(0),
                request: UnsafeCell::new(request),
            }
        }
    }

    /// Two givers of two writes and one: each gets its own result, sees its bytes left alone until
    /// then, and nobody sleeps for ever.
    #[test]
    fn loom_each_gets_the_result_of_its_own_write() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Arc::new((Writer::of_a_test(), loom::cell::UnsafeCell::new(0_u64)));
            let give_and_take = |shared: &(Writer, loom::cell::UnsafeCell<u64>), number: u64| {
                let (writer, bytes) = shared;
                while !writer.claim(FREE) {
                    loom::thread::yield_now();
                }
                // SAFETY: claimed; loom fails the test if that is not enough.
                bytes.with_mut(|bytes| unsafe { *bytes = number });
                let mut request = *Writer::of_a_test().request.get_mut();
                request.offset = number;
                writer.give(request);
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
                loom::thread::spawn(move || give_and_take(&shared, 3))
            };
            give_and_take(&shared, 1);
            give_and_take(&shared, 2);
            other.join().unwrap();
            thread.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn writers() -> &'static Writers {
        // SAFETY: zeroed memory has no threads.
        Box::leak(unsafe { Box::<Writers>::new_zeroed().assume_init() })
    }

    #[test]
    fn what_is_handed_over_is_written_by_somebody_else() {
        let writers = writers();
        let file = tempfile::tempfile().unwrap();
        let stamp = file::stamp(file.as_raw_fd()).unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let request = |number: u64| Request {
            descriptor: file.as_raw_fd(),
            stamp,
            address: bytes.as_ptr() as usize,
            length_bytes: bytes.len(),
            offset: number << 20,
            io_priority: 0,
        };
        for round in 0..10 {
            let flights: Vec<Flight> = (0..WRITERS_MAX as u64)
                .map(|number| {
                    // SAFETY: the bytes stay as they are.
                    unsafe { writers.begin(&request(round * WRITERS_MAX as u64 + number)) }.unwrap()
                })
                .collect();
            // SAFETY: as above.
            let one_more = unsafe { writers.begin(&request(0)) };
            assert_eq!(one_more, None, "nobody is free");
            for flight in flights.into_iter().rev() {
                assert_eq!(writers.finish(flight), Ok(1 << 20));
            }
        }
        assert_eq!(file.metadata().unwrap().len(), 80 << 20);
        let mut other = request(0);
        other.stamp.inode += 1;
        // SAFETY: as above.
        let flight = unsafe { writers.begin(&other) }.unwrap();
        while !writers.is_finished(&flight) {
            std::thread::yield_now();
        }
        assert_eq!(writers.finish(flight), Err(Errno(libc::EBADF)));
    }
}
