//! Memory that stays unlocked when the application locks its own
//! ([`mlockall(2)`](https://man7.org/linux/man-pages/man2/mlockall.2.html)).
//!
//! Coldstream reserves much memory and touches little of it. Locked memory is resident, and it counts against
//! `RLIMIT_MEMLOCK`. Two things keep this memory unlocked:
//! - A mapping grows out of one page, the seed ([`mremap`](super::mmap::grow)). It is locked only if the seed is,
//!   whatever was said of future mappings. Nor is it checked against the limit.
//! - `mlockall` locks all present mappings, also the seed. The mappings here are listed, and unlocked afterwards.

use super::madvise::{ADVICE_DONT_DUMP, advise};
use super::mlock::unlock;
use super::mmap::{grow, map_anonymous, page_bytes};
use super::{Errno, close, open, pread, process};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

/// A page that is never touched. Null before [`prepare`], and while a mapping grows out of it.
static SEED: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// More than a process has: state, heat, windows, and the stacks of the library's threads. Further mappings stay
/// locked. A forked child inherits some, and adds its own.
const MAPPINGS_MAX: usize = 64;

/// A listed mapping. The length is written last; 0 is none.
struct Listed {
    start: AtomicUsize,
    length_bytes: AtomicUsize,
    /// The process that has it; 0 is this one and its forked children.
    process: AtomicI32,
}

/// Outside the memory that a forked child finds wiped: the child inherits some of these mappings.
static MAPPINGS: [Listed; MAPPINGS_MAX] = [const {
    Listed {
        start: AtomicUsize::new(0),
        length_bytes: AtomicUsize::new(0),
        process: AtomicI32::new(0),
    }
}; MAPPINGS_MAX];

/// Makes the seed. Called once, before the application can have locked anything.
pub fn prepare() {
    let page = page_bytes() as usize;
    if let Ok(seed) = map_anonymous(page, libc::MAP_NORESERVE) {
        // It would otherwise become one with neighbours of the application's.
        // SAFETY: changes no byte.
        let _ = unsafe { advise(seed, page, ADVICE_DONT_DUMP) };
        SEED.store(seed, Ordering::Release);
    }
}

/// Maps zeroed memory that is not locked. Where that is not possible, it is an ordinary mapping.
///
/// # Errors
/// The kernel's, such as `ENOMEM`.
pub fn map(length_bytes: usize) -> Result<*mut u8, Errno> {
    // Some filters end a process that calls `munlock`. It is called only where the application locks memory.
    map_out_of_seed(length_bytes, |seed, page| {
        if is_any_memory_locked() {
            let _ = unlock(seed, page);
        }
    })
}

/// As [`map`], for a mapping that is soon given back, and with less work: it is locked if the application has locked
/// its mappings by a call that was not seen.
///
/// # Errors
/// As for [`map`].
pub fn map_briefly(length_bytes: usize) -> Result<*mut u8, Errno> {
    map_out_of_seed(length_bytes, |_, _| ())
}

fn map_out_of_seed(
    length_bytes: usize,
    before: impl FnOnce(*mut u8, usize),
) -> Result<*mut u8, Errno> {
    let page = page_bytes() as usize;
    let length_bytes = length_bytes.next_multiple_of(page);
    let seed = SEED.swap(null_mut(), Ordering::AcqRel);
    if seed.is_null() {
        return map_anonymous(length_bytes, libc::MAP_NORESERVE);
    }
    before(seed, page);
    // SAFETY: nobody uses the seed. It moves along, and stays the first page.
    let grown = unsafe { grow(seed, page, page + length_bytes) };
    SEED.store(grown.unwrap_or(seed), Ordering::Release);
    match grown {
        Ok(seed) => Ok(seed.wrapping_add(page)),
        Err(_) => map_anonymous(length_bytes, libc::MAP_NORESERVE),
    }
}

/// Lists a mapping that lives as long as the process. With `is_inherited` a forked child has it too.
pub fn list(start: *mut u8, length_bytes: usize, is_inherited: bool) {
    let process = if is_inherited {
        0
    } else {
        process::process_id()
    };
    let free = MAPPINGS.iter().find(|listed| {
        let taken =
            listed
                .start
                .compare_exchange(0, start as usize, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    });
    if let Some(listed) = free {
        listed.process.store(process, Ordering::Relaxed);
        listed.length_bytes.store(length_bytes, Ordering::Release);
    }
}

/// Calls `visit` with the start and the length of each listed mapping of this process, and of the seed.
pub fn each(mut visit: impl FnMut(usize, usize)) {
    let this_process = process::process_id();
    for listed in &MAPPINGS {
        let length_bytes = listed.length_bytes.load(Ordering::Acquire);
        let process = listed.process.load(Ordering::Relaxed);
        if length_bytes > 0 && (process == 0 || process == this_process) {
            visit(listed.start.load(Ordering::Relaxed), length_bytes);
        }
    }
    let seed = SEED.load(Ordering::Acquire);
    if !seed.is_null() {
        visit(seed as usize, page_bytes() as usize);
    }
}

/// Unlocks them, after the application has locked all its mappings. What is resident stays so.
pub fn unlock_all() {
    each(|start, length_bytes| {
        let _ = unlock(start as *mut u8, length_bytes);
    });
}

/// Whether any memory of the process is locked (`VmLck` in `/proc/self/status`). `false` where that is not known.
pub fn is_any_memory_locked() -> bool {
    let Ok(status) = open::open(c"/proc/self/status", libc::O_RDONLY, 0) else {
        return false;
    };
    let mut text = [0_u8; 4096];
    // SAFETY: the array is writable for its length.
    let read = unsafe { pread::pread(status, text.as_mut_ptr(), text.len(), 0) };
    let _ = close::close(status);
    read.is_ok_and(|count| is_any_locked(text.get(..count).unwrap_or_default()))
}

fn is_any_locked(status: &[u8]) -> bool {
    let line = status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"VmLck:"));
    line.is_some_and(|line| line.iter().any(|byte| (b'1'..=b'9').contains(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_memory_is_read_from_the_status() {
        assert!(is_any_locked(
            b"Name:\tx\nVmLck:\t      64 kB\nVmPin:\t       9 kB\n"
        ));
        assert!(!is_any_locked(
            b"VmLck:\t       0 kB\nVmPin:\t       9 kB\n"
        ));
        assert!(!is_any_locked(b""));
    }

    #[test]
    fn mappings_that_grow_out_of_one_page_are_zeroed_and_apart() {
        prepare();
        let page = page_bytes() as usize;
        let mapped: Vec<usize> = (0..9)
            .map(|_| map(3 * page - 1).unwrap() as usize)
            .collect();
        for start in &mapped {
            // SAFETY: memory of this test, three pages each.
            let bytes = unsafe { std::slice::from_raw_parts_mut(*start as *mut u8, 3 * page) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(1);
        }
        let mut sorted = mapped;
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] + 3 * page <= pair[1]));
    }
}
