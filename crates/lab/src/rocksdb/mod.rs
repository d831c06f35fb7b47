//! RocksDB. A load driver in C++ (`rocksdb-driver/`) drives any build of it by its C API.

mod arguments;
mod dataset;
mod driver;
mod engine;
mod mode;
mod parameters;

pub use engine::RocksDb;
