//! Real Apache Cassandra nodes on this machine, for the laboratory and the tests.
//!
//! A [`Distribution`] comes from Maven Central. A [`Node`] runs it with its own directory and configuration, with or
//! without a preload library, in a cgroup if wanted. [`Nodetool`] sends commands to it. Nothing here replaces the
//! engine.
//!
//! ```no_run
//! use coldstream_nodes::{Distribution, Launch, Node, Settings, Version};
//! use std::path::Path;
//!
//! # fn main() -> Result<(), coldstream_nodes::NodeError> {
//! let cache = Distribution::default_cache();
//! let release = Distribution::obtain(Version::V5_0, &cache, &mut |line| eprintln!("{line}"))?;
//! let directory = Path::new("/var/tmp/node");
//! let address = "127.0.0.1";
//! let settings = Settings::default();
//! let mut node = Node::start(&release, &settings, directory, address, address, &Launch::default())?;
//! println!("{}", node.nodetool().run(&["status"])?);
//! node.stop()?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod cache;
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
pub use java::java_home;
pub use node::{Launch, Node};
pub use nodetool::Nodetool;
pub use pauses::Pause;
pub use version::Version;
