//! The scan reader: serves small sequential reads of immutable files out of large windows. It reads the
//! windows around the page cache and ahead of the consumer.
//!
//! Its promises:
//! - it serves a byte only if the file's [`FileStamp`](crate::sys::stat::FileStamp) is the one under
//!   which the window was read. The file must have been unchanged for [`CHANGED_RECENTLY_NS`] then: a
//!   later change would show in the stamp;
//! - window memory never exceeds the cap, however many files are merged at once;
//! - every failure ends in [`Outcome::Plain`] with its [`Fallback`]: the caller makes the plain call;
//! - all-zero memory is a valid, empty [`Scanner`]. A forked child finds exactly that.
//!
//! From the outside to the inside:
//! 1. [`Scanner`] knows the files.
//! 2. A set of streams finds the one that a read continues.
//! 3. Each stream has a ring of windows.

mod context;
mod contexts;
mod file;
mod mode;
mod observer;
mod outcome;
mod request;
mod scanner;
mod sequence;
mod stream;
mod stream_set;
mod window;

pub use file::CHANGED_RECENTLY_NS;
pub use mode::ReadMode;
pub use observer::{Event, ScanObserver, Standalone};
pub use outcome::{Fallback, Outcome};
pub use request::{BufferCheck, Request, Settings};
pub use scanner::{FILES_MAX, Scanner};
pub use sequence::WINDOW_BYTES_MIN;
pub use stream::WINDOWS_MAX;
pub use stream_set::STREAMS_MAX;
