//! `kill -9` at any moment.

use crate::crash::checker::{Checked, Crash, Stage};
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::library::{Preload, WRITE_WAYS};
use coldstream_testkit::random::Random;
use coldstream_testkit::{long, seed};
use std::time::Duration;

fn killed_on(filesystem: Filesystem, rounds: u64) {
    let Some(place) = directories::on(filesystem) else {
        return;
    };
    let stage = Stage::new();
    let mut random = Random::new(seed());
    let mut checked = Checked::default();
    for round in 0..rounds {
        let way = WRITE_WAYS[(round % WRITE_WAYS.len() as u64) as usize];
        let work = place.path().join("work");
        let program = stage.writer(&work);
        let mut running = program.start_with(&Preload::writing(way));
        // Kill only after something was written.
        running.wait_until(|| stage.written() > 1 << 20);
        std::thread::sleep(Duration::from_micros(random.below(150_000)));
        running.kill();
        let promises = stage.now();
        checked += stage
            .check(&work, &promises, &promises, Crash::Kill)
            .unwrap_or_else(|wrong| panic!("{filesystem:?}, {way:?}, kill {round}: {wrong}"));
    }
    println!(
        "{filesystem:?}: {rounds} kills, {} MiB compared",
        checked.bytes >> 20
    );
    assert!(checked.bytes > 0);
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
        killed_on(filesystem, rounds);
    }
}
