//! The handover warms a new SSTable before the application reads from it. It warms the pages of the keys
//! that were hot in the inputs.
//!
//! It runs in the background thread that wrote the SSTable, inside the last call before the publication:
//!
//! - RocksDB and LevelDB: the writer's `close`, also of a blob file;
//! - Cassandra 5.0 and 6.0: the `open` by which the compaction opens the file for reading, also for early
//!   parts;
//! - Cassandra 4.1: the `mmap` of the new part of the index. 4.1 opens a file once, and reads all further
//!   parts by the same descriptor.
//!
//! In any doubt there is no handover. A wrong one does no harm: it reads pages that no reader needs.

mod blobs;
mod budget;
mod cassandra;
mod deadlines;
mod deleted_heat;
mod explicit;
mod frugality;
mod lineage;
mod mapped;
mod means;
mod mechanism;
mod moments;
mod pages_left;
mod recall;
mod recording;
mod refused;
mod remainder;
mod rocksdb;
mod spending;
mod sstable_file;
mod transfer;
mod warming_time;

pub use explicit::{Inputs, Mapped, Way};
pub use means::Means;
pub use mechanism::{Handover, TookPlace};
pub use transfer::{Bounds, Done};
