//! Writeback of a range:
//! [`sync_file_range(2)`](https://man7.org/linux/man-pages/man2/sync_file_range.2.html).
//!
//! The call makes nothing durable: it writes no metadata and empties no cache of the device.

use super::raw::syscall;
use super::{Descriptor, Errno};

/// `sync_file_range(2)` that starts writeback of a range and waits for it.
///
/// The pages are then clean and write-protected. So the next store through a mapping moves the
/// change time.
///
/// # Errors
/// The kernel's, such as `EIO`.
pub fn write_back(
    descriptor: impl Into<Descriptor>,
    offset: u64,
    length_bytes: u64,
) -> Result<(), Errno> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range(descriptor.into(), offset, length_bytes, flags)
}

/// `sync_file_range(2)` that only starts writeback of a range.
///
/// # Errors
/// The kernel's, such as `EIO`.
pub fn start_write_back(
    descriptor: impl Into<Descriptor>,
    offset: u64,
    length_bytes: u64,
) -> Result<(), Errno> {
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    sync_file_range(descriptor.into(), offset, length_bytes, flags)
}

fn sync_file_range(
    descriptor: Descriptor,
    offset: u64,
    length_bytes: u64,
    flags: libc::c_uint,
) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    let result = unsafe {
        syscall(
            libc::SYS_sync_file_range,
            [
                descriptor.argument(),
                offset as usize,
                length_bytes as usize,
                flags as usize,
            ],
        )
    };
    Errno::check(result).map(drop)
}
