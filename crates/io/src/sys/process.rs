//! The process and its threads: identity, names, limits, memory of the machine.
//!
//! Clocks and futexes, which callers look for here, have modules of their own.

pub use super::clock::{
    clock_ns, coarse_milliseconds, coarse_real_ns, monotonic_ns, sleep, sleep_ns,
};
pub use super::futex::{futex_wait, futex_wait_shared, futex_wake_one, futex_wake_shared};

use super::Errno;
use super::raw::syscall;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Bytes of a thread name with its terminating NUL (`TASK_COMM_LEN`).
pub const THREAD_NAME_BYTES: usize = 16;

/// [`getpid(2)`](https://man7.org/linux/man-pages/man2/getpid.2.html). A `vfork` child shares its
/// parent's memory, but has another id.
#[inline]
pub fn process_id() -> i32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { syscall(libc::SYS_getpid, []) as i32 }
}

/// [`gettid(2)`](https://man7.org/linux/man-pages/man2/gettid.2.html): the calling thread's id.
pub fn thread_id() -> i32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { syscall(libc::SYS_gettid, []) as i32 }
}

/// What a thread has used since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadUsage {
    /// Time on a processor, in nanoseconds; the kernel tells microseconds.
    pub processor_ns: u64,
    /// Times that it gave its processor up by itself, to wait for something (`ru_nvcsw`).
    pub sleeps: u64,
}

impl ThreadUsage {
    /// Of a thread that has not run yet.
    pub const NONE: Self = Self {
        processor_ns: 0,
        sleeps: 0,
    };
}

/// [`getrusage(2)`](https://man7.org/linux/man-pages/man2/getrusage.2.html) of the calling thread. `None`
/// under a filter.
pub fn thread_usage() -> Option<ThreadUsage> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel writes one `struct rusage`.
    let result = unsafe {
        syscall(
            libc::SYS_getrusage,
            [libc::RUSAGE_THREAD as usize, usage.as_mut_ptr() as usize],
        )
    };
    Errno::check(result).ok()?;
    // SAFETY: the call succeeded, so it was written.
    let usage = unsafe { usage.assume_init() };
    let ns =
        |time: libc::timeval| (time.tv_sec as u64) * 1_000_000_000 + (time.tv_usec as u64) * 1000;
    Some(ThreadUsage {
        processor_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
        sleeps: usage.ru_nvcsw as u64,
    })
}

/// [`geteuid(2)`](https://man7.org/linux/man-pages/man2/geteuid.2.html): the effective user.
pub fn effective_user() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { syscall(libc::SYS_geteuid, []) as u32 }
}

/// [`sysinfo(2)`](https://man7.org/linux/man-pages/man2/sysinfo.2.html): memory of the machine in
/// bytes. `None` if the kernel does not say.
pub fn machine_memory_bytes() -> Option<u64> {
    let information = system_information()?;
    information
        .totalram
        .checked_mul(u64::from(information.mem_unit))
}

/// [`sysinfo(2)`](https://man7.org/linux/man-pages/man2/sysinfo.2.html): unused memory of the machine
/// in bytes. Memory that holds page cache is used.
pub fn machine_free_bytes() -> Option<u64> {
    let information = system_information()?;
    information
        .freeram
        .checked_mul(u64::from(information.mem_unit))
}

fn system_information() -> Option<libc::sysinfo> {
    let mut information = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the kernel writes one `struct sysinfo`, for which there is room.
    let result = unsafe { syscall(libc::SYS_sysinfo, [information.as_mut_ptr() as usize]) };
    Errno::check(result).ok()?;
    // SAFETY: zeroed before, and a structure of numbers.
    Some(unsafe { information.assume_init() })
}

/// [`uname(2)`](https://man7.org/linux/man-pages/man2/uname.2.html): release and version of the
/// kernel, padded with NUL.
pub fn kernel() -> ([u8; 65], [u8; 65]) {
    let mut names = [[0_u8; 65]; 6];
    // SAFETY: `struct new_utsname` is six arrays of 65 characters.
    unsafe { syscall(libc::SYS_uname, [names.as_mut_ptr() as usize]) };
    let [_, _, release, version, _, _] = names;
    (release, version)
}

/// [`prctl(2)`](https://man7.org/linux/man-pages/man2/prctl.2.html) with `PR_GET_NAME`: the calling
/// thread's name, padded with NUL.
pub fn thread_name() -> [u8; THREAD_NAME_BYTES] {
    let mut name = [0_u8; THREAD_NAME_BYTES];
    // SAFETY: the kernel writes 16 bytes at most.
    unsafe {
        syscall(
            libc::SYS_prctl,
            [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize],
        )
    };
    name
}

/// [`prctl(2)`](https://man7.org/linux/man-pages/man2/prctl.2.html) with `PR_SET_NAME`: names the
/// calling thread. The kernel keeps 15 bytes.
pub fn set_thread_name(name: &CStr) {
    // SAFETY: the kernel reads a NUL-terminated string.
    unsafe {
        syscall(
            libc::SYS_prctl,
            [libc::PR_SET_NAME as usize, name.as_ptr() as usize],
        )
    };
}

/// The soft limit of open descriptors. 1024 if the kernel does not say.
pub fn descriptor_limit() -> u64 {
    limits(libc::RLIMIT_NOFILE as i32, 1024).rlim_cur
}

/// The hard limit of open descriptors, up to which a process may raise the soft one. 1024 if the kernel does not say.
pub fn descriptor_limit_max() -> u64 {
    limits(libc::RLIMIT_NOFILE as i32, 1024).rlim_max
}

/// The soft limit of a file's size in bytes. No limit if the kernel does not say.
pub fn file_size_limit() -> u64 {
    limits(libc::RLIMIT_FSIZE as i32, libc::RLIM_INFINITY).rlim_cur
}

/// The soft limit of locked memory in bytes. 0 if the kernel does not say.
pub fn locked_memory_limit() -> u64 {
    limits(libc::RLIMIT_MEMLOCK as i32, 0).rlim_cur
}

/// [`prlimit(2)`](https://man7.org/linux/man-pages/man2/getrlimit.2.html): both limits, `unknown` if the kernel does
/// not say.
fn limits(resource: i32, unknown: u64) -> libc::rlimit {
    const THIS_PROCESS: usize = 0;
    let mut limit = libc::rlimit {
        rlim_cur: unknown,
        rlim_max: unknown,
    };
    // SAFETY: the kernel writes one `struct rlimit` and reads none.
    unsafe {
        syscall(
            libc::SYS_prlimit64,
            [THIS_PROCESS, resource as usize, 0, &raw mut limit as usize],
        )
    };
    limit
}
