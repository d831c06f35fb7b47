//! Threads without libc ([`clone(2)`](https://man7.org/linux/man-pages/man2/clone.2.html)), and signals
//! of the calling thread.
//!
//! A thread is started inside an interposed call. There, neither the application's allocator nor
//! another library's `pthread_create` may be called. Libc does not count the thread: it ends the process
//! with the last thread that it knows.

use super::raw::{clone_thread, syscall};
use super::{Errno, memory, unlocked};
use std::sync::atomic::AtomicU32;

/// What the thread runs. It has no thread-local storage of its own: the register points to that of the
/// thread that started it. So it may use no `errno` and no thread local, and must not panic.
pub type Entry = unsafe extern "C" fn(argument: usize) -> !;

/// Enough for a loop of raw system calls.
const STACK_BYTES: usize = 60 << 10;

/// Bytes of a stack's guard page, and of the whole stack. The guard lies at the bottom: a thread that
/// needs more stack faults there.
const fn layout(page_bytes: usize) -> (usize, usize) {
    (
        page_bytes,
        (page_bytes + STACK_BYTES).next_multiple_of(page_bytes),
    )
}

/// The flags of `pthread_create` without thread-local storage: one process, one memory, one descriptor
/// table.
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
/// The kernel's: `ENOMEM`, `EAGAIN` at the limit of threads, `EPERM` under a filter.
pub unsafe fn start(entry: Entry, argument: usize) -> Result<(), Errno> {
    // SAFETY: passed on; no id is asked for.
    unsafe { start_with(entry, argument, FLAGS, 0) }
}

/// As [`start`]. While the thread lives, `id` holds its id. The kernel sets it to 0 when the thread has ended,
/// also if a filter of system calls killed it (`CLONE_CHILD_CLEARTID`).
///
/// # Safety
/// As for [`start`]. `id` must live as long as the process.
///
/// # Errors
/// As for [`start`].
pub unsafe fn start_watched(entry: Entry, argument: usize, id: &AtomicU32) -> Result<(), Errno> {
    let flags = FLAGS | libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_CLEARTID;
    // SAFETY: passed on.
    unsafe { start_with(entry, argument, flags, id.as_ptr() as usize) }
}

/// # Safety
/// As for [`start_watched`]; `id` is the word's address.
unsafe fn start_with(entry: Entry, argument: usize, flags: i32, id: usize) -> Result<(), Errno> {
    let (guard_bytes, bytes) = layout(memory::page_bytes() as usize);
    let stack = unlocked::map(bytes)?;
    // SAFETY: nobody else uses the mapping yet. A forked child has no such thread. If the kernel refuses
    // either call, only the guard is lost.
    unsafe {
        let _ = memory::advise(stack, bytes, memory::ADVICE_DONT_FORK);
        let no_access = libc::PROT_NONE as usize;
        syscall(libc::SYS_mprotect, [stack as usize, guard_bytes, no_access]);
    }
    let before = set_blocked(u64::MAX);
    // SAFETY: the stack is the new thread's alone; the caller vouches for the rest.
    let result = unsafe {
        clone_thread(
            flags as usize,
            stack.wrapping_add(bytes) as usize,
            entry,
            argument,
            id,
        )
    };
    set_blocked(before);
    let started = Errno::check(result).map(|_| ());
    if started.is_err() {
        // SAFETY: no thread was started that could use it.
        let _ = unsafe { memory::unmap(stack, bytes) };
    } else {
        unlocked::list(stack, bytes, false);
    }
    started
}

/// [`rt_sigprocmask(2)`](https://man7.org/linux/man-pages/man2/sigprocmask.2.html): sets the calling
/// thread's blocked signals. Returns the earlier ones.
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
            ],
        )
    };
    before
}

/// Runs `work` without the signals of a write. One to a pipe or socket without a reader fails with `EPIPE` only. One
/// beyond the largest file that the process may make (`RLIMIT_FSIZE`) fails with `EFBIG` only. The signal is removed again
/// ([`rt_sigtimedwait(2)`](https://man7.org/linux/man-pages/man2/sigwaitinfo.2.html)).
pub fn without_signals_of_writes<T>(work: impl FnOnce() -> T) -> T {
    let before = set_blocked(u64::MAX);
    let pending_before = pending();
    let result = work();
    let brought = pending() & !pending_before;
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        let signal = 1_u64 << (signal - 1);
        if brought & signal == 0 {
            continue;
        }
        let no_wait = [0_i64; 2];
        // SAFETY: the kernel reads a signal set of eight bytes and a time, and writes nothing.
        unsafe {
            syscall(
                libc::SYS_rt_sigtimedwait,
                [
                    &raw const signal as usize,
                    0,
                    no_wait.as_ptr() as usize,
                    size_of::<u64>(),
                ],
            )
        };
    }
    set_blocked(before);
    result
}

/// [`rt_sigpending(2)`](https://man7.org/linux/man-pages/man2/sigpending.2.html): blocked signals that
/// wait for the calling thread or the process.
fn pending() -> u64 {
    let mut signals = 0_u64;
    // SAFETY: the kernel writes its signal set of eight bytes.
    unsafe {
        syscall(
            libc::SYS_rt_sigpending,
            [&raw mut signals as usize, size_of::<u64>()],
        )
    };
    signals
}

/// Ends the calling thread, as a filter of system calls would ([`exit(2)`](https://man7.org/linux/man-pages/man2/exit.2.html)).
#[cfg(all(test, not(loom)))]
pub(crate) fn end_this_thread() -> ! {
    loop {
        // SAFETY: only a thread of a test's own comes here, and nobody joins it.
        unsafe { syscall(libc::SYS_exit, [0]) };
    }
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
    fn a_stack_has_room_above_its_guard_with_any_page_size() {
        assert_eq!(layout(4096), (4096, 64 << 10));
        for page_bytes in [4096, 16 << 10, 64 << 10] {
            let (guard_bytes, bytes) = layout(page_bytes);
            assert!(guard_bytes.is_multiple_of(page_bytes) && bytes.is_multiple_of(page_bytes));
            assert!(bytes - guard_bytes >= STACK_BYTES);
        }
    }

    #[test]
    fn a_thread_runs_with_all_signals_blocked() {
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
            // All signals except SIGKILL and SIGSTOP, which cannot be blocked.
            status.contains("coldstream-test") && status.contains("SigBlk:\tfffffffffffbfeff")
        });
        assert!(found);
    }
}
