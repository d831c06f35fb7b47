//! How often the session looks.

use std::time::Duration;

/// Time between two looks. It bounds how much a compaction can bring in before the first drop.
pub const LOOK: Duration = Duration::from_millis(50);
/// Looks without an event after which nobody works on a file, or by a descriptor, any more: one second.
pub const REST_LOOKS: u64 = 20;
