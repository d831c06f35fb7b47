//! The filesystem of a file: [`statfs(2)`](https://man7.org/linux/man-pages/man2/statfs.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};
use std::mem::MaybeUninit;

/// The filesystem that an open file lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// Its type (`f_type`).
    pub filesystem_type: i64,
    /// It is mounted with `sync`: each write waits for the device.
    pub is_synchronous: bool,
}

/// `fstatfs(2)`: the type of the filesystem that an open file lives on (`f_type`).
///
/// # Errors
/// The kernel's, such as `EBADF`.
pub fn filesystem_type(descriptor: impl Into<Descriptor>) -> Result<i64, Errno> {
    filesystem(descriptor).map(|filesystem| filesystem.filesystem_type)
}

/// `struct statfs` (`include/uapi/asm-generic/statfs.h`), the same on x86-64 and aarch64. The `libc` crate's has no flags.
#[repr(C)]
struct Status {
    filesystem_type: i64,
    _sizes: [u64; 9],
    flags: u64,
    _spare: [u64; 4],
}

/// `fstatfs(2)`: the filesystem that an open file lives on.
///
/// # Errors
/// The kernel's, such as `EBADF`.
pub fn filesystem(descriptor: impl Into<Descriptor>) -> Result<Filesystem, Errno> {
    let mut status = MaybeUninit::<Status>::uninit();
    // SAFETY: the kernel writes one `struct statfs`, for which there is room.
    let result = unsafe {
        syscall(
            libc::SYS_fstatfs,
            [descriptor.into().argument(), status.as_mut_ptr() as usize],
        )
    };
    Errno::check(result)?;
    // SAFETY: the call succeeded, so the structure is filled.
    let status = unsafe { status.assume_init() };
    Ok(Filesystem {
        filesystem_type: status.filesystem_type,
        is_synchronous: status.flags & libc::ST_SYNCHRONOUS != 0,
    })
}
