//! RocksDB. A load driver in C++ (`rocksdb-driver/`) drives any build of it by its C API.

mod arguments;
mod case;
mod dataset;
mod driver;
mod engine;
mod mode;
mod parameters;
mod preset;
mod recipe;
mod workload;

pub use engine::RocksDb;
