//! What a process, its cgroup and this machine look like from outside.
//!
//! The command, the laboratory and the tests ask here. The preload library does not: its own readers of `/proc`
//! neither allocate nor pass through libc.
//!
//! - [`process`]: one process in `/proc`: user, threads, open and mapped files, memory.
//! - [`status_page`]: the page on which the preload library in a process publishes its counters and takes requests.
//! - [`cgroup`], [`own_cgroup`]: memory limits in both versions, and cgroups that exist for one run.
//! - [`mounts`], [`block_device`]: the filesystem and the disk below a path.
//! - [`machine`], [`counters`], [`reclaimers`], [`kernel_setting`]: facts, figures and settings of the kernel.
//!
//! Processes end at any moment: no two calls here assume that they see the same process. What cannot be read is
//! `None`, unless a function says otherwise.

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
pub mod status_page;
