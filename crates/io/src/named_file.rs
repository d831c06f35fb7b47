//! Files that somebody else named: of which the name may lead to another file than its user meant.

use crate::sys::stat::{owner_and_mode, stamp, stamp_of_path};
use crate::sys::{Errno, close, open, process};
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::FromRawFd;

/// Why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamedFileError {
    /// A pipe, a device or a directory.
    #[error("not a regular file")]
    NotRegular,
    /// A system call failed.
    #[error("{0}")]
    Call(Errno),
}

impl From<Errno> for NamedFileError {
    fn from(errno: Errno) -> Self {
        Self::Call(errno)
    }
}

/// Opens a regular file for reading. Does not wait for the writer of a pipe, and opens no device: that alone
/// can have an effect. The caller closes the descriptor.
///
/// # Errors
/// [`NamedFileError::NotRegular`], or the kernel's error.
pub fn open_regular(path: &CStr) -> Result<i32, NamedFileError> {
    // SAFETY: a NUL-terminated string that does not change.
    let found = unsafe { stamp_of_path(path.as_ptr()) }?;
    if !found.is_regular() {
        return Err(NamedFileError::NotRegular);
    }
    let how = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    let descriptor = open::open(path, how, 0)?;
    // The name may lead to another file by now.
    match stamp(descriptor) {
        Ok(opened) if opened.is_regular() => Ok(descriptor),
        other => {
            let _ = close::close(descriptor);
            Err(other.map_or_else(Into::into, |_| NamedFileError::NotRegular))
        }
    }
}

/// Opens a file for appending, and creates it if there is none. Does not wait for the reader of a pipe: without
/// a reader the open fails. The caller closes the descriptor.
///
/// Nothing is created through a symbolic link. An existing file is opened through one if only root and the
/// calling user can have made the link (`/dev/stderr`). Otherwise who may write to the directory could choose
/// the file that root writes.
///
/// # Errors
/// The kernel's; `ELOOP` for a symbolic link that is not followed.
pub fn open_to_append(path: &CStr) -> Result<i32, Errno> {
    let how = libc::O_WRONLY | libc::O_APPEND | libc::O_NOCTTY | libc::O_NONBLOCK;
    let created = open::open(path, how | libc::O_CREAT | libc::O_NOFOLLOW, 0o644);
    match created {
        Err(Errno(libc::ELOOP)) if is_in_own_directory(path) => open::open(path, how, 0),
        other => other,
    }
}

/// As [`open_to_append`], for programs that use the standard library.
///
/// # Errors
/// As there.
pub fn append_to(path: &CStr) -> Result<File, Errno> {
    let descriptor = open_to_append(path)?;
    // SAFETY: it was just opened, and nobody else knows it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Whether only root and the calling user can change the directory of `path`.
#[cold]
#[inline(never)]
fn is_in_own_directory(path: &CStr) -> bool {
    let mut room = [0; libc::PATH_MAX as usize];
    let bytes = path.to_bytes();
    let Some(slash) = bytes.iter().rposition(|byte| *byte == b'/') else {
        return false;
    };
    let directory = bytes.get(..=slash).unwrap_or_default();
    let Some(place) = room.get_mut(..directory.len()) else {
        return false;
    };
    place.copy_from_slice(directory);
    let Ok(directory) = CStr::from_bytes_until_nul(&room) else {
        return false;
    };
    let Ok(descriptor) = open::open(directory, libc::O_PATH | libc::O_DIRECTORY, 0) else {
        return false;
    };
    let found = owner_and_mode(descriptor);
    let _ = close::close(descriptor);
    found.is_ok_and(|(owner, mode)| {
        (owner == 0 || owner == process::effective_user()) && mode & 0o022 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn c_string(path: &std::path::Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    #[test]
    fn only_regular_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let regular = directory.path().join("regular");
        std::fs::write(&regular, "").unwrap();
        let link = directory.path().join("link");
        symlink(&regular, &link).unwrap();
        for path in [&regular, &link] {
            close::close(open_regular(&c_string(path)).unwrap()).unwrap();
        }
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe.as_path(), directory.path(), "/dev/null".as_ref()] {
            let refused = open_regular(&c_string(path));
            assert_eq!(refused, Err(NamedFileError::NotRegular), "{path:?}");
        }
        let absent = open_regular(c"/nowhere");
        assert_eq!(absent, Err(NamedFileError::Call(Errno(libc::ENOENT))));
    }

    #[test]
    fn a_link_is_followed_to_an_existing_file_and_only_where_nobody_else_can_make_one() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        let target = directory.path().join("target");
        symlink(&target, &link).unwrap();
        let open = || open_to_append(&c_string(&link)).map(|it| close::close(it).unwrap());
        for (mode, is_there, expected) in [
            (0o755, false, Err(Errno(libc::ENOENT))),
            (0o775, false, Err(Errno(libc::ELOOP))),
            (0o1777, false, Err(Errno(libc::ELOOP))),
            (0o775, true, Err(Errno(libc::ELOOP))),
            (0o1777, true, Err(Errno(libc::ELOOP))),
            (0o755, true, Ok(())),
        ] {
            let permissions = PermissionsExt::from_mode(mode);
            std::fs::set_permissions(directory.path(), permissions).unwrap();
            if is_there {
                std::fs::write(&target, "").unwrap();
            }
            assert_eq!(open(), expected, "{mode:o} {is_there}");
            assert_eq!(target.exists(), is_there);
        }
        let created = directory.path().join("created");
        close::close(open_to_append(&c_string(&created)).unwrap()).unwrap();
        assert!(created.exists());
    }
}
