//! After a kill or a power cut of a linked program everything that was synced is there, and no byte is wrong.
//!
//! `COLDSTREAM_LONG=1`: hundreds of kills and cuts instead of a few.

mod common;

use coldstream_testkit::crash::{Stage, kills, power_cuts};
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::long;
use coldstream_testkit::process::Running;
use common::{Linked, compiled, program};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Options of the engine, one way to write each.
const WAYS: [&str; 4] = [
    "writes=direct;visible=process;staging-bytes=256KiB",
    "writes=direct;visible=everywhere;staging-bytes=256KiB",
    "writes=drop-behind;staging-bytes=256KiB",
    "writes=dontcache;staging-bytes=256KiB",
];

fn writer() -> (TempDir, PathBuf) {
    let directory = directories::on_disk();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/writer.c");
    let writer = compiled(&source, directory.path(), Linked::Archive);
    (directory, writer)
}

fn start(writer: &Path) -> impl Fn(&Stage, &Path, &str) -> Running {
    |_, work, options| program(writer).argument(options).within(work).start()
}

#[test]
fn what_was_synced_survives_a_kill() {
    let (_directory, writer) = writer();
    let rounds = if long() { 200 } else { 4 };
    for filesystem in [Filesystem::Current, Filesystem::Ext4, Filesystem::Xfs] {
        kills(&Stage::new(), filesystem, rounds, &WAYS, start(&writer));
    }
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    let (_directory, writer) = writer();
    let cuts = if long() { 50 } else { 2 };
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs] {
        power_cuts(&Stage::new(), filesystem, cuts, &WAYS, start(&writer));
    }
}
