//! What a caller asks of the scan reader.

use super::mode::ReadMode;
use crate::sys::Descriptor;
use crate::sys::stat::FileStamp;

/// The limits of a scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The largest window in bytes: a power of two from 64 KiB to 2 MiB.
    pub window_bytes: usize,
    /// Windows that are read ahead of each consumer, from 1 to 4.
    pub windows_in_flight: usize,
    /// The cap of the memory of all windows, in bytes.
    pub memory_bytes: usize,
}

/// Who knows that the destination of a read is writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferCheck {
    /// The caller vouches for it.
    Vouched,
    /// The scanner asks the kernel before it copies. A bad pointer must end in the `EFAULT` of the
    /// system call.
    AskKernel,
}

/// One read of one file.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The caller's number of the file, below [`FILES_MAX`](super::FILES_MAX).
    pub slot: u32,
    /// A descriptor of the file that belongs to the caller.
    pub descriptor: Descriptor,
    /// The present result of `fstat` for that descriptor.
    pub stamp: FileStamp,
    /// How windows are filled.
    pub mode: ReadMode,
    /// Offset in the file, in bytes.
    pub offset: u64,
}
