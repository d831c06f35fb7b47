//! Nice values and I/O priorities of single threads, by thread id; 0 is the calling thread.
//!
//! [`setpriority(2)`](https://man7.org/linux/man-pages/man2/setpriority.2.html),
//! [`ioprio_set(2)`](https://man7.org/linux/man-pages/man2/ioprio_set.2.html),
//! [`sched_setscheduler(2)`](https://man7.org/linux/man-pages/man2/sched_setscheduler.2.html),
//! [`tgkill(2)`](https://man7.org/linux/man-pages/man2/tgkill.2.html).

use super::Errno;
use super::process::process_id;
use super::raw::syscall;

/// `IOPRIO_WHO_PROCESS`. In spite of its name it means a thread.
const WHO_THREAD: usize = 1;

/// `tgkill(2)` with signal 0: whether the thread belongs to this process. The kernel gives ids out
/// again, also to other processes.
pub fn is_own_thread(thread_id: i32) -> bool {
    // SAFETY: signal 0 only checks.
    let result = unsafe {
        syscall(
            libc::SYS_tgkill,
            [process_id() as usize, thread_id as usize, 0],
        )
    };
    Errno::check(result).is_ok()
}

/// `getpriority(2)`: a thread's nice value, from -20 to 19.
///
/// # Errors
/// `ESRCH` if there is no such thread.
pub fn nice(thread_id: i32) -> Result<i32, Errno> {
    // SAFETY: takes numbers only.
    let result = unsafe {
        syscall(
            libc::SYS_getpriority,
            [libc::PRIO_PROCESS as usize, thread_id as usize],
        )
    };
    // The system call returns 20 - nice: negative results are errors.
    Errno::check(result).map(|value| 20 - value as i32)
}

/// `setpriority(2)`: sets a thread's nice value.
///
/// # Errors
/// `EACCES` or `EPERM` for a lower value, unless `CAP_SYS_NICE` or `RLIMIT_NICE` allows it; `ESRCH`.
pub fn set_nice(thread_id: i32, nice: i32) -> Result<(), Errno> {
    // SAFETY: takes numbers only.
    let result = unsafe {
        syscall(
            libc::SYS_setpriority,
            [
                libc::PRIO_PROCESS as usize,
                thread_id as usize,
                nice as usize,
            ],
        )
    };
    Errno::check(result).map(|_| ())
}

/// `ioprio_get(2)`: a thread's I/O priority. The class is in bits 13 and above, the level below; class 0
/// is none.
///
/// # Errors
/// `ESRCH`; `ENOSYS` on a kernel without block devices.
pub fn io_priority(thread_id: i32) -> Result<i32, Errno> {
    // SAFETY: takes numbers only.
    let result = unsafe { syscall(libc::SYS_ioprio_get, [WHO_THREAD, thread_id as usize]) };
    Errno::check(result).map(|value| value as i32)
}

/// An I/O priority if it has a class (`IOPRIO_CLASS_SHIFT`, `include/uapi/linux/ioprio.h`), and 0
/// otherwise. Without a class the I/O priority follows the nice value.
pub const fn io_priority_with_class(value: i32) -> i32 {
    if value >> 13 != 0 { value } else { 0 }
}

/// `ioprio_set(2)`: sets a thread's I/O priority.
///
/// # Errors
/// `EPERM` for a class that needs a privilege; `ESRCH`.
pub fn set_io_priority(thread_id: i32, value: i32) -> Result<(), Errno> {
    // Old kernels report a level for class 0, but refuse to set one.
    let value = io_priority_with_class(value);
    // SAFETY: takes numbers only.
    let result = unsafe {
        syscall(
            libc::SYS_ioprio_set,
            [WHO_THREAD, thread_id as usize, value as usize],
        )
    };
    Errno::check(result).map(|_| ())
}

/// `sched_setscheduler(2)` with `SCHED_IDLE`: from now on the calling thread runs only on processors that
/// would be idle. Any other thread that wakes up replaces it at once (`sched(7)`).
///
/// # Errors
/// `EPERM` under a filter.
pub fn run_only_when_idle() -> Result<(), Errno> {
    set_policy(libc::SCHED_IDLE)
}

/// `sched_setscheduler(2)` with `SCHED_OTHER`: takes [`run_only_when_idle`] back.
///
/// # Errors
/// `EPERM` unless `RLIMIT_NICE` allows the thread's nice value, or it has `CAP_SYS_NICE`.
pub fn run_as_others_do() -> Result<(), Errno> {
    set_policy(libc::SCHED_OTHER)
}

fn set_policy(policy: libc::c_int) -> Result<(), Errno> {
    // `struct sched_param`: the priority must be 0 for these policies.
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads one number.
    let result = unsafe {
        syscall(
            libc::SYS_sched_setscheduler,
            [0, policy as usize, &raw const priority as usize],
        )
    };
    Errno::check(result).map(|_| ())
}

/// Gives the calling thread the priority of the process's first thread, as far as the kernel allows it.
///
/// The thread that first needs a thread of our own starts it, and passes its own priority on.
pub fn copy_from_first_thread() {
    let first = process_id();
    // Only if something changes: a filter may end a process that makes these calls.
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
    fn each_thread_has_its_own_priority() {
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
    fn is_own_thread_knows_the_process() {
        assert!(is_own_thread(thread_id()));
        assert!(!is_own_thread(1));
        assert_eq!(nice(i32::MAX), Err(Errno(libc::ESRCH)));
    }
}
