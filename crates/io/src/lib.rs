//! The kernel-facing layer of Coldstream: raw system calls, direct I/O, and the page cache.
//!
//! Its promises:
//! - it knows nothing of databases, of interposed libc calls, or of the command line;
//! - it calls no libc symbol that the preload library or another library interposes. [`sys`] makes every
//!   system call itself. Only the clock and the page size come from libc, without a system call. So the
//!   preload library may use this crate inside an interposed call;
//! - its main types need no memory from the application's allocator, and all-zero memory is a valid value
//!   of them. So a forked child can start with empty state.
//!
//! What is here:
//!
//! | module | what it does |
//! |---|---|
//! | [`scan`] | reads files in large windows around the page cache, ahead of the consumer |
//! | [`append`], [`writers`], [`helper`] | write new files around the page cache, with threads of their own |
//! | [`warm`], [`sending`], [`absent`] | bring pages into the page cache, and drop exactly these again |
//! | [`probe`], [`residency`], [`alignment`] | find out what a filesystem and the page cache do |
//! | [`credentials`] | the privileges of the library's own threads |
//! | [`event_ring`] | events of BPF programs, for the command only |
//! | [`private`], [`proc_fd`] | open the application's files once more, unseen by the application |
//! | [`named_file`] | opens what the configuration names: the configuration itself, and the log |
//! | [`pool`], [`mapping`], [`lock`], [`shared`] | memory and locks without libc |
//! | [`lock_memory`] | `mlockall` for the application's memory alone |
//! | [`sys`] | the system calls, one file a man page |
//!
//! [`signals`] is for the command line only.
//!
//! # Example
//!
//! The main type is the scan reader. It serves small sequential reads out of large windows:
//!
//! ```
//! use coldstream_io::probe::probe;
//! use coldstream_io::scan::{Outcome, ReadMode, Request, Scanner, Settings, Standalone};
//! use coldstream_io::sys::stat;
//! use std::os::unix::fs::FileExt;
//!
//! # let path = tempfile::NamedTempFile::new()?;
//! # std::fs::write(&path, vec![7; 300_000])?;
//! let file = std::fs::File::open(path)?;
//!
//! // Direct I/O where it works, else buffered reads whose pages are dropped.
//! let probed = probe(&file)?;
//! let mode = if probed.direct_is_usable() {
//!     ReadMode::Direct(probed.alignment)
//! } else {
//!     ReadMode::DropBehind
//! };
//! let scanner = Scanner::for_process(Settings {
//!     window_bytes: 1 << 20,
//!     windows_in_flight: 2,
//!     memory_bytes: 64 << 20,
//! })?;
//!
//! let mut buffer = vec![0; 4096];
//! let mut offset = 0;
//! loop {
//!     // The stamp says which content is read: it is taken anew for every read.
//!     let request = Request {
//!         slot: 0,
//!         descriptor: (&file).into(),
//!         stamp: stat::stamp(&file)?,
//!         mode,
//!         offset,
//!     };
//!     let bytes = match scanner.read_into(&request, &mut buffer, &Standalone) {
//!         Outcome::Served { bytes, .. } => bytes,
//!         // For instance, the file changed less than 20 ms ago.
//!         Outcome::Plain(_fallback) => file.read_at(&mut buffer, offset)?,
//!     };
//!     if bytes == 0 {
//!         break;
//!     }
//!     offset += bytes as u64;
//! }
//! scanner.close(0, &Standalone);
//! assert_eq!(offset, file.metadata()?.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod absent;
pub mod alignment;
pub mod append;
pub mod credentials;
pub mod event_ring;
pub mod helper;
pub mod lock;
pub mod lock_memory;
pub mod mapping;
pub mod named_file;
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
