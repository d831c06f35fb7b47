//! The same program with and without the library must see the same: bytes, results, positions,
//! numbers of descriptors and `errno`.
//!
//! `COLDSTREAM_SEED=n` repeats a program, `COLDSTREAM_OPERATIONS=n` and `COLDSTREAM_PROGRAMS=n`
//! set how long programs are and how many, `COLDSTREAM_SETTING=name` picks one of the settings
//! of `random_programs.rs`, `COLDSTREAM_LONG=1` runs many long programs, others each time.

mod subject;

/// Modules of this suite, in the folder of its name.
mod differential {
    pub mod cases;
    pub mod compare;
    pub mod probe;
    pub mod random_programs;
    pub mod stress;
    pub mod symbols;
    pub mod writer;
}

use differential::{cases, probe, stress, writer};

/// Not a test: what this executable does when another test has started it as a subject.
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
