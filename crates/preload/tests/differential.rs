//! A program sees the same with and without the library: bytes, results, positions, descriptor numbers and
//! `errno`.
//!
//! `COLDSTREAM_SEED=n` repeats a program. `COLDSTREAM_OPERATIONS=n` and `COLDSTREAM_PROGRAMS=n` set the
//! length and the number of programs. `COLDSTREAM_SETTING=name` selects a setting of `random_programs.rs`.
//! `COLDSTREAM_LONG=1` runs many long programs, new ones each time.

mod subject;

/// Modules of this suite, in the folder of its name.
mod differential {
    pub mod cases;
    pub mod compare;
    pub mod memory;
    pub mod probe;
    pub mod random_programs;
    pub mod stress;
    pub mod symbols;
    pub mod writer;
}

use differential::{cases, probe, stress, writer};

/// Not a test: the entry of a subject, when another test starts this executable again.
#[test]
#[ignore = "started by the other tests, in a process of its own"]
fn subject_entry() {
    match subject::role().as_deref() {
        Some("script") => subject::run_script(),
        Some("busy") => probe::run(),
        Some("stress") => stress::run(),
        Some("writer") => writer::run(false),
        Some("writer by mapping") => writer::run(true),
        Some(role) => match role.strip_prefix("case ") {
            Some(case) => cases::run(case),
            None => panic!("no subject is called {role}"),
        },
        None => {}
    }
}
