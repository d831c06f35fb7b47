//! Tables of Cassandra: from partitions to partitions, of an output that may still be growing.

mod chunk_log;
mod growing;
mod input;
mod merged;
mod output;
mod search;

pub use chunk_log::ChunkLog;
pub use growing::Growing;
pub use input::Input;
pub use output::{Carried, carry_finished};
pub use search::carry_found;

/// A partition of more chunks than this is read in parts.
const WHOLE_CHUNKS_MAX: u64 = 3;
/// Stands in for a chunk where the data is not compressed.
const PAGE_BYTES: u64 = 4096;
