//! Waiting on a word of memory: [`futex(2)`](https://man7.org/linux/man-pages/man2/futex.2.html).

use super::clock::duration;
use super::raw::syscall;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// `FUTEX_WAIT`, private to the process: sleeps while `word` holds `expected`, until another thread
/// wakes the sleepers. It may return without a reason.
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    wait(word.as_ptr() as usize, operation, expected, None);
}

/// As [`futex_wait`], for `milliseconds` at most.
pub fn futex_wait_for(word: &AtomicU32, expected: u32, milliseconds: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let (word, limit) = (word.as_ptr() as usize, Some(milliseconds));
    wait(word, operation, expected, limit);
}

/// Waits on the word at this address, for `milliseconds` at most; `None` is without a limit.
fn wait(address: usize, operation: i32, expected: u32, milliseconds: Option<u32>) {
    let time = milliseconds.map(duration);
    // SAFETY: the kernel only reads the word, whose address it checks, and the time, which lives until the call
    // returns.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                address,
                operation as usize,
                expected as usize,
                time.as_ref()
                    .map_or(0, |time| std::ptr::from_ref(time) as usize),
            ],
        )
    };
}

/// `FUTEX_WAKE`, private to the process: wakes one thread that sleeps on `word`.
pub fn futex_wake_one(word: &AtomicU32) {
    // SAFETY: the address serves as a key only.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize,
                1,
            ],
        )
    };
}

/// `FUTEX_WAIT` between processes: as [`futex_wait`], on the lower half of a word in shared memory.
/// It sleeps for `milliseconds` at most; `None` is without a limit.
pub fn futex_wait_shared(word: &AtomicU64, expected: u32, milliseconds: Option<u32>) {
    // The machine is little-endian (`control` asserts it), so the lower half is where the word begins.
    wait(
        word.as_ptr() as usize,
        libc::FUTEX_WAIT,
        expected,
        milliseconds,
    );
}

/// `FUTEX_WAKE` between processes: wakes every thread of every process that sleeps on the word.
pub fn futex_wake_shared(word: &AtomicU64) {
    // SAFETY: the address serves as a key only.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                libc::FUTEX_WAKE as usize,
                i32::MAX as usize,
            ],
        )
    };
}
