//! Gives every privilege away that the work after the start does not need: all of them.

use coldstream_io::Errno;
use coldstream_io::sys::credentials::{self, Capabilities};

/// Becomes user and group of the process that is followed. Own groups and capabilities are gone for good.
///
/// Programs and directories are open by now. The rest needs that user's own rights only.
/// The calling process must have one thread only. `groups` are the process's supplementary groups.
///
/// # Errors
/// The kernel's: `EPERM` for another user's process without `CAP_SETUID` and `CAP_SETGID`.
pub fn become_user(user: u32, group: u32, groups: &[u32]) -> Result<(), Errno> {
    if credentials::users() != [user; 3] || credentials::groups() != [group; 3] {
        credentials::set_supplementary_groups(groups)?;
        credentials::set_groups([group; 3])?;
        credentials::set_users([user; 3])?;
    }
    credentials::set_capabilities(&Capabilities::default())?;
    rustix::thread::set_no_new_privs(true).map_err(|error| Errno(error.raw_os_error()))
}
