//! A thread without libc (`clone(2)`): made inside an interposed call, where the application's
//! allocator and whoever else interposes `pthread_create` must not be called, and never counted
//! by libc, which ends a process with the last thread that it knows of.

use super::raw::{clone_thread, syscall};
use super::{Errno, memory};

/// What the thread runs. It has no thread-local storage of its own (the register points to that of
/// the thread that made it): no `errno`, no thread local, no panic.
pub type Entry = unsafe extern "C" fn(argument: usize) -> !;

/// All that a loop of raw system calls needs.
const STACK_BYTES: usize = 60 << 10;

/// Of a stack with a page of the kernel's at its bottom, which ends what needs more: bytes of that
/// page, and of the whole.
const fn layout(page_bytes: usize) -> (usize, usize) {
    (
        page_bytes,
        (page_bytes + STACK_BYTES).next_multiple_of(page_bytes),
    )
}

/// As `pthread_create`, less thread-local storage: one process, one memory, one table of
/// descriptors.
const FLAGS: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;

/// Starts a thread that lives as long as the process. All signals are blocked in it: the
/// application's handlers run in the application's threads.
///
/// # Safety
/// `entry` must be sound to run with `argument`, under the restrictions of [`Entry`].
///
/// # Errors
/// The kernel's: no memory, no more threads, or a filter that forbids it.
pub unsafe fn start(entry: Entry, argument: usize) -> Result<(), Errno> {
    let (guard_bytes, bytes) = layout(memory::page_bytes() as usize);
    let stack = memory::map_anonymous(bytes, libc::MAP_STACK)?;
    // SAFETY: nobody knows of the mapping yet; a forked child has no such thread, and a refusal of
    // either call costs a guard.
    unsafe {
        let _ = memory::advise(stack, bytes, memory::ADVICE_DONT_FORK);
        syscall(
            libc::SYS_mprotect,
            [stack as usize, guard_bytes, 0, 0, 0, 0],
        );
    }
    let before = set_blocked(u64::MAX);
    // SAFETY: the stack is the new thread's alone; the caller vouches for the rest.
    let result = unsafe {
        clone_thread(
            FLAGS as usize,
            stack.wrapping_add(bytes) as usize,
            entry,
            argument,
        )
    };
    set_blocked(before);
    let started = Errno::check(result).map(|_| ());
    if started.is_err() {
        // SAFETY: there is no thread that could use it.
        let _ = unsafe { memory::unmap(stack, bytes) };
    }
    started
}

/// Sets the calling thread's blocked signals; returns those before.
fn set_blocked(signals: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the kernel's signal set is eight bytes; one is read and one is written.
    unsafe {
        syscall(
            libc::SYS_rt_sigprocmask,
            [
                libc::SIG_SETMASK as usize,
                &raw const signals as usize,
                &raw mut before as usize,
                size_of::<u64>(),
                0,
                0,
            ],
        )
    };
    before
}

/// Runs `work`, whose writes to a pipe or socket that nobody reads any more fail with `EPIPE` and
/// have no other effect: the signal that comes with it is taken back.
pub fn without_broken_pipes<T>(work: impl FnOnce() -> T) -> T {
    let broken_pipe = 1_u64 << (libc::SIGPIPE - 1);
    let before = set_blocked(u64::MAX);
    let was_pending = pending() & broken_pipe != 0;
    let result = work();
    if !was_pending && pending() & broken_pipe != 0 {
        let at_once = [0_i64; 2];
        // SAFETY: the kernel reads a signal set of eight bytes and a time; it is asked for no details.
        unsafe {
            syscall(
                libc::SYS_rt_sigtimedwait,
                [
                    &raw const broken_pipe as usize,
                    0,
                    at_once.as_ptr() as usize,
                    size_of::<u64>(),
                    0,
                    0,
                ],
            )
        };
    }
    set_blocked(before);
    result
}

/// Signals that are blocked and have come, to the calling thread or the process.
fn pending() -> u64 {
    let mut signals = 0_u64;
    // SAFETY: the kernel's signal set is eight bytes, and written.
    unsafe {
        syscall(
            libc::SYS_rt_sigpending,
            [&raw mut signals as usize, size_of::<u64>(), 0, 0, 0, 0],
        )
    };
    signals
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::process::{futex_wait, futex_wake_one, set_thread_name};
    use std::sync::atomic::{AtomicU32, Ordering};

    static WORD: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn entry(argument: usize) -> ! {
        set_thread_name(c"coldstream-test");
        WORD.store(argument as u32, Ordering::Release);
        futex_wake_one(&WORD);
        loop {
            futex_wait(&WORD, argument as u32);
        }
    }

    #[test]
    fn a_stack_has_room_above_its_guard_whatever_the_kernels_pages() {
        assert_eq!(layout(4096), (4096, 64 << 10));
        for page_bytes in [4096, 16 << 10, 64 << 10] {
            let (guard_bytes, bytes) = layout(page_bytes);
            assert!(guard_bytes.is_multiple_of(page_bytes) && bytes.is_multiple_of(page_bytes));
            assert!(bytes - guard_bytes >= STACK_BYTES);
        }
    }

    #[test]
    fn it_runs_beside_the_others_with_all_signals_blocked() {
        let own_mask = set_blocked(0);
        set_blocked(own_mask);
        // SAFETY: the entry keeps to the restrictions.
        unsafe { start(entry, 7) }.unwrap();
        while WORD.load(Ordering::Acquire) == 0 {
            futex_wait(&WORD, 0);
        }
        assert_eq!(WORD.load(Ordering::Acquire), 7);
        assert_eq!(set_blocked(own_mask), own_mask, "the caller's are its own");
        let found = std::fs::read_dir("/proc/self/task").unwrap().any(|task| {
            let path = task.unwrap().path();
            let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
            // All but SIGKILL and SIGSTOP, which cannot be.
            status.contains("coldstream-test") && status.contains("SigBlk:\tfffffffffffbfeff")
        });
        assert!(found);
    }
}
