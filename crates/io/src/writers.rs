//! Threads of the library's own that write buffers for the application's threads.
//!
//! A thread that has filled a buffer hands its write over, and fills another buffer meanwhile.
//!
//! Its promises ([`crate::helper`]):
//! - there is no queue: a write goes to a free writer thread, or the caller makes it itself;
//! - the caller gets the result of its own write, exactly once;
//! - if a writer thread dies, its caller gets an error, and makes the write itself;
//! - a writer thread asks for no priority, and sets none, unless priorities are on.
//!
//! A thread is started when it is first needed, and lives as long as the process.

use crate::credentials;
use crate::helper::{self, Helper, Outcome, Priority};
use crate::sync::{AtomicU32, Ordering};
use crate::sys::pwrite::pwrite;
use crate::sys::stat::{FileStamp, is_same_inode};
use crate::sys::{Descriptor, Errno, process};

/// Milliseconds until a thread is asked for again that the kernel had no room for. A new attempt for every buffer would
/// only cost time.
const RETRY_MILLISECONDS: u32 = 5000;

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
    /// I/O priority of the thread that hands it over, in the kernel's format; 0 is none of its own. `None` if the
    /// writer thread must not ask for priorities.
    pub io_priority: Option<i32>,
}

/// A write in flight: handed over and not finished. By default none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flight(u32);

impl Flight {
    fn index(&self) -> Option<usize> {
        self.0.checked_sub(1).map(|index| index as usize)
    }
}

/// Threads may be started.
const ALLOWED: u32 = 0;
/// No thread is started any more.
const REFUSED: u32 = 1;

/// The writer threads. All-zero memory is valid: there are none yet.
#[repr(C)]
pub struct Writers {
    /// Whether threads may be started: [`ALLOWED`], [`REFUSED`], or the time by
    /// [`process::coarse_milliseconds`] from which on it is tried again.
    refused: AtomicU32,
    writers: [Helper<Request>; WRITERS_MAX],
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
        self.writer(flight).is_none_or(Helper::is_done)
    }

    /// Waits for the end of a write, and returns how many bytes were written. They may be fewer than asked.
    ///
    /// # Errors
    /// The kernel's; `EBADF` if the descriptor names another file by now; `ECANCELED` if the thread died.
    pub fn finish(&self, flight: Flight) -> Result<usize, Errno> {
        let Some(writer) = self.writer(&flight) else {
            return Err(Errno(libc::EBADF));
        };
        match writer.take(|| true) {
            Outcome::Done(result) => Errno::check(result),
            Outcome::Died | Outcome::Late => {
                // What killed it would kill the next one, too.
                self.refused.store(REFUSED, Ordering::Relaxed);
                Err(Errno(libc::ECANCELED))
            }
        }
    }

    /// Wakes the threads that have not followed the process's credentials. Returns whether there were any. A
    /// thread that is about to fall asleep misses it: wake it again.
    pub fn wake_followers(&self) -> bool {
        // All of them: `any` would stop at the first.
        let behind = self.writers.iter().filter(|writer| writer.wake_follower());
        behind.count() > 0
    }

    fn writer(&self, flight: &Flight) -> Option<&Helper<Request>> {
        self.writers.get(flight.index()?)
    }

    fn claim(&self) -> Option<(usize, &Helper<Request>)> {
        let mut numbered = self.writers.iter().enumerate();
        if let Some(free) = numbered.find(|(_, writer)| writer.claim()) {
            return Some(free);
        }
        if !self.may_start(process::coarse_milliseconds) {
            return None;
        }
        for (number, writer) in self.writers.iter().enumerate() {
            // SAFETY: the writer lives as long as the process, and its thread keeps to what a thread
            // without thread-local storage may do.
            match writer.claim_new(|id| unsafe { helper::start(writer, serve, id) }) {
                Ok(true) => return Some((number, writer)),
                Ok(false) => {}
                Err(errno) => {
                    self.record_refusal(errno, process::coarse_milliseconds());
                    return None;
                }
            }
        }
        None
    }

    /// The kernel has refused to start a thread, at this time in milliseconds.
    fn record_refusal(&self, errno: Errno, now: u32) {
        let refused = match errno {
            // No processes or no memory are left now.
            Errno(libc::EAGAIN | libc::ENOMEM) => {
                now.wrapping_add(RETRY_MILLISECONDS).max(REFUSED + 1)
            }
            // A filter.
            _ => REFUSED,
        };
        self.refused.store(refused, Ordering::Relaxed);
    }

    /// Whether a thread may be started. `now` is the time in milliseconds.
    fn may_start(&self, now: impl FnOnce() -> u32) -> bool {
        match self.refused.load(Ordering::Relaxed) {
            ALLOWED => true,
            REFUSED => false,
            // The clock wraps.
            from => now().wrapping_sub(from) < u32::MAX / 2,
        }
    }
}

/// The main function of a writer thread.
unsafe extern "C" fn serve(writer: usize) -> ! {
    process::set_thread_name(c"coldstream-io");
    credentials::begin();
    let mut priority = Priority::default();
    // SAFETY: the address of a writer that lives as long as the process.
    let writer = unsafe { &*(writer as *const Helper<Request>) };
    loop {
        writer.serve_one(|request| {
            priority.follow(request.io_priority);
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
    fn a_lack_of_threads_ends_and_a_refusal_does_not() {
        let writers = writers();
        for now in [0, 7, u32::MAX - 2] {
            for errno in [libc::EAGAIN, libc::ENOMEM] {
                writers.record_refusal(Errno(errno), now);
                let may_start_after = |milliseconds| {
                    let later = now.wrapping_add(milliseconds);
                    writers.may_start(|| later)
                };
                assert!(!may_start_after(0) && !may_start_after(RETRY_MILLISECONDS - 1));
                assert!(may_start_after(RETRY_MILLISECONDS), "{now}");
            }
            writers.record_refusal(Errno(libc::EPERM), now);
            assert!(!writers.may_start(|| now.wrapping_add(RETRY_MILLISECONDS)));
        }
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
            io_priority: Some(0),
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
