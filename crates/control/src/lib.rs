//! The status page: what a process under Coldstream tells the outside.
//!
//! One page of 64-bit words in shared memory. The preload library writes it,
//! `coldstream ctl` and the laboratory read it; `coldstream ctl` also asks by it. This crate knows the layout
//! and the name only: it maps nothing, makes no system call but to ask for the namespace of process ids
//! ([`PidNamespace::own`]), and what the library calls
//! on the paths of the database ([`PageView::add`], [`PageView::set`],
//! [`PageView::get`]) neither allocates nor panics.

#![forbid(unsafe_code)]

mod counter;
mod location;
mod owner;
mod page;
mod snapshot;
mod summary;
mod switch;

pub use counter::{Counter, CounterGroup, CounterKind, Unit};
pub use location::{
    DIRECTORY_MODE, FILE_MODE, PageName, PidNamespace, directory_path, page_path, pid_of_file_name,
};
pub use owner::{start_time_ticks, stat_field};
pub use page::{Header, PAGE_BYTES, PAGE_WORDS, PageError, PageView};
pub use snapshot::Snapshot;
pub use switch::{Answer, Mechanism, Mechanisms, Outcome, Request, Switches};
