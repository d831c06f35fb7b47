//! `libcoldstream.so`: what `LD_PRELOAD` brings into an unmodified database.
//!
//! Interposed calls track which descriptors are SSTables. A background thread's reads and writes of them go
//! around the page cache. Everything else goes on to the next symbol in line.
//!
//! The rules (docs/design/invariants.md): never a made-up result; no lock and no allocation on the foreground's
//! path; no byte into the application's output; no abort. On any doubt the plain call is made.
//!
//! This crate has the exported symbols only. All else is `coldstream_engine`'s.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]
#![deny(unsafe_op_in_unsafe_fn)]
// The interposed symbols are left out of the unit tests' executable, which would interpose on itself. What
// only they use is then unused.
#![cfg_attr(test, allow(dead_code, unused_imports))]

#[cfg(not(test))]
mod exports;
