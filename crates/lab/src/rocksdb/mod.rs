//! RocksDB. A load driver in C++ (`driver/`) drives any build of it by its C API. For published
//! measurements db_bench can take its place.

mod arguments;
mod db_bench;
mod engine;
mod load_program;
mod mode;
mod parameters;
mod preset;
mod recipe;
mod workload;

pub use engine::RocksDb;
