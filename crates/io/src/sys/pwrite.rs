//! Writes: [`write(2)`](https://man7.org/linux/man-pages/man2/write.2.html),
//! [`pwrite(2)`](https://man7.org/linux/man-pages/man2/pwrite.2.html) and
//! [`pwritev2(2)`](https://man7.org/linux/man-pages/man2/pwritev2.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};

/// `write(2)` at the file position; may be short.
///
/// # Errors
/// The kernel's, such as `ENOSPC` or `EIO`.
pub fn write(descriptor: impl Into<Descriptor>, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel only reads `bytes`.
    Errno::check(unsafe {
        syscall(
            libc::SYS_write,
            [
                descriptor.into().argument(),
                bytes.as_ptr() as usize,
                bytes.len(),
            ],
        )
    })
}

/// `pwrite64(2)`; may be short. The descriptor must not have `O_APPEND`: the kernel would ignore the
/// offset.
///
/// # Errors
/// The kernel's, such as `ENOSPC` or `EIO`.
pub fn pwrite(
    descriptor: impl Into<Descriptor>,
    bytes: &[u8],
    offset: u64,
) -> Result<usize, Errno> {
    // SAFETY: the kernel only reads `bytes`.
    Errno::check(unsafe {
        syscall(
            libc::SYS_pwrite64,
            [
                descriptor.into().argument(),
                bytes.as_ptr() as usize,
                bytes.len(),
                offset as usize,
            ],
        )
    })
}

/// `pwritev2(2)` of one buffer at the file position, with `flags` (`RWF_*`); may be short. Any
/// pointer is allowed: the kernel answers a bad one with `EFAULT`.
///
/// # Errors
/// The kernel's; `EOPNOTSUPP` if the kernel or the filesystem does not know a flag.
pub fn write_with_flags(
    descriptor: impl Into<Descriptor>,
    memory: *const u8,
    length_bytes: usize,
    flags: i32,
) -> Result<usize, Errno> {
    /// Means the file position.
    const NO_OFFSET: usize = usize::MAX;
    let vector = libc::iovec {
        iov_base: memory.cast_mut().cast(),
        iov_len: length_bytes,
    };
    // SAFETY: the kernel only reads, and checks the vector's buffer; the vector lives across the call.
    Errno::check(unsafe {
        syscall(
            libc::SYS_pwritev2,
            [
                descriptor.into().argument(),
                &raw const vector as usize,
                1,
                NO_OFFSET,
                NO_OFFSET,
                flags as usize,
            ],
        )
    })
}
