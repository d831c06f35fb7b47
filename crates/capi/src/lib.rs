//! The C interface: the engine of the preload library, linked into a program. `include/coldstream.h` is made of these
//! declarations, and docs/c-interface.md explains them.
//!
//! Each function is thin. It checks its arguments, tells the engine what happens, and makes the plain calls. There is no
//! second implementation of any mechanism here.
//!
//! Nothing unwinds into C ([`guard`]), and no allocation ends the process.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_camel_case_types, reason = "names of the C interface")]

mod absent;
mod context;
mod counters;
mod descriptor;
mod file;
mod guard;
mod handover;
mod heat;
mod pacing;
mod types;
mod version;
mod writer;
