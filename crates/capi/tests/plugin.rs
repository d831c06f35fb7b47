//! After a kill or a power cut of RocksDB with the plugin, its database has every write that was synced, and opens
//! without the plugin too.
//!
//! `COLDSTREAM_LONG=1`: hundreds of kills and cuts instead of a few.

use coldstream_testkit::crash::{Database, kills, power_cuts};
use coldstream_testkit::directories::Filesystem;
use coldstream_testkit::process::Running;
use coldstream_testkit::{long, plugin};
use std::path::Path;

/// What stands behind `coldstream://`.
const WAYS: [&str; 4] = [
    "reads=direct;writes=direct",
    "reads=direct;writes=direct;flush=bypass",
    "reads=drop-behind;writes=drop-behind;flush=bypass",
    "writes=direct;visible=everywhere",
];

fn start(database: &Database, work: &Path, options: &str) -> Running {
    database.writer(options).within(work).start()
}

#[test]
fn a_database_survives_kills() {
    let Some(program) = plugin::made("crash_database") else {
        return;
    };
    let rounds = if long() { 200 } else { 4 };
    for filesystem in [Filesystem::Current, Filesystem::Ext4, Filesystem::Xfs] {
        kills(&Database::new(&program), filesystem, rounds, &WAYS, start);
    }
}

#[test]
fn a_database_survives_power_cuts() {
    let Some(program) = plugin::made("crash_database") else {
        return;
    };
    let cuts = if long() { 50 } else { 2 };
    // RocksDB alone shows what a power cut does without the plugin.
    let ways = [&["-"], &WAYS[..]].concat();
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs] {
        power_cuts(&Database::new(&program), filesystem, cuts, &ways, start);
    }
}
