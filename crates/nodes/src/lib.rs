//! Real Apache Cassandra nodes on this machine: fetched from Maven Central, configured, started
//! with or without a preload library and in a cgroup, asked and stopped. The laboratory and the
//! tests use them; nothing here is a substitute for the engine.

#![forbid(unsafe_code)]

mod configuration;
mod distribution;
mod error;
mod java;
mod node;
mod nodetool;
mod pauses;
mod version;

pub use configuration::{CommitLogSync, Settings, SstableFormat};
pub use distribution::Distribution;
pub use error::NodeError;
pub use node::{Launch, Node};
pub use nodetool::Nodetool;
pub use pauses::Pause;
pub use version::Version;
