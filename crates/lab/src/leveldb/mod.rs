//! LevelDB. The load driver in C++ (`driver/`) drives any build of it by its C API. LevelDB reads its
//! SSTables by `mmap`, as Cassandra before 5.0 and RocksDB with `allow_mmap_reads` do.

mod arguments;
mod engine;
mod mode;

/// LevelDB, driven by the load driver.
pub type LevelDb = crate::driven::engine::Driven<engine::LevelDbKind>;
