//! Apache Cassandra: real nodes, and requests in CQL.

mod arguments;
mod backlog;
mod chooser;
mod client;
mod engine;
mod load;
mod mode;
mod phase_sequence;
mod preset;
mod recipe;
mod run_state;
mod schema;
mod sstables;
mod template;
mod values;
mod workload;

pub use engine::Cassandra;
