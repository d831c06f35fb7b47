//! Switches mechanisms of running processes, and priorities of their threads. Requests go through the status
//! page, like those of `coldstream ctl`.

mod subject;

/// Modules of this suite, in the folder of its name.
mod control {
    pub mod database;
    pub mod heat;
    pub mod idle;
    pub mod pacing;
    pub mod pages;
    pub mod phases;
    pub mod priorities;
    pub mod put_off;
    pub mod tables;
}

use control::{heat, idle, pacing, phases, priorities, put_off, tables};

/// Not a test: the entry of a subject, when another test starts this executable again.
#[test]
#[ignore = "started by the other tests, in a process of its own"]
fn subject_entry() {
    match subject::role().as_deref() {
        Some("tables") => tables::run(),
        Some("writes and pauses") => idle::write(),
        Some("reads and pauses") => idle::read(),
        Some("maps and pauses") => idle::map(),
        Some("reads far apart") => heat::run(),
        Some("compacts and reads") => pacing::run(),
        Some("reads in phases") => phases::run(),
        Some("makes a thread") => priorities::run(),
        Some("saturates") => priorities::run_saturated(),
        Some("publishes") => put_off::run(),
        Some(role) => panic!("no subject is called {role}"),
        None => {}
    }
}
