//! Where the page of a process lies. `/dev/shm` is memory on every Linux, and a
//! directory per user keeps other users out.

use std::ffi::OsStr;
use std::path::PathBuf;

/// Permissions of a user's directory.
pub const DIRECTORY_MODE: u32 = 0o700;
/// Permissions of a page.
pub const FILE_MODE: u32 = 0o600;

/// The directory of a user's pages.
#[must_use]
pub fn directory_path(uid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/coldstream-{uid}"))
}

/// The page of a process.
#[must_use]
pub fn page_path(uid: u32, pid: u32) -> PathBuf {
    directory_path(uid).join(pid.to_string())
}

/// The process whose page has this file name.
#[must_use]
pub fn pid_of_file_name(name: &OsStr) -> Option<u32> {
    let text = name.to_str()?;
    let pid: u32 = text.parse().ok()?;
    // `+7` and `007` parse too, but no page is called so.
    (pid.to_string() == text).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_belong_together() {
        let path = page_path(1000, 4711);
        assert_eq!(path, PathBuf::from("/dev/shm/coldstream-1000/4711"));
        assert_eq!(path.parent(), Some(directory_path(1000).as_path()));
        assert_eq!(path.file_name().and_then(pid_of_file_name), Some(4711));
        for name in ["", "+7", "007", "12x", "-1", "99999999999"] {
            assert_eq!(pid_of_file_name(OsStr::new(name)), None, "{name}");
        }
    }
}
