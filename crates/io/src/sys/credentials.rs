//! Users, groups and capabilities of the calling thread alone: [`setresuid(2)`](https://man7.org/linux/man-pages/man2/setresuid.2.html),
//! [`setgroups(2)`](https://man7.org/linux/man-pages/man2/setgroups.2.html),
//! [`capset(2)`](https://man7.org/linux/man-pages/man2/capset.2.html).
//!
//! For the kernel these belong to a thread. Libc's functions of these names change all threads that libc knows.

use super::Errno;
use super::raw::syscall;

/// `CAP_SETGID` of `include/uapi/linux/capability.h`, as a bit.
pub const CAP_SETGID: u64 = 1 << 6;
/// `CAP_SETUID`.
pub const CAP_SETUID: u64 = 1 << 7;
/// `CAP_SYS_NICE`.
pub const CAP_SYS_NICE: u64 = 1 << 23;

/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Capabilities of a thread, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Those that are in force.
    pub effective: u64,
    /// Those that it may put into force.
    pub permitted: u64,
    /// Those that a program which it executes may get.
    pub inheritable: u64,
}

/// `capget(2)`.
///
/// # Errors
/// The kernel's: a filter of system calls may refuse it.
pub fn capabilities() -> Result<Capabilities, Errno> {
    let header = [CAPABILITY_VERSION, 0];
    let mut data = [0_u32; 6];
    // SAFETY: the kernel reads the header, and writes two structures of three numbers.
    Errno::check(unsafe {
        syscall(
            libc::SYS_capget,
            [&raw const header as usize, &raw mut data as usize],
        )
    })?;
    let [
        effective,
        permitted,
        inheritable,
        more_effective,
        more_permitted,
        more_inheritable,
    ] = data;
    let joined = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    Ok(Capabilities {
        effective: joined(effective, more_effective),
        permitted: joined(permitted, more_permitted),
        inheritable: joined(inheritable, more_inheritable),
    })
}

/// `capset(2)`.
///
/// # Errors
/// `EPERM` for a capability that is not permitted.
pub fn set_capabilities(wanted: &Capabilities) -> Result<(), Errno> {
    let header = [CAPABILITY_VERSION, 0];
    let Capabilities {
        effective,
        permitted,
        inheritable,
    } = *wanted;
    let data = [
        effective as u32,
        permitted as u32,
        inheritable as u32,
        (effective >> 32) as u32,
        (permitted >> 32) as u32,
        (inheritable >> 32) as u32,
    ];
    // SAFETY: the kernel only reads the header and two structures of three numbers.
    let result = unsafe {
        syscall(
            libc::SYS_capset,
            [&raw const header as usize, &raw const data as usize],
        )
    };
    Errno::check(result).map(drop)
}

/// Real, effective and saved id of a user or a group.
pub type Ids = [u32; 3];

/// `getresuid(2)`.
pub fn users() -> Ids {
    ids(libc::SYS_getresuid)
}

/// `getresgid(2)`.
pub fn groups() -> Ids {
    ids(libc::SYS_getresgid)
}

fn ids(call: i64) -> Ids {
    let mut ids = [u32::MAX; 3];
    let [real, effective, saved] = &mut ids;
    // SAFETY: the kernel writes three numbers.
    unsafe {
        syscall(
            call,
            [
                std::ptr::from_mut(real) as usize,
                std::ptr::from_mut(effective) as usize,
                std::ptr::from_mut(saved) as usize,
            ],
        )
    };
    ids
}

/// `setresuid(2)`.
///
/// # Errors
/// `EPERM` without `CAP_SETUID` for an id that is none of the three.
pub fn set_users(wanted: Ids) -> Result<(), Errno> {
    // SAFETY: takes numbers only.
    let result = unsafe { syscall(libc::SYS_setresuid, wanted.map(|id| id as usize)) };
    Errno::check(result).map(drop)
}

/// `setresgid(2)`.
///
/// # Errors
/// As [`set_users`], with `CAP_SETGID`.
pub fn set_groups(wanted: Ids) -> Result<(), Errno> {
    // SAFETY: takes numbers only.
    let result = unsafe { syscall(libc::SYS_setresgid, wanted.map(|id| id as usize)) };
    Errno::check(result).map(drop)
}

/// `setgroups(2)`: the supplementary groups.
///
/// # Errors
/// `EPERM` without `CAP_SETGID`.
pub fn set_supplementary_groups(groups: &[u32]) -> Result<(), Errno> {
    let list = [groups.len(), groups.as_ptr() as usize];
    // SAFETY: the kernel reads as many numbers as the list has.
    let result = unsafe { syscall(libc::SYS_setgroups, list) };
    Errno::check(result).map(drop)
}

/// `prctl(2)` with `PR_SET_KEEPCAPS`: whether capabilities stay permitted when the last user that is root goes.
pub fn keep_capabilities(are_kept: bool) {
    // SAFETY: takes numbers only.
    unsafe {
        syscall(
            libc::SYS_prctl,
            [libc::PR_SET_KEEPCAPS as usize, usize::from(are_kept)],
        )
    };
}

/// `prctl(2)` with `PR_GET_DUMPABLE`: whether the process may dump core, and whether others of its user may
/// look into it.
pub fn is_dumpable() -> bool {
    // SAFETY: takes numbers only.
    unsafe { syscall(libc::SYS_prctl, [libc::PR_GET_DUMPABLE as usize]) == 1 }
}

/// `prctl(2)` with `PR_SET_DUMPABLE`.
pub fn set_dumpable(yes: bool) {
    // SAFETY: takes numbers only.
    unsafe {
        syscall(
            libc::SYS_prctl,
            [libc::PR_SET_DUMPABLE as usize, usize::from(yes)],
        )
    };
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_what_proc_says() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let field = |name: &str| -> Vec<&str> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().split_whitespace().collect()
        };
        let found = capabilities().unwrap();
        assert_eq!(field("CapEff:"), [format!("{:016x}", found.effective)]);
        assert_eq!(field("CapPrm:"), [format!("{:016x}", found.permitted)]);
        assert_eq!(field("CapInh:"), [format!("{:016x}", found.inheritable)]);
        assert_eq!(field("Uid:")[..3], users().map(|id| id.to_string()));
        assert_eq!(field("Gid:")[..3], groups().map(|id| id.to_string()));
        assert_eq!(set_capabilities(&found), Ok(()));
        assert_eq!(set_users(users()), Ok(()));
        assert_eq!(set_groups(groups()), Ok(()));
    }
}
