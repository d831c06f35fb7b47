//! What engines have in common that a load driver drives: a program of this project with the engine in
//! it. That of RocksDB and LevelDB is in `driver/`, Pebble's in `pebble-driver/`.
//!
//! Each takes its parameters as one JSON document, and writes each measurement to standard output.

pub mod arguments;
pub mod case;
pub mod dataset;
pub mod driver;
pub mod engine;
pub mod load_process;
pub mod parameters;
