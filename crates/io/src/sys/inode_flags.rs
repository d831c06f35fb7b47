//! Flags of an inode, which `chattr` sets:
//! [`ioctl_iflags(2)`](https://man7.org/linux/man-pages/man2/ioctl_iflags.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// `FS_IOC_GETFLAGS` (`include/uapi/linux/fs.h`), the same on x86-64 and aarch64.
const FS_IOC_GETFLAGS: usize = 0x8008_6601;
/// `FS_SYNC_FL`: each write waits for the device.
const FS_SYNC_FL: libc::c_long = 0x8;

/// `ioctl(2)` with `FS_IOC_GETFLAGS`: whether each write to the file waits for the device, whatever the flags of its
/// opening are.
///
/// # Errors
/// `ENOTTY` where the filesystem has no such flags.
pub fn is_synchronous(descriptor: impl Into<Descriptor>) -> Result<bool, Errno> {
    // The request names a `long`. The kernel writes an `int`.
    let mut flags: libc::c_long = 0;
    // SAFETY: the kernel writes no more than a `long` at this address.
    let result = unsafe {
        syscall(
            libc::SYS_ioctl,
            [
                descriptor.into().argument(),
                FS_IOC_GETFLAGS,
                &raw mut flags as usize,
            ],
        )
    };
    Errno::check(result).map(|_| flags & FS_SYNC_FL != 0)
}
