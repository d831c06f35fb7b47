//! SSTables that a background thread writes: which are staged, and what happens to them when the
//! application does something that would miss the bytes in a staging buffer.
//!
//! The state of a file is `coldstream_io::append`'s. Here are the list of such files, the locks, and the
//! system calls. A file leaves the list, for good, with the first call that the state does not know: it
//! falls back. Everything is then in the kernel, and the file position is right.

mod calls;
mod drain;
mod kernel_io;
mod staged_file;
mod sweep;
mod take_in;
mod write;

pub(crate) use calls::{Before, Sync};
pub(crate) use staged_file::StagedFiles;
pub(crate) use sweep::Reach;
pub(crate) use take_in::{HandoverState, Opening};
pub(crate) use write::{WriteCall, Written};
