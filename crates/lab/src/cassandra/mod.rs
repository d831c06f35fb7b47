//! Apache Cassandra: real nodes, real CQL.

mod arguments;
mod chooser;
mod conductor;
mod dataset;
mod experiment;
mod load;
mod mode;
mod tables;
mod values;

pub use arguments::CassandraArgs;
pub use experiment::run;
