//! Coldstream from outside: for processes that cannot be preloaded.
//!
//! It sees which thread brings which page into the page cache, drops what compactions brought in, and leaves all
//! else. Its promises:
//!
//! - nothing in the process is changed: no descriptor is shared with it, no advice is given to it. So there is
//!   nothing to give back, however it ends. Only [`priorities`] change something, where they are asked for;
//! - a page is dropped only if a compaction brought it in after the start, and no other thread has read it since;
//! - where it is unknown whether a compaction reads or a user scans, the pages stay;
//! - where events were lost, nothing of what was under way is dropped.

#![forbid(unsafe_code)]

mod assembler;
mod attached;
mod bits;
mod catalogue;
mod dropping;
mod due_outputs;
mod event;
mod file_state;
mod held_inputs;
mod idle;
mod large_reads;
mod look;
mod lost_events;
mod model;
mod origin;
pub mod priorities;
pub mod privileges;
mod programs;
pub mod session;
mod status;
pub mod tracer;
mod trails;
mod usual_readahead;
mod warming;

pub use attached::Attached;
pub use origin::Recognition;
