//! Real Cassandra nodes under `coldstream run`: every row that was written is read back with its
//! value, whatever was compacted, rewritten, streamed, killed or switched meanwhile.
//!
//! Short: 5.0.9. `COLDSTREAM_LONG=1`: all versions, formats, layouts, kills and clusters (about an hour).

mod client;
mod cluster;
mod files;
mod handover;
mod kills;
mod operations;
mod program;
mod rows;
mod scene;
mod steady;
mod switches;
mod writers;
