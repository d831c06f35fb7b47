//! Switching a running process, and the priorities of its threads: on real programs, by the status
//! page, as `coldstream ctl` does it.

#[path = "../subject/mod.rs"]
mod subject;
#[path = "../support/mod.rs"]
mod support;

mod asker;
mod database;
mod idle;
mod pacing;
mod pages;
mod priorities;
mod tables;

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
