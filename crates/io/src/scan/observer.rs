//! What the scan reader reports to the program that embeds it.

use super::mode::ReadMode;
use crate::private::DescriptorRegistry;
use crate::sys::Descriptor;
use crate::sys::stat::FileStamp;

/// What the scan reader counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A window was read. The amount is the bytes that the device was asked for.
    WindowRead(ReadMode),
    /// The consumer waited for a window that was in flight or not yet requested. The amount is 1.
    WindowWaited,
    /// A window was read ahead and dropped unread. The amount is its bytes.
    ReadAheadWasted,
    /// The kernel gave no asynchronous I/O context: windows are read one at a time. The amount is 1.
    AsynchronousUnavailable,
}

/// Counts the events of a [`Scanner`](super::Scanner). Any reading thread calls it, with a stream's
/// lock held.
pub trait ScanObserver {
    /// Adds `amount` to the counter of `event`.
    fn count(&self, event: Event, amount: u64);
}

/// Counts nothing and limits no descriptors: for programs that own their process.
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
    fn register(&self, _: Descriptor, _: u32, _: &FileStamp) {}
    fn unregister(&self, _: Descriptor) {}
}
