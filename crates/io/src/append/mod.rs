//! The append writer: takes the bytes that a background thread appends to a new file, and brings
//! them to the device around the page cache, or with a bounded part of it.
//!
//! Pure logic apart from [`KernelIo`], through which every system call goes:
//! - [`Staging`] is the state of a file written directly: which bytes the kernel has, which are
//!   still in memory, and where the application's file position is;
//! - [`Buffers`] are the memory of such a file, two if they can be had: one is filled while the
//!   other is being written;
//! - [`Operation`] and [`Verdict`] say which of the application's calls sees staged bytes;
//! - [`WritebackProgress`] follows a buffered writer, starts writeback early and drops what is done.
//!
//! Its promises:
//! - the kernel's file is at every moment a prefix of what was appended, never longer, never with
//!   a gap or a padding: only whole blocks are written directly, heads and tails through the page
//!   cache, and no byte is ever written in both ways;
//! - at most one write of a file is in flight, and no other is made until it has landed;
//! - bytes leave the memory only once the kernel has them; an error keeps the rest, to be tried
//!   again and reported with every later write, sync and close.

mod behind;
mod pieces;
mod rules;
mod staging;

pub use behind::{LAG_BYTES, STEP_BYTES, WritebackProgress, WritebackStep};
pub use pieces::{DIRECT_BYTES_MIN, Extent, Piece, Way, pieces};
pub use rules::{Operation, Verdict};
pub use staging::Staging;

use crate::sys::Errno;

/// The system calls of a staged file.
pub trait KernelIo {
    /// A positional write to the direct descriptor; memory, offset and length are aligned.
    ///
    /// # Errors
    /// The kernel's; the writer then takes the page cache for these bytes.
    fn write_direct(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno>;
    /// A positional write through the page cache.
    ///
    /// # Errors
    /// The kernel's.
    fn write_cached(&mut self, bytes: &[u8], offset: u64) -> Result<usize, Errno>;
    /// What was written through the page cache from `start` to `end` shall reach the device before
    /// the direct write that follows, so that a power cut leaves no gap. May do nothing where
    /// that would cost too much: nothing of it was synced.
    fn write_back_before(&mut self, start: u64, end: u64);
    /// Begins a direct write that goes on while the caller fills the other buffer, whose bytes stay
    /// as they are until it has landed. `false` if that cannot be done: then it is made as any
    /// other.
    fn start_direct(&mut self, bytes: &[u8], offset: u64) -> bool;
    /// Whether the write that was begun has ended.
    fn direct_is_finished(&mut self) -> bool;
    /// Waits for the end of the write that was begun; its result.
    ///
    /// # Errors
    /// As of [`KernelIo::write_direct`].
    fn finish_direct(&mut self) -> Result<usize, Errno>;
}

/// The memory of a staged file: one buffer, or two of the same length.
pub trait Buffers {
    /// The one that is being filled.
    fn to_fill(&mut self) -> &mut [u8];
    /// The one that is being written, or whose bytes could not be; empty if there is only one.
    fn to_write(&self) -> &[u8];
    /// Each becomes the other.
    fn swap(&mut self);
}
