//! Raw system calls: one file a man page.
//!
//! Its promises:
//! - no call passes through libc. The exceptions are the clock and the page size, which need no system
//!   call. A preload library calls these functions while the application's own libc call is on the
//!   stack. Libc's symbols may be interposed by any library, also by that one;
//! - errors are returned as [`Errno`] and never stored in `errno`;
//! - every function is memory-safe with any [`Descriptor`]; its man page says what else holds.
//!
//! The functions allocate nothing and may run in a signal handler.

pub mod aio;
pub mod avoid;
pub mod bpf;
pub mod cachestat;
pub mod clock;
pub mod close;
pub mod credentials;
mod descriptor;
mod errno;
pub mod fadvise;
pub mod fcntl;
pub mod fetch;
pub mod file;
pub mod futex;
pub mod getdents;
pub mod inode_flags;
pub mod lseek;
pub mod madvise;
pub mod memory;
pub mod mincore;
pub mod mlock;
pub mod mmap;
pub mod open;
pub mod path;
pub mod poll;
pub mod pread;

pub mod process;
pub mod pwrite;
mod raw;
pub mod stat;
pub mod statfs;
pub mod statx;
pub mod sync_file_range;
pub mod thread;
pub mod thread_priority;
pub mod trial;
pub mod truncate;
pub mod unlocked;
pub mod user_memory;

pub use descriptor::Descriptor;
pub use errno::Errno;
pub use raw::syscall;
