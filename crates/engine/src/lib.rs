//! All mechanisms of one process: what the preload library and the C interface have in common.
//!
//! Nothing here interposes a call, looks a symbol up, or runs before `main`. The face above tells the
//! [`Runtime`](runtime::Runtime) what happens to tracked files ([`events`]), and makes the plain calls.
//!
//! The rules (docs/design/invariants.md): never a made-up result; no lock and no allocation on the foreground's
//! path; no byte into the application's output; no abort. On any doubt the plain call is made.
//!
//! Modules import only those below them. From the top: `events`, `runtime`; then the mechanisms;
//! then `thread`, `core` and `settings`.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]
#![deny(unsafe_op_in_unsafe_fn)]
// Unit tests have no face above.
#![cfg_attr(test, allow(dead_code, unused_imports))]

pub mod background;
mod control_thread;
pub mod core;
pub mod events;
pub mod eviction;
pub mod handover;
pub mod heat;
pub mod mapped;
pub mod priority;
mod readahead;
pub mod reads;
pub mod report;
pub mod runtime;
pub mod sending;
pub mod settings;
pub mod thread;
pub mod writes;
