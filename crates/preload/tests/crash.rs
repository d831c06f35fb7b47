//! After a kill or a power cut everything that was synced is there, and no byte is wrong.
//!
//! `COLDSTREAM_LONG=1`: hundreds of kills and cuts instead of a few.

mod subject;

/// Modules of this suite, in the folder of its name.
mod crash {
    pub mod checker;
    pub mod kill;
    pub mod power;
    pub mod tail;
    pub mod writer;
}

use crash::{tail, writer};

/// Not a test: the entry of a subject, when another test starts this executable again.
#[test]
#[ignore = "started by the other tests, in a process of its own"]
fn subject_entry() {
    match subject::role().as_deref() {
        Some("writer") => writer::run(),
        Some("tail") => tail::run(),
        Some(role) => panic!("no subject is called {role}"),
        None => {}
    }
}
