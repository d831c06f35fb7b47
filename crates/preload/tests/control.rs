//! Switching a running process, and the priorities of its threads: on real programs, by the status
//! page, as `coldstream ctl` does it.

mod subject;

/// Modules of this suite, in the folder of its name.
mod control {
    pub mod database;
    pub mod idle;
    pub mod pacing;
    pub mod pages;
    pub mod priorities;
    pub mod tables;
}

use control::{idle, pacing, priorities, tables};

/// Not a test: what this executable does when another test has started it as a subject.
#[test]
#[ignore = "started by the other tests, in a process of its own"]
fn subject_entry() {
    match subject::role().as_deref() {
        Some("tables") => tables::run(),
        Some("writes and pauses") => idle::write(),
        Some("reads and pauses") => idle::read(),
        Some("maps and pauses") => idle::map(),
        Some("compacts and reads") => pacing::run(),
        Some("makes a thread") => priorities::run(),
        Some(role) => panic!("no subject is called {role}"),
        None => {}
    }
}
