//! What a process, its cgroup and this machine look like from outside.
//!
//! The command, the laboratory and the tests ask here. The preload library does not: its own readers of `/proc`
//! neither allocate nor pass through libc.
//!
//! - [`process`]: one process in `/proc`: user, threads, open and mapped files, memory.
//! - [`status_page`]: the page on which the preload library in a process publishes its counters and takes requests.
//! - [`survey`]: all processes under Coldstream that the caller may see, read without changing anything.
//! - [`cgroup`], [`own_cgroup`]: memory limits in both versions, and cgroups that exist for one run.
//! - [`start`]: the command that starts a database in such cgroups.
//! - [`mounts`], [`block_device`]: the filesystem and the disk below a path.
//! - [`user_name`]: the names of users.
//! - [`machine`], [`counters`], [`reclaimers`], [`kernel_setting`]: facts, figures and settings of the kernel.
//!
//! Processes end at any moment: no two calls here assume that they see the same process. What cannot be read is
//! `None`, unless a function says otherwise.
//!
//! ```
//! use coldstream_host::status_page::{Status, status};
//! use coldstream_host::{cgroup, mounts, process};
//!
//! let pid = std::process::id();
//! println!("{}: {} threads", process::command_line(pid), process::threads(pid).len());
//! if let Some(limit) = cgroup::memory_limit(pid, &mounts::read()) {
//!     println!("at most {} bytes, by {}", limit.limit_bytes, limit.cgroup.display());
//! }
//! match status(pid) {
//!     Status::Running(snapshot) => println!("{snapshot}"),
//!     other => println!("not under Coldstream: {other:?}"),
//! }
//! ```

#![forbid(unsafe_code)]

pub mod block_device;
pub mod cgroup;
pub mod counters;
pub mod kernel_file;
pub mod kernel_setting;
pub mod machine;
pub mod mounts;
pub mod own_cgroup;
pub mod process;
pub mod reclaimers;
pub mod start;
pub mod status_page;
pub mod survey;
pub mod user_name;
