//! The handover between SSTables of Cassandra, partition by partition.
//!
//! - [`transfer_to_finished`]: to a finished output.
//! - [`Growing::transfer_by_index`]: to a BIG output that is still being written.
//! - [`transfer_by_search`]: to a BTI output that is still being written. It has no index yet.

mod chunk_log;
mod chunks;
mod growing;
mod input;
mod locator;
mod merged;
mod output;
mod positions;
mod search;

pub use chunk_log::ChunkLog;
pub use growing::Growing;
pub use input::Input;
pub use output::{PartHeat, transfer_to_finished};
pub use search::transfer_by_search;
