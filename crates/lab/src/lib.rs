//! The laboratory: real engines under an open-loop load, in a memory-limited cgroup, modes in
//! turn, with the kernel's and the device's own figures beside the latencies. It publishes what
//! it measured, losing cases included.

#![forbid(unsafe_code)]

mod arguments;
mod cgroup;
mod dataset;
mod driver;
mod experiment;
mod interrupt;
mod machine;
mod measurement;
mod mode;
mod report;
mod sampler;
mod summary;

pub use arguments::{Case, HotLayout, RocksDbArgs, Start};
pub use experiment::{LabError, run};
pub use mode::Mode;
