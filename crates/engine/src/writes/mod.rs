//! SSTables that a background thread writes. This module decides which of them are staged. It also drains
//! them before calls of the application that would miss bytes in a staging buffer.
//!
//! `coldstream_io::append` has the state of one file. Here are the list of staged files, the locks, and the
//! system calls. A file falls back, and leaves the list for good, with the first call that its state does
//! not know. All bytes are then in the kernel, and the file position is right.

mod calls;
mod drain;
mod drainer;
mod ending;
mod flushes;
mod kernel_io;
mod staged_file;
mod sweep;
mod take_in;
mod write;

pub use calls::{Before, Sync};
pub use drainer::Heir;
pub use flushes::Flushes;
pub use staged_file::StagedFiles;
pub use sweep::Reach;
pub use take_in::{HandoverState, Opening};
pub use write::{WriteCall, Written};
