//! System calls that are not made, because a filter (seccomp) would kill for them.
//!
//! An avoided call ends in `ENOSYS`, as on a kernel that does not have it. Only calls are in the list that
//! Coldstream can do without. If one of a group is avoided, the whole group is: the others make no sense alone.

use std::sync::atomic::{AtomicU32, Ordering};

/// The same number on every architecture; the `libc` crate does not have it everywhere.
pub(super) const SYS_CACHESTAT: i64 = 451;

/// Calls that make sense together only.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// The call alone.
    Itself,
    /// Reads ahead of a background thread.
    AsynchronousReads,
    /// Priorities of threads.
    Priority,
    /// Privileges of the library's own threads.
    Credentials,
}

const CALLS: [(&str, i64, Group); 30] = [
    ("cachestat", SYS_CACHESTAT, Group::Itself),
    ("mincore", libc::SYS_mincore, Group::Itself),
    ("statx", libc::SYS_statx, Group::Itself),
    ("preadv2", libc::SYS_preadv2, Group::Itself),
    ("pwritev2", libc::SYS_pwritev2, Group::Itself),
    ("sync_file_range", libc::SYS_sync_file_range, Group::Itself),
    ("fadvise64", libc::SYS_fadvise64, Group::Itself),
    ("clone", libc::SYS_clone, Group::Itself),
    ("close_range", libc::SYS_close_range, Group::Itself),
    ("getrusage", libc::SYS_getrusage, Group::Itself),
    ("sysinfo", libc::SYS_sysinfo, Group::Itself),
    ("getdents64", libc::SYS_getdents64, Group::Itself),
    ("io_setup", libc::SYS_io_setup, Group::AsynchronousReads),
    ("io_submit", libc::SYS_io_submit, Group::AsynchronousReads),
    (
        "io_getevents",
        libc::SYS_io_getevents,
        Group::AsynchronousReads,
    ),
    ("io_destroy", libc::SYS_io_destroy, Group::AsynchronousReads),
    ("getpriority", libc::SYS_getpriority, Group::Priority),
    ("setpriority", libc::SYS_setpriority, Group::Priority),
    ("ioprio_get", libc::SYS_ioprio_get, Group::Priority),
    ("ioprio_set", libc::SYS_ioprio_set, Group::Priority),
    (
        "sched_setscheduler",
        libc::SYS_sched_setscheduler,
        Group::Priority,
    ),
    ("tgkill", libc::SYS_tgkill, Group::Priority),
    ("capget", libc::SYS_capget, Group::Credentials),
    ("capset", libc::SYS_capset, Group::Credentials),
    ("setgroups", libc::SYS_setgroups, Group::Credentials),
    ("setresuid", libc::SYS_setresuid, Group::Credentials),
    ("setresgid", libc::SYS_setresgid, Group::Credentials),
    ("getresuid", libc::SYS_getresuid, Group::Credentials),
    ("getresgid", libc::SYS_getresgid, Group::Credentials),
    ("ioctl", libc::SYS_ioctl, Group::Itself),
];

/// The calls that are avoided, a bit each.
static AVOIDED: AtomicU32 = AtomicU32::new(0);

/// The names of the calls that can be avoided.
pub fn names() -> impl Iterator<Item = &'static str> {
    CALLS.iter().map(|(name, _, _)| *name)
}

/// Their numbers.
pub fn numbers() -> impl Iterator<Item = i64> {
    CALLS.iter().map(|(_, number, _)| *number)
}

/// From now on these calls and their groups are not made: a bit each, in the order of [`names`].
pub fn avoid(bits: u32) {
    AVOIDED.store(with_groups(bits), Ordering::Relaxed);
}

fn with_groups(bits: u32) -> u32 {
    let named = |number: usize| bits >> number & 1 != 0;
    let is_avoided = |group: Group, number: usize| match group {
        Group::Itself => named(number),
        _ => (0..CALLS.len()).any(|other| named(other) && CALLS[other].2 == group),
    };
    let each = CALLS.iter().enumerate();
    each.filter(|(number, (_, _, group))| is_avoided(*group, *number))
        .fold(0, |all, (number, _)| all | 1 << number)
}

/// Whether a call is not to be made. One load if none is avoided.
#[inline]
pub(super) fn is_avoided(number: i64) -> bool {
    let avoided = AVOIDED.load(Ordering::Relaxed);
    avoided != 0 && is_one_of(avoided, number)
}

#[cold]
fn is_one_of(avoided: u32, wanted: i64) -> bool {
    CALLS
        .iter()
        .enumerate()
        .any(|(place, (_, number, _))| *number == wanted && avoided >> place & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_takes_its_group_along() {
        let place = |wanted: &str| names().position(|name| name == wanted).unwrap();
        let bit = |name: &str| 1_u32 << place(name);
        assert_eq!(with_groups(0), 0);
        assert_eq!(with_groups(bit("cachestat")), bit("cachestat"));
        let all = ["io_setup", "io_submit", "io_getevents", "io_destroy"];
        let all = all.into_iter().fold(0, |bits, name| bits | bit(name));
        assert_eq!(with_groups(bit("io_submit")), all);
        assert!(is_one_of(bit("statx"), libc::SYS_statx));
        assert!(!is_one_of(bit("statx"), libc::SYS_read));
    }
}
