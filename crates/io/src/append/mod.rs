//! The append writer: takes the bytes that a background thread appends to a new file. It writes them
//! around the page cache, or through a bounded part of it.
//!
//! It is pure logic. Every system call goes through [`KernelIo`]:
//! - [`Staging`] is the state of a file that is written directly. It knows which bytes the kernel has,
//!   which are still in memory, and the application's file position.
//! - [`Buffers`] are the memory of such a file. With two, one is filled while the other is written.
//! - [`Operation`] and [`Verdict`] say which of the application's calls see staged bytes.
//! - [`Views`] say without a lock how far the kernel has a file, and how long it is.
//! - [`WritebackProgress`] follows a buffered writer, starts writeback early, and drops written pages.
//!
//! Its promises:
//! - the kernel's file is at every moment a prefix of the appended bytes: never longer, without a gap and
//!   without padding. Only whole blocks are written directly. Heads and tails go through the page cache,
//!   and no byte goes both ways;
//! - at most one write of a file is in flight, and no other starts before it is finished;
//! - bytes leave the memory only after the kernel has them. After an error the rest stays. Every later
//!   write, sync and close tries again, and reports the error.

mod kernel_io;
mod pieces;
mod rules;
mod staging;
mod views;
mod writeback;

pub use kernel_io::{Buffers, KernelIo};
pub use pieces::{DIRECT_BYTES_MIN, Piece, Portion, Way, pieces};
pub use rules::{Operation, Verdict};
pub use staging::Staging;
pub use views::{Size, Views};
pub use writeback::{LAG_BYTES, STEP_BYTES, WritebackProgress, WritebackStep};
