//! The kernel-facing layer of Coldstream: raw system calls, aligned windows, the alignment
//! probe, page-cache residency, and the scan reader that serves small sequential reads out of
//! large windows read around the page cache.
//!
//! It knows nothing of any database's process, of libc interposition or of the command line.
//! Nothing here passes through a symbol of libc's that the preload library, or another one, interposes:
//! every system call is issued by [`sys`] (the clock and the page's size are libc's, without one), so that
//! the preload library can use this crate inside an interposed call. [`signals`] is the command's alone.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod absent;
pub mod alignment;
pub mod append;
pub mod lock;
pub mod mapping;
pub mod pool;
pub mod private;
pub mod probe;
pub mod proc_fd;
pub mod residency;
pub mod scan;
pub mod sending;
pub mod shared;
#[cfg(not(any(loom, miri)))]
pub mod signals;
pub mod sync;
pub mod sys;
pub mod warm;
pub mod writers;

pub use sys::Errno;
