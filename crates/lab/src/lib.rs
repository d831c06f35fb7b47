//! The laboratory: real engines under an open-loop load, in a memory-limited cgroup, modes in
//! turn, with the kernel's and the device's own figures beside the latencies. It publishes what
//! it measured, losing cases included.

#![forbid(unsafe_code)]

mod awake;
pub mod cassandra;
mod cgroup;
mod error;
mod foreground;
mod interrupt;
mod io_modes;
mod kernel_setting;
mod linked;
mod machine;
mod measurement;
mod option_name;
mod own_direct;
mod pauses;
mod phase;
mod preloaded;
mod processes;
mod progress;
mod reclaimers;
mod report;
pub mod rocksdb;
mod rows;
mod run_report;
mod sampler;
mod summary;
mod testbed;
mod throttle;

pub use error::LabError;
pub use report::saved;
pub use testbed::WorkDirArgs;
