//! Events: what the application does, and which mechanisms it reaches, in which order. A call of the
//! application that concerns more than one mechanism comes here.
//!
//! *Pacing* is `background`, which the guard of priorities shares.
//!
//! | event | its mechanisms, in this order |
//! |---|---|
//! | opened | descriptor map (what had the number), writes (the file's other descriptors), inodes, flushes (by a flush), writes (take in), descriptor map; for writing: thread, handover (an output); for reading: handover (Cassandra's), pacing |
//! | duplicated | inodes, descriptor map |
//! | closed | sending, writes (drain), background and flushes (a flush), handover, thread, descriptor map, inodes; the last descriptor: writes (fall back), windows |
//! | read by the foreground | writes (drain), readahead (the first read at an offset), thread and readahead (a scan), heat, pacing (its turn); the call; pacing (its time), heat |
//! | read in the background | as by the foreground, up to thread; pacing (wait); served: reads and handover (an input), thread, pacing, handover (a blob file); plain: readahead, the call, handover (a blob file), thread, pacing, eviction |
//! | read into several buffers at an offset | readahead (the first read at an offset), writes (drain), thread, heat (as an uncounted use); the call; pacing (in the background), thread and readahead (a scan) |
//! | written | a compaction's first write: writes (take in), handover (an output); staged: pacing (wait), writes, handover (a blob file), pacing; plain: the call, inodes, handover (a blob file), pacing |
//! | synced | writes (drain), the call, writes (errors), pacing |
//! | sent | sending or readahead |
//! | mapped | writes (drain), the call, inodes, readahead, handover |
//! | advised | reads, readahead |
//! | locked, numbers run out | windows, writes (fall back) |
//! | renamed | writes (drain) |
//! | deleted | the call; then of other SSTables that were closed unseen: as closed |
//! | thread named or made | priority |
//!
//! A program that links the engine has its own events (`linked.rs`). They use the same mechanisms in the same order.
//!
//! The steps of one event keep their order:
//!
//! - a private descriptor is closed before a record lock is taken;
//! - a file is drained before its flush is counted;
//! - the map forgets a number before the kernel does.

mod blob;
mod deleted;
mod descriptors;
mod flush;
mod linked;
mod pages;
mod read;
mod threads;
mod write;

pub use descriptors::{Taking, Visible};
pub use read::{Answer, Noted, Sample};
pub use threads::named_itself;
