//! SSTables that are opened while they are being written. What opens them misses no staged byte.

use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::{directories, skip, tools};

/// What the program prints.
fn run(way: &str, preload: Option<&Preload>) -> String {
    let room = directories::on_disk();
    let program = tools::compile("early.c", room.path(), "early", &[]);
    let directory = directories::on_disk();
    let program = Program::new(&program)
        .argument(way)
        .argument(directory.path());
    program.run_either(preload).well().text()
}

/// Bytes wait in memory where direct writes are possible.
fn staged() -> Preload {
    Preload::writing(("direct", "process"))
}

/// The handover reads the part that was written so far: all of it must be in the kernel.
#[track_caller]
fn all_is_there_before_the_handover(way: &str) {
    let plain = run(way, None);
    assert_eq!(plain, "written: 100000 bytes\nopened early: 100000 bytes\n");
    let with = run(way, Some(&staged()));
    if with.starts_with("written: 100000") {
        return skip("no direct writes here");
    }
    assert!(with.ends_with("\nopened early: 100000 bytes\n"), "{with}");
    // Else each opening would drain the file, and this test would show nothing.
    let without = run(way, Some(&staged().with("COLDSTREAM_HANDOVER", "off")));
    assert!(!without.ends_with("early: 100000 bytes\n"), "{without}");
}

#[test]
fn an_early_part_is_drained_before_its_handover() {
    all_is_there_before_the_handover("opened");
}

#[test]
fn an_early_part_is_drained_before_its_index_is_mapped() {
    all_is_there_before_the_handover("mapped");
}

/// The library does not see what such a descriptor reads. So the SSTable falls back.
#[test]
fn a_descriptor_that_cannot_be_tracked_sees_every_byte() {
    let plain = run("untracked", None);
    assert_eq!(plain, "read 100000\nread 200000\nthe same\n");
    assert_eq!(plain, run("untracked", Some(&staged())));
}
