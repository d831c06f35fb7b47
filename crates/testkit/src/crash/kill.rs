//! `kill -9` at any moment.

use crate::crash::stage::{Checked, Crash, Stage};
use crate::directories::{self, Filesystem};
use crate::process::Running;
use crate::random::Random;
use crate::seed;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

/// Kills a writer in each of its ways in turn, on a filesystem, and checks its files.
///
/// `start` starts one in a directory that the stage has prepared.
///
/// # Panics
/// A byte is wrong or missing.
pub fn kills<Way: Copy + Debug>(
    filesystem: Filesystem,
    rounds: u64,
    ways: &[Way],
    start: impl Fn(&Stage, &Path, Way) -> Running,
) {
    let Some(place) = directories::on(filesystem) else {
        return;
    };
    let stage = Stage::new();
    let mut random = Random::new(seed());
    let mut checked = Checked::default();
    for round in 0..rounds {
        let way = ways[(round % ways.len() as u64) as usize];
        let work = place.path().join("work");
        stage.prepare(&work);
        let mut running = start(&stage, &work, way);
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
