//! The handover between SSTables of Cassandra, partition by partition.
//!
//! - [`transfer_to_finished`]: to a finished output.
//! - [`Growing::transfer_by_index`]: to a BIG output that is still being written.
//! - [`transfer_by_search`]: to a BTI output that is still being written. It has no index yet.

mod chunk_log;
mod growing;
mod input;
mod locator;
mod merged;
mod output;
mod search;

pub use chunk_log::ChunkLog;
pub use growing::Growing;
pub use input::Input;
pub use output::{PartHeat, transfer_to_finished};
pub use search::transfer_by_search;

/// Most chunks of a partition that the foreground reads as a whole. Larger ones it reads in parts.
const WHOLE_CHUNKS_MAX: u64 = 3;
/// The chunk length of data that is not compressed.
const PAGE_BYTES: u64 = 4096;
