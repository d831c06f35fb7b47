//! What a stream needs from the scanner for one read.

use super::contexts::Contexts;
use super::mode::ReadMode;
use super::observer::ScanObserver;
use super::request::BufferCheck;
use crate::pool::WindowPool;
use crate::sys::Descriptor;
use crate::sys::stat::FileStamp;

/// Where the bytes of one read go.
pub(super) struct Destination {
    pub(super) memory: *mut u8,
    pub(super) length_bytes: usize,
    /// The kernel is asked at the last moment: the question changes bytes of the buffer, and only the
    /// served bytes hide that.
    pub(super) check: BufferCheck,
}

/// What all streams share. All-zero memory is valid: no memory and no context of asynchronous I/O.
#[repr(C)]
pub(super) struct Shared {
    pub(super) pool: WindowPool,
    pub(super) contexts: Contexts,
}

/// The file and the limits of one read.
pub(super) struct ReadContext<'a, O: ScanObserver> {
    pub(super) observer: &'a O,
    pub(super) shared: &'a Shared,
    pub(super) mode: ReadMode,
    /// The direct descriptor; the buffered one if the mode is not direct.
    pub(super) descriptor: Descriptor,
    /// The buffered descriptor, without kernel readahead.
    pub(super) buffered: Descriptor,
    /// The present stamp of the file.
    pub(super) stamp: FileStamp,
    /// The largest window in bytes, by configuration and by fair share.
    pub(super) window_bytes: usize,
    /// Windows to read ahead of the consumer.
    pub(super) windows_in_flight: usize,
}
