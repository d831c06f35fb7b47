//! `libcoldstream.so`: what `LD_PRELOAD` brings into an unmodified database.
//!
//! Interposed calls track which descriptors are tables; a background thread's reads of
//! them are served around the page cache. Everything else goes on to the next symbol in line.
//! The rules (ARCHITECTURE.md, Invariants) in one breath: never a made-up result, never a lock or an
//! allocation on the foreground's path, never a byte into the application's output, never an
//! abort; on any doubt the plain call.

#![deny(unsafe_op_in_unsafe_fn)]
// The interposed symbols are left out of the unit tests' executable, which would interpose on
// itself; what only they use is then unused.
#![cfg_attr(test, allow(dead_code, unused_imports))]

mod control_thread;
mod core;
mod events;
mod eviction;
#[cfg(not(test))]
mod exports;
mod handover;
mod heat;
mod pacing;
mod priority;
mod readahead;
mod reads;
mod report;
mod runtime;
mod sending;
mod settings;
mod thread;
mod writes;
