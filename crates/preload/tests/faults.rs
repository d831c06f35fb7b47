//! Faults in the library's own calls. The application sees the same as without the library. Every fault is
//! injected from outside, into calls that only the library makes.

mod subject;

/// Modules of this suite, in the folder of its name.
mod faults {
    pub mod denied;
    pub mod device;
    pub mod scans;
    pub mod traced;
    pub mod traced_writes;
    pub mod writes;
}

use faults::{device, scans, writes};

use crate::subject::journal::Journal;
use coldstream_testkit::directories;
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Ended;
use std::sync::OnceLock;

/// Not a test: the entry of a subject, when another test starts this executable again.
#[test]
#[ignore = "started by the other tests, in a process of its own"]
fn subject_entry() {
    match subject::role().as_deref() {
        Some("scans") => scans::run(scans::Limits::None),
        Some("scans with few descriptors") => scans::run(scans::Limits::Descriptors),
        Some("scans with little address space") => scans::run(scans::Limits::AddressSpace),
        Some("writes") => writes::run(writes::Obstacle::None),
        Some("writes with limited files") => writes::run(writes::Obstacle::FileSize),
        Some("writes on a full disk") => writes::run(writes::Obstacle::FullDisk),
        Some("writes, then forks and exits") => writes::fork_and_exit(),
        Some("writes, then truncates by name") => writes::truncate_by_name(),
        Some("writes, then locks a record") => writes::lock_after_an_error(),
        Some("damaged") => device::run(),
        Some(role) => panic!("no subject is called {role}"),
        None => {}
    }
}

/// The results of the scans without the library.
fn expected() -> &'static [String] {
    static LINES: OnceLock<Vec<String>> = OnceLock::new();
    LINES.get_or_init(|| {
        let (lines, ended) = scan("scans", |program| program.run().well());
        assert_eq!(lines.last().map(String::as_str), Some("end"), "{ended:?}");
        lines
    })
}

/// Runs scans in a directory of their own. Returns their results, and how they ended.
fn scan(
    role: &str,
    run: impl FnOnce(&coldstream_testkit::process::Program) -> Ended,
) -> (Vec<String>, Ended) {
    let directory = directories::on_disk();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let journal = directory.path().join("journal");
    let ended = run(&subject::program(role, &work, &journal));
    (Journal::read(&journal), ended)
}

/// Fails if the results of the scans under this launcher differ from those without the library.
#[track_caller]
fn check(what: &str, role: &str, launcher: &[String], preload: &Preload) {
    let expected = expected();
    let (lines, ended) = scan(role, |program| program.run_under(launcher, preload));
    let place =
        (0..expected.len().max(lines.len())).find(|&line| expected.get(line) != lines.get(line));
    if let Some(place) = place {
        panic!(
            "{what}, line {place}\nwithout: {:?}\nwith:    {:?}\n{ended:?}",
            expected.get(place),
            lines.get(place)
        );
    }
    assert!(ended.status.success(), "{what}: {ended:?}");
}
