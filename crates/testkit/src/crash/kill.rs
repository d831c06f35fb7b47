//! `kill -9` at any moment.

use crate::crash::{Checked, Crash, Record};
use crate::directories::{self, Filesystem};
use crate::process::Running;
use crate::random::Random;
use crate::seed;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

/// Kills a writer in each of its ways in turn, on a filesystem, and checks its files.
///
/// `start` starts one in a directory that the record has prepared.
///
/// # Panics
/// A byte is wrong or missing.
pub fn kills<R: Record, Way: Copy + Debug>(
    record: &R,
    filesystem: Filesystem,
    rounds: u64,
    ways: &[Way],
    start: impl Fn(&R, &Path, Way) -> Running,
) {
    let Some(place) = directories::on(filesystem) else {
        return;
    };
    let mut random = Random::new(seed());
    let mut checked = Checked::default();
    for round in 0..rounds {
        let way = ways[(round % ways.len() as u64) as usize];
        let work = place.path().join("work");
        record.prepare(&work);
        let mut running = start(record, &work, way);
        // Kill only after something was written.
        running.wait_until(|| record.has_begun());
        std::thread::sleep(Duration::from_micros(random.below(150_000)));
        running.kill();
        let promises = record.now();
        checked += record
            .check(&work, &promises, &promises, Crash::Kill)
            .unwrap_or_else(|wrong| panic!("{filesystem:?}, {way:?}, kill {round}: {wrong}"));
    }
    println!(
        "{filesystem:?}: {rounds} kills, {} MiB compared",
        checked.bytes >> 20
    );
    assert!(checked.bytes > 0);
}
