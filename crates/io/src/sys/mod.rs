//! Raw system calls: one file a man page.
//!
//! Its promises:
//! - no call passes through libc, except for the clock and the page size, which need no system
//!   call. A preload library calls these functions while the application's own libc call is on the
//!   stack, and anyone may have interposed libc's symbols, the library included;
//! - errors are returned as [`Errno`] and never stored in `errno`;
//! - every function is safe for any [`Descriptor`], and is called by its man page's rules.
//!
//! The functions allocate nothing and may run in a signal handler.

pub mod aio;
pub mod cachestat;
pub mod clock;
pub mod close;
mod descriptor;
mod errno;
pub mod fadvise;
pub mod fcntl;
pub mod file;
pub mod futex;
pub mod lseek;
pub mod madvise;
pub mod memory;
pub mod mincore;
pub mod mmap;
pub mod open;
pub mod path;
pub mod poll;
pub mod pread;
pub mod priority;
pub mod process;
pub mod pwrite;
mod raw;
pub mod stat;
pub mod statfs;
pub mod statx;
pub mod sync_file_range;
pub mod thread;
pub mod truncate;
pub mod user_memory;

pub use descriptor::Descriptor;
pub use errno::Errno;
pub use raw::syscall;
