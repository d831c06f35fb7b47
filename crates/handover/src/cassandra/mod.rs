//! Tables of Cassandra: from partitions to partitions, of an output that may still be growing.

mod chunk_log;
mod input;
mod output;

pub use chunk_log::ChunkLog;
pub use input::Input;
pub use output::{Carried, Growing, carry_finished};

/// A partition of more chunks than this is read in parts.
const WHOLE_CHUNKS_MAX: u64 = 3;
/// Stands in for a chunk where the data is not compressed.
const PAGE_BYTES: u64 = 4096;
