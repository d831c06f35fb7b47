//! Real Cassandra nodes under `coldstream run`. Every written row is read back with its value, whatever is
//! compacted, rewritten, streamed, killed or switched meanwhile.
//!
//! The short form runs 5.0.9. `COLDSTREAM_LONG=1` runs all versions, formats, layouts, kills and clusters,
//! for about an hour.

mod client;
mod cluster;
mod files;
mod handover;
mod kills;
mod locked_memory;
mod mapped;
mod operations;
mod pod;
mod program;
mod rows;
mod scene;
mod steady;
mod switches;
mod writers;
