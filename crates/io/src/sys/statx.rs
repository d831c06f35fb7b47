//! Needs of direct I/O on a file: [`statx(2)`](https://man7.org/linux/man-pages/man2/statx.2.html).

use super::raw::syscall;
use super::{Descriptor, Errno};
use std::mem::MaybeUninit;

/// `STATX_DIOALIGN`, Linux 6.1 (`include/uapi/linux/stat.h`).
const STATX_DIOALIGN: u32 = 0x2000;

/// `statx(2)` with `STATX_DIOALIGN`: the alignment of memory and of offsets, in bytes, that direct
/// I/O needs on this file.
///
/// - `Ok(None)`: the kernel or the filesystem does not say.
/// - `Ok(Some((0, 0)))`: the filesystem says that it has no direct I/O on this file.
///
/// # Errors
/// The kernel's, such as `EBADF` or, before Linux 4.11, `ENOSYS`.
pub fn direct_alignment(descriptor: impl Into<Descriptor>) -> Result<Option<(u32, u32)>, Errno> {
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: an empty path with AT_EMPTY_PATH names the descriptor. The kernel writes one
    // `struct statx`, for which there is room.
    let result = unsafe {
        syscall(
            libc::SYS_statx,
            [
                descriptor.into().argument(),
                c"".as_ptr() as usize,
                libc::AT_EMPTY_PATH as usize,
                STATX_DIOALIGN as usize,
                status.as_mut_ptr() as usize,
            ],
        )
    };
    Errno::check(result)?;
    // SAFETY: zeroed before and filled by the kernel: every field is an integer.
    let status = unsafe { status.assume_init() };
    let is_reported = status.stx_mask & STATX_DIOALIGN != 0;
    Ok(is_reported.then_some((status.stx_dio_mem_align, status.stx_dio_offset_align)))
}
