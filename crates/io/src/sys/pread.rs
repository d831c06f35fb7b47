//! Positional reads: [`pread(2)`](https://man7.org/linux/man-pages/man2/pread.2.html) and
//! [`preadv2(2)`](https://man7.org/linux/man-pages/man2/preadv2.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// `RWF_DONTCACHE`, Linux 6.14 (`include/uapi/linux/fs.h`): the kernel drops the pages afterwards.
pub const RWF_DONTCACHE: i32 = 0x80;

/// `pread64(2)` into `memory`; may be short.
///
/// # Safety
/// `memory` must be valid for writes of `length_bytes`, or must not be mapped as Rust memory at all.
/// The kernel answers a bad pointer with `EFAULT`.
///
/// # Errors
/// The kernel's, such as `EBADF`, `EIO` or `EFAULT`.
pub unsafe fn pread(
    descriptor: impl Into<Descriptor>,
    memory: *mut u8,
    length_bytes: usize,
    offset: u64,
) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for `memory`.
    Errno::check(unsafe {
        syscall(
            libc::SYS_pread64,
            [
                descriptor.into().argument(),
                memory as usize,
                length_bytes,
                offset as usize,
            ],
        )
    })
}

/// `preadv2(2)` of one buffer with `flags` (`RWF_*`); may be short.
///
/// # Safety
/// As for [`pread`].
///
/// # Errors
/// As for [`pread`]; `EOPNOTSUPP` if the kernel or the filesystem does not know a flag.
pub unsafe fn pread_with_flags(
    descriptor: impl Into<Descriptor>,
    memory: *mut u8,
    length_bytes: usize,
    offset: u64,
    flags: i32,
) -> Result<usize, Errno> {
    let vector = libc::iovec {
        iov_base: memory.cast(),
        iov_len: length_bytes,
    };
    // SAFETY: the caller vouches for `memory`; the vector lives across the call. The kernel takes the
    // offset as two words, and ignores the high one on 64-bit machines.
    Errno::check(unsafe {
        syscall(
            libc::SYS_preadv2,
            [
                descriptor.into().argument(),
                &raw const vector as usize,
                1,
                offset as usize,
                0,
                flags as usize,
            ],
        )
    })
}
