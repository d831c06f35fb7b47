//! RocksDB, by a load driver in C++ over its C API.

mod arguments;
mod dataset;
mod driver;
mod experiment;
mod mode;

pub use arguments::RocksDbArgs;
pub use experiment::run;
