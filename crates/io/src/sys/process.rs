//! Calls about the process and its threads: getpid, thread name, clocks, futex, sleep.

use super::Errno;
use super::raw::syscall;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes of a thread name with its terminating NUL (`TASK_COMM_LEN`).
pub const THREAD_NAME_BYTES: usize = 16;

/// `getpid(2)`: differs from the books' owner in a `vfork` child, which shares the memory.
#[inline]
pub fn process_id() -> i32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { syscall(libc::SYS_getpid, []) as i32 }
}

/// The calling thread's id (`gettid(2)`).
pub fn thread_id() -> i32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { syscall(libc::SYS_gettid, []) as i32 }
}

/// Memory of the machine in bytes (`sysinfo(2)`); `None` if it cannot be told.
pub fn machine_memory_bytes() -> Option<u64> {
    let information = system_information()?;
    information
        .totalram
        .checked_mul(u64::from(information.mem_unit))
}

/// Memory of the machine that is used for nothing, not even page cache, in bytes.
pub fn machine_free_bytes() -> Option<u64> {
    let information = system_information()?;
    information
        .freeram
        .checked_mul(u64::from(information.mem_unit))
}

fn system_information() -> Option<libc::sysinfo> {
    let mut information = std::mem::MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the kernel writes one `struct sysinfo`, for which there is room.
    Errno::check(unsafe {
        syscall(
            libc::SYS_sysinfo,
            [information.as_mut_ptr() as usize, 0, 0, 0, 0, 0],
        )
    })
    .ok()?;
    // SAFETY: zeroed before, and a structure of numbers.
    Some(unsafe { information.assume_init() })
}

/// `geteuid(2)`.
pub fn effective_user() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { syscall(libc::SYS_geteuid, []) as u32 }
}

/// Release and version of the kernel (`uname(2)`), NUL-padded.
pub fn kernel() -> ([u8; 65], [u8; 65]) {
    let mut names = [[0_u8; 65]; 6];
    // SAFETY: `struct new_utsname` is six arrays of 65 characters.
    unsafe {
        syscall(
            libc::SYS_uname,
            [names.as_mut_ptr() as usize, 0, 0, 0, 0, 0],
        )
    };
    let [_, _, release, version, _, _] = names;
    (release, version)
}

/// The calling thread's name, NUL-padded (`prctl(PR_GET_NAME)`).
pub fn thread_name() -> [u8; THREAD_NAME_BYTES] {
    let mut name = [0_u8; THREAD_NAME_BYTES];
    // SAFETY: the kernel writes at most 16 bytes.
    unsafe {
        syscall(
            libc::SYS_prctl,
            [
                libc::PR_GET_NAME as usize,
                name.as_mut_ptr() as usize,
                0,
                0,
                0,
                0,
            ],
        )
    };
    name
}

/// Names the calling thread (`prctl(PR_SET_NAME)`); the kernel keeps 15 bytes.
pub fn set_thread_name(name: &std::ffi::CStr) {
    // SAFETY: the kernel reads a NUL-terminated string.
    unsafe {
        syscall(
            libc::SYS_prctl,
            [
                libc::PR_SET_NAME as usize,
                name.as_ptr() as usize,
                0,
                0,
                0,
                0,
            ],
        )
    };
}

/// `clock_gettime(2)` in nanoseconds; 0 if the clock does not exist.
pub fn clock_ns(clock: i32) -> i128 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one `struct timespec`.
    unsafe {
        syscall(
            libc::SYS_clock_gettime,
            [clock as usize, &raw mut time as usize, 0, 0, 0, 0],
        )
    };
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Nanoseconds of the monotonic clock, by libc: it reads the clock without a system call where that
/// can be had. For a thread of the application's only.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: libc writes one `struct timespec`, and no errno for a clock that every Linux has.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Sleeps until the monotonic clock is there (`clock_nanosleep(2)`), or a signal comes.
pub fn sleep_until(monotonic_ns: u64) {
    let time = libc::timespec {
        tv_sec: (monotonic_ns / 1_000_000_000) as i64,
        tv_nsec: (monotonic_ns % 1_000_000_000) as i64,
    };
    // SAFETY: the kernel reads one `struct timespec`.
    unsafe {
        syscall(
            libc::SYS_clock_nanosleep,
            [
                libc::CLOCK_MONOTONIC as usize,
                libc::TIMER_ABSTIME as usize,
                &raw const time as usize,
                0,
                0,
                0,
            ],
        )
    };
}

/// Milliseconds of the coarse monotonic clock, for ages only; wraps after 49 days.
pub fn coarse_milliseconds() -> u32 {
    (clock_ns(libc::CLOCK_MONOTONIC_COARSE) / 1_000_000) as u32
}

/// Soft limit of open descriptors (`RLIMIT_NOFILE`); 1024 if it cannot be read.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 1024,
        rlim_max: 1024,
    };
    // SAFETY: the kernel writes one `struct rlimit` and reads none.
    unsafe {
        syscall(
            libc::SYS_prlimit64,
            [
                0,
                libc::RLIMIT_NOFILE as usize,
                0,
                &raw mut limit as usize,
                0,
                0,
            ],
        )
    };
    limit.rlim_cur
}

/// Sleeps until another thread wakes `word`, if it still holds `expected`.
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the kernel reads the word only; spurious returns are allowed by the callers.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize,
                expected as usize,
                0,
                0,
                0,
            ],
        )
    };
}

/// Wakes one thread that sleeps on `word`.
pub fn futex_wake_one(word: &AtomicU32) {
    // SAFETY: the address serves as a key only.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize,
                1,
                0,
                0,
                0,
            ],
        )
    };
}

/// As [`futex_wait`], on the lower half of a word in memory that processes share, and for so many
/// milliseconds at most.
pub fn futex_wait_shared(word: &AtomicU64, expected: u32, milliseconds: Option<u32>) {
    let time = milliseconds.map(duration);
    // SAFETY: the machine is little-endian (`control` asserts it): the half is where the word
    // begins. The kernel reads it and the time, which lives until the call returns.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                libc::FUTEX_WAIT as usize,
                expected as usize,
                time.as_ref()
                    .map_or(0, |time| std::ptr::from_ref(time) as usize),
                0,
                0,
            ],
        )
    };
}

/// Wakes every thread, in whatever process, that sleeps on the word.
pub fn futex_wake_shared(word: &AtomicU64) {
    // SAFETY: the address serves as a key only.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                libc::FUTEX_WAKE as usize,
                i32::MAX as usize,
                0,
                0,
                0,
            ],
        )
    };
}

/// Sleeps (`nanosleep(2)`); shorter if a signal comes.
pub fn sleep(milliseconds: u32) {
    let time = duration(milliseconds);
    // SAFETY: the kernel reads one `struct timespec`.
    unsafe {
        syscall(
            libc::SYS_nanosleep,
            [&raw const time as usize, 0, 0, 0, 0, 0],
        )
    };
}

fn duration(milliseconds: u32) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::from(milliseconds / 1000),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    }
}
