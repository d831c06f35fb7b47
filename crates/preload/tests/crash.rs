//! After a kill or a power cut everything that was synced is there, and no byte is wrong.
//!
//! `COLDSTREAM_LONG=1`: hundreds of kills and cuts instead of a few.

mod subject;

/// Modules of this suite, in the folder of its name.
mod crash {
    pub mod tail;
    pub mod writer;
}

use coldstream_testkit::crash::{Stage, kills, power_cuts};
use coldstream_testkit::directories::Filesystem;
use coldstream_testkit::library::{Preload, WRITE_WAYS};
use coldstream_testkit::long;
use coldstream_testkit::process::Running;
use crash::{tail, writer};
use std::path::Path;

/// I/O mode of writes, and visibility.
type Way = (&'static str, &'static str);

fn start(stage: &Stage, work: &Path, way: Way) -> Running {
    subject::program("writer", work, &stage.journal()).start_with(&Preload::writing(way))
}

#[test]
fn what_was_synced_survives_a_kill() {
    let rounds = if long() { 200 } else { 8 };
    for filesystem in [
        Filesystem::Current,
        Filesystem::Ext4,
        Filesystem::Xfs,
        Filesystem::Btrfs,
    ] {
        kills(&Stage::new(), filesystem, rounds, &WRITE_WAYS, start);
    }
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    let cuts = if long() { 50 } else { 2 };
    // Plain writes too: what they show comes from the filesystem.
    let ways = [&[("buffered", "auto")][..], &WRITE_WAYS].concat();
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs] {
        power_cuts(&Stage::new(), filesystem, cuts, &ways, start);
    }
}

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
