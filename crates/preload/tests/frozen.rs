//! A filesystem that is frozen while an SSTable is written. Calls that need nothing of the device return.

use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{skip, tools};

/// Runs the program on this filesystem, with the library if there is a `preload`. `None` if it was skipped.
fn run(filesystem: Filesystem, preload: Option<&Preload>) -> Option<String> {
    let place = directories::on(filesystem)?;
    let room = directories::on_disk();
    let program = tools::compile("frozen.c", room.path(), "frozen", &[]);
    let ended = Program::new(program)
        .argument(place.path().join("000001.sst"))
        .run_either(preload);
    if ended.status.code() == Some(77) {
        skip(format!("cannot be frozen: {ended:?}"));
        return None;
    }
    Some(ended.well().text())
}

#[track_caller]
fn nobody_waits_on(filesystem: Filesystem) {
    let Some(plain) = run(filesystem, None) else {
        return;
    };
    assert!(plain.contains("still frozen"), "{plain}");
    for way in [("direct", "process"), ("drop-behind", "auto")] {
        let with = run(filesystem, Some(&Preload::writing(way))).unwrap();
        assert_eq!(plain, with, "{way:?}");
    }
}

#[test]
fn nobody_waits_for_a_frozen_ext4_but_its_writer() {
    nobody_waits_on(Filesystem::Ext4);
}

#[test]
fn nobody_waits_for_a_frozen_xfs_but_its_writer() {
    nobody_waits_on(Filesystem::Xfs);
}
