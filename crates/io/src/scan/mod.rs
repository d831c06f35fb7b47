//! The scan reader: serves arbitrary small sequential reads of immutable files out of large
//! windows that were read around the page cache, ahead of the consumer.
//!
//! Its promises:
//! - a byte is served only if the file's [`FileStamp`](crate::sys::file::FileStamp) is the one
//!   under which the window was read, and the file had then been unchanged for
//!   [`CHANGED_RECENTLY_NS`]: a change since then would show;
//! - window memory never exceeds the cap, however many files are merged at once;
//! - whatever goes wrong ends in [`Outcome::Plain`] with its reason: the caller then makes
//!   the plain call;
//! - all-zero memory is a valid, empty [`Scanner`] (a forked child finds just that).

mod scanner;
mod sequence;
mod stream;

use crate::private::{DescriptorRegistry, OpenError};
use crate::sys::Descriptor;

pub use scanner::{BufferCheck, FILES_MAX, Request, STREAMS_MAX, Scanner, Settings};
pub use sequence::WINDOW_BYTES_MIN;

/// How long a file must have been unchanged before its windows can be trusted: two ticks of
/// the slowest kernel clock (HZ=100) that stamps a change.
pub const CHANGED_RECENTLY_NS: i128 = 20_000_000;

/// The most windows of one stream: the consumer's own and those read ahead of it.
pub const WINDOWS_MAX: usize = 5;

/// How windows are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Direct I/O with this alignment; asynchronous, ahead of the consumer.
    Direct(crate::alignment::Alignment),
    /// `preadv2` with `RWF_DONTCACHE`.
    DontCache,
    /// A buffered read, after which the pages that it brought in are dropped.
    DropBehind,
}

/// Why a read is left to the plain call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The file changed less than [`CHANGED_RECENTLY_NS`] ago.
    ChangedRecently,
    /// No further descriptor could be opened (`EMFILE`, `ENFILE`, or Coldstream's own limit).
    DescriptorLimit,
    /// The private descriptor could not be opened for another reason.
    OpenFailed,
    /// The private descriptor is no longer what it was: somebody closed it.
    Identity,
    /// The read failed or came back short.
    ReadFailed,
    /// The cap of window memory is reached.
    MemoryCap,
    /// All streams are busy.
    StreamLimit,
    /// The destination is not writable: the kernel shall say so.
    BadBuffer,
}

impl From<OpenError> for Fallback {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::DescriptorLimit => Self::DescriptorLimit,
            OpenError::OpenFailed => Self::OpenFailed,
            OpenError::Identity => Self::Identity,
        }
    }
}

/// What became of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// So many bytes were delivered, as the system call would have; so many of them came from
    /// the page cache, where they were resident already.
    Served {
        /// Bytes delivered.
        bytes: usize,
        /// Of these, bytes copied out of the page cache.
        cached_bytes: usize,
    },
    /// Nothing was delivered; the plain call must be made.
    Plain(Fallback),
}

/// What the scan reader counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A window was read: bytes asked of the device.
    WindowRead(ReadMode),
    /// The consumer had to wait for a window that was still in flight or not yet asked for.
    WindowWaited,
    /// Bytes that were read ahead and dropped unread.
    Wasted,
    /// No asynchronous I/O context could be had: windows are read one at a time.
    AsynchronousUnavailable,
}

/// Hears what a [`Scanner`] does. Called by any thread that reads, with a stream's lock held.
pub trait ScanObserver {
    /// Adds `amount` (bytes, or 1) to the counter of `event`.
    fn count(&self, event: Event, amount: u64);
}

/// Counts nothing and hides no descriptor: for programs that own the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standalone;

impl ScanObserver for Standalone {
    fn count(&self, _: Event, _: u64) {}
}

impl DescriptorRegistry for Standalone {
    fn may_open(&self, _: u32) -> bool {
        true
    }
    fn lowest_descriptor(&self) -> i32 {
        0
    }
    fn register(&self, _: Descriptor, _: u32) {}
    fn unregister(&self, _: Descriptor) {}
}
