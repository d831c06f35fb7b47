//! Identity, size and times of a file: [`stat(2)`](https://man7.org/linux/man-pages/man2/stat.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};
use std::ffi::c_char;
use std::mem::MaybeUninit;

/// Identity and present content of a file.
///
/// Two equal stamps mean that nothing changed in between, if the first one was taken at least one
/// clock tick after the change time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// Device of the inode.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Change time (ctime) in nanoseconds since the epoch. No program can set it back.
    pub changed_ns: i128,
    /// Changes that the embedding program saw itself, in addition to the kernel's change time.
    pub noticed_changes: u32,
}

impl From<&libc::stat> for FileStamp {
    #[inline]
    fn from(status: &libc::stat) -> Self {
        let seconds_ns = i128::from(status.st_ctime) * 1_000_000_000;
        Self {
            device: status.st_dev,
            inode: status.st_ino,
            mode: status.st_mode,
            size_bytes: status.st_size as u64,
            changed_ns: seconds_ns + i128::from(status.st_ctime_nsec),
            noticed_changes: 0,
        }
    }
}

impl FileStamp {
    /// Whether both stamps are of the same inode.
    #[inline]
    pub fn same_inode(&self, other: &FileStamp) -> bool {
        self.inode == other.inode && self.device == other.device
    }

    /// Whether it is a directory.
    #[inline]
    pub fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    /// Whether it is a regular file.
    #[inline]
    pub fn is_regular(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// `fstat(2)`: identity, size and change time of an open file.
///
/// # Errors
/// `EBADF` if the number names no open file.
#[inline]
pub fn stamp(descriptor: impl Into<Descriptor>) -> Result<FileStamp, Errno> {
    fstat(descriptor.into()).map(|status| FileStamp::from(&status))
}

/// `fstat(2)`: when the content of an open file last changed (mtime), in nanoseconds since the epoch. Programs can set it.
///
/// # Errors
/// `EBADF` if the number names no open file.
pub fn modified_ns(descriptor: impl Into<Descriptor>) -> Result<i128, Errno> {
    let status = fstat(descriptor.into())?;
    Ok(i128::from(status.st_mtime) * 1_000_000_000 + i128::from(status.st_mtime_nsec))
}

/// `stat(2)`: the same for the file at `path`. Symbolic links are followed.
///
/// # Safety
/// As for [`stamp_at`].
///
/// # Errors
/// As for [`stamp_at`].
pub unsafe fn stamp_of_path(path: *const c_char) -> Result<FileStamp, Errno> {
    // SAFETY: passed on.
    unsafe { stamp_at(libc::AT_FDCWD, path) }
}

/// `fstatat(2)`: the same for the file at `path` below a directory. An empty path is the descriptor itself.
///
/// # Safety
/// Any pointer is allowed: the kernel answers a bad one with `EFAULT`. The string must not change
/// during the call.
///
/// # Errors
/// The kernel's, such as `ENOENT` or `EFAULT`.
pub unsafe fn stamp_at(directory: i32, path: *const c_char) -> Result<FileStamp, Errno> {
    // SAFETY: passed on.
    let status = unsafe { fstatat(directory, path, libc::AT_EMPTY_PATH) }?;
    Ok(FileStamp::from(&status))
}

/// `fstatat(2)`: the device of the file at `path`, relative to the directory `at`. Symbolic links are not
/// followed.
///
/// # Safety
/// As for [`stamp_at`].
///
/// # Errors
/// The kernel's, such as `ENOENT` or `EFAULT`.
pub unsafe fn device_of_link(at: i32, path: *const c_char) -> Result<u64, Errno> {
    // SAFETY: passed on.
    unsafe { fstatat(at, path, libc::AT_SYMLINK_NOFOLLOW) }.map(|status| status.st_dev)
}

/// # Safety
/// As for [`stamp_at`].
unsafe fn fstatat(at: i32, path: *const c_char, flags: i32) -> Result<libc::stat, Errno> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel writes one `struct stat`, for which there is room; the caller vouches for
    // the path.
    let result = unsafe {
        syscall(
            libc::SYS_newfstatat,
            [
                Descriptor::from(at).argument(),
                path as usize,
                status.as_mut_ptr() as usize,
                flags as usize,
            ],
        )
    };
    Errno::check(result)?;
    // SAFETY: the call succeeded, so the structure is filled.
    Ok(unsafe { status.assume_init() })
}

/// Whether a descriptor still names the inode of `stamp` (`fstat(2)`). The file's content, size and
/// times may have changed. The application may have closed the descriptor without a call that
/// Coldstream sees, and its number may name another file.
pub fn is_same_inode(descriptor: impl Into<Descriptor>, stamp: &FileStamp) -> bool {
    self::stamp(descriptor).is_ok_and(|now| now.same_inode(stamp))
}

/// `fstat(2)`: owner and permission bits of an open file or directory.
///
/// # Errors
/// `EBADF` if the number names no open file.
pub fn owner_and_mode(descriptor: impl Into<Descriptor>) -> Result<(u32, u32), Errno> {
    fstat(descriptor.into()).map(|status| (status.st_uid, status.st_mode))
}

#[inline]
fn fstat(descriptor: Descriptor) -> Result<libc::stat, Errno> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel writes one `struct stat`, for which there is room.
    let result = unsafe {
        syscall(
            libc::SYS_fstat,
            [descriptor.argument(), status.as_mut_ptr() as usize],
        )
    };
    Errno::check(result)?;
    // SAFETY: the call succeeded, so the structure is filled.
    Ok(unsafe { status.assume_init() })
}
