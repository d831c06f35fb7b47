//! Gives every privilege away that the work after the start does not need.

use coldstream_host::process;
use coldstream_io::Errno;
use coldstream_io::sys::credentials::{self, Capabilities};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// `RLIMIT_NICE` for the nice value 0 (getrlimit(2)).
const NICE_OF_ZERO: u64 = 20;

/// Raises what the caller's limits allow: the number of open descriptors, and a nice value that the session's thread
/// may have again after `SCHED_IDLE`.
pub fn raise_limits() {
    let mut descriptors = getrlimit(Resource::Nofile);
    descriptors.current = descriptors.maximum;
    // An error: what it allows now is enough for most.
    let _ = setrlimit(Resource::Nofile, descriptors);
    let nice = getrlimit(Resource::Nice);
    let at_least = |limit: Option<u64>| limit.map(|limit| limit.max(NICE_OF_ZERO));
    // An error: it needs CAP_SYS_RESOURCE.
    let _ = setrlimit(
        Resource::Nice,
        Rlimit {
            current: at_least(nice.current),
            maximum: at_least(nice.maximum),
        },
    );
}

/// Becomes `user`, whose process `pid` is followed, with the groups of that process. Own groups and all capabilities
/// but those in the mask `kept` are gone for good.
///
/// Programs and directories are open by now. The rest needs that user's own rights only.
/// The calling process must have one thread only.
///
/// # Errors
/// The kernel's: `EPERM` for another user's process without `CAP_SETUID` and `CAP_SETGID`, and where one of `kept` is
/// not permitted.
pub fn become_user_of(pid: u32, user: u32, kept: u64) -> Result<(), Errno> {
    let group = process::group(pid).unwrap_or(user);
    let groups = process::supplementary_groups(pid);
    credentials::keep_capabilities(kept != 0);
    if credentials::users() != [user; 3] || credentials::groups() != [group; 3] {
        credentials::set_supplementary_groups(&groups)?;
        credentials::set_groups([group; 3])?;
        credentials::set_users([user; 3])?;
    }
    credentials::set_capabilities(&Capabilities {
        effective: kept,
        permitted: kept,
        inheritable: 0,
    })?;
    rustix::thread::set_no_new_privs(true).map_err(|error| Errno(error.raw_os_error()))
}
