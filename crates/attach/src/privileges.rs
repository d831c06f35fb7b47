//! Gives every privilege away that the work after the start does not need.

use coldstream_io::Errno;
use coldstream_io::sys::credentials::{self, Capabilities};

/// Becomes user and group of the process that is followed. Own groups and all capabilities but those in the mask
/// `kept` are gone for good.
///
/// Programs and directories are open by now. The rest needs that user's own rights only.
/// The calling process must have one thread only. `groups` are the process's supplementary groups.
///
/// # Errors
/// The kernel's: `EPERM` for another user's process without `CAP_SETUID` and `CAP_SETGID`, and where one of `kept` is
/// not permitted.
pub fn become_user(user: u32, group: u32, groups: &[u32], kept: u64) -> Result<(), Errno> {
    credentials::keep_capabilities(kept != 0);
    if credentials::users() != [user; 3] || credentials::groups() != [group; 3] {
        credentials::set_supplementary_groups(groups)?;
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
