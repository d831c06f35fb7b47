//! Nice values and I/O priorities of single threads, by thread id; 0 is the calling thread.

use super::Errno;
use super::process::process_id;
use super::raw::syscall;

/// `IOPRIO_WHO_PROCESS`, which means a thread.
const WHO_THREAD: usize = 1;

/// Whether a thread of that id belongs to this process: ids are given out again, to others too.
pub fn is_own_thread(thread_id: i32) -> bool {
    // SAFETY: signal 0 only checks.
    let result = unsafe {
        syscall(
            libc::SYS_tgkill,
            [process_id() as usize, thread_id as usize, 0, 0, 0, 0],
        )
    };
    Errno::check(result).is_ok()
}

/// A thread's nice value, from -20 to 19.
///
/// # Errors
/// `ESRCH` if there is no such thread.
pub fn nice(thread_id: i32) -> Result<i32, Errno> {
    // SAFETY: takes numbers only.
    let result = unsafe {
        syscall(
            libc::SYS_getpriority,
            [libc::PRIO_PROCESS as usize, thread_id as usize, 0, 0, 0, 0],
        )
    };
    // The kernel keeps negative numbers for errors.
    Errno::check(result).map(|value| 20 - value as i32)
}

/// Sets a thread's nice value.
///
/// # Errors
/// `EACCES` or `EPERM` for a lower one than now without `CAP_SYS_NICE` or an `RLIMIT_NICE` that
/// allows it; `ESRCH`.
pub fn set_nice(thread_id: i32, nice: i32) -> Result<(), Errno> {
    // SAFETY: takes numbers only.
    let result = unsafe {
        syscall(
            libc::SYS_setpriority,
            [
                libc::PRIO_PROCESS as usize,
                thread_id as usize,
                nice as usize,
                0,
                0,
                0,
            ],
        )
    };
    Errno::check(result).map(|_| ())
}

/// A thread's I/O priority: class above bit 13, level below; class 0 is none.
///
/// # Errors
/// `ESRCH`; `ENOSYS` on a kernel without block devices.
pub fn io_priority(thread_id: i32) -> Result<i32, Errno> {
    // SAFETY: takes numbers only.
    let result = unsafe {
        syscall(
            libc::SYS_ioprio_get,
            [WHO_THREAD, thread_id as usize, 0, 0, 0, 0],
        )
    };
    Errno::check(result).map(|value| value as i32)
}

/// An I/O priority, as the kernel has it, if it is of any class (`IOPRIO_CLASS_SHIFT`,
/// `include/uapi/linux/ioprio.h`), and 0 otherwise: without one it follows the nice value.
pub const fn of_any_io_class(value: i32) -> i32 {
    if value >> 13 != 0 { value } else { 0 }
}

/// Sets a thread's I/O priority.
///
/// # Errors
/// `EPERM` for a class that needs a privilege; `ESRCH`.
pub fn set_io_priority(thread_id: i32, value: i32) -> Result<(), Errno> {
    // Old kernels report a level for class 0, and take none.
    let value = of_any_io_class(value);
    // SAFETY: takes numbers only.
    let result = unsafe {
        syscall(
            libc::SYS_ioprio_set,
            [WHO_THREAD, thread_id as usize, value as usize, 0, 0, 0],
        )
    };
    Errno::check(result).map(|_| ())
}

/// From now on the calling thread runs only where nothing else would (`SCHED_IDLE`, `sched(7)`);
/// any other thread that wakes up takes its place at once.
///
/// # Errors
/// `EPERM` where a filter forbids it.
pub fn run_only_when_idle() -> Result<(), Errno> {
    // `struct sched_param`, whose priority must be 0 here.
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads one number.
    let result = unsafe {
        syscall(
            libc::SYS_sched_setscheduler,
            [
                0,
                libc::SCHED_IDLE as usize,
                &raw const priority as usize,
                0,
                0,
                0,
            ],
        )
    };
    Errno::check(result).map(|_| ())
}

/// Gives the calling thread the priority of the process's first thread, as far as that is allowed:
/// a thread of our own is made by whatever thread needs it first, and inherits what that has.
pub fn take_that_of_first_thread() {
    let first = process_id();
    // Only where something changes: a filter may end a process that makes these calls.
    let (wanted, inherited) = (nice(first), nice(0));
    if let Ok(wanted) = wanted
        && inherited != Ok(wanted)
    {
        let _ = set_nice(0, wanted);
    }
    let (wanted, inherited) = (io_priority(first), io_priority(0));
    if let Ok(wanted) = wanted
        && inherited != Ok(wanted)
    {
        let _ = set_io_priority(0, wanted);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::process::thread_id;
    use super::*;

    #[test]
    fn a_thread_has_its_own() {
        let (before, own) = std::thread::spawn(|| {
            let before = nice(0).unwrap();
            set_nice(0, (before + 1).min(19)).unwrap();
            set_io_priority(thread_id(), 2 << 13 | 7).unwrap();
            assert_eq!(io_priority(0), Ok(2 << 13 | 7));
            set_io_priority(0, 4).unwrap();
            assert_eq!(io_priority(0).map(|value| value >> 13), Ok(0));
            (before, nice(thread_id()).unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(own, (before + 1).min(19));
        assert_eq!(nice(0), Ok(before), "another thread's stays as it is");
    }

    #[test]
    fn own_threads_are_told_from_others() {
        assert!(is_own_thread(thread_id()));
        assert!(!is_own_thread(1));
        assert_eq!(nice(i32::MAX), Err(Errno(libc::ESRCH)));
    }
}
