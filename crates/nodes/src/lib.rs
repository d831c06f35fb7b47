//! Real Apache Cassandra nodes on this machine, for the laboratory and the tests.
//!
//! A [`Distribution`] comes from Maven Central. A [`Node`] runs it with its own directory and configuration, with or
//! without a preload library, in a cgroup if wanted. [`Nodetool`] sends commands to it. Nothing here replaces the
//! engine.

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
