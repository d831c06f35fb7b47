//! A power cut: the image of the disk is copied while writes are in flight, and the copy is mounted.
//!
//! The image is on a filesystem that shares blocks, so that the copy is that of one moment. It holds exactly
//! what the kernel had sent to the disk by then. The volatile cache of a disk is not modelled.

use crate::crash::checker::{Checked, Crash, Stage};
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::library::{Preload, WRITE_WAYS};
use coldstream_testkit::random::Random;
use coldstream_testkit::{long, seed, skip};
use std::time::Duration;

const OUTER_BYTES: u64 = 6 << 30;
const INNER_BYTES: u64 = 400 << 20;

fn cut_on(filesystem: Filesystem, cuts: u64) {
    let current = directories::on_disk();
    let Some(outer) = directories::on_image_within(Filesystem::Xfs, current.path(), OUTER_BYTES)
    else {
        return;
    };
    let Some(inner) = directories::on_image_within(filesystem, outer.path(), INNER_BYTES) else {
        return;
    };
    let stage = Stage::new();
    let mut random = Random::new(seed());
    // Plain writes too: what they show comes from the filesystem.
    let ways = [("buffered", "auto")].into_iter().chain(WRITE_WAYS);
    for way in ways {
        let (mut checked, mut durable) = (Checked::default(), 0);
        // A directory of its own: files that were deleted recently may still be on the disk.
        let work = inner.path().join(format!("{}-{}", way.0, way.1));
        let program = stage.writer(&work);
        let mut running = program.start_with(&Preload::writing(way));
        running.wait_until(|| stage.written() > 1 << 20);
        for cut in 0..cuts {
            std::thread::sleep(Duration::from_micros(random.below(120_000)));
            let before = stage.now();
            let copy = directories::after_power_cut(&inner, outer.path());
            let after = stage.now();
            // An SSTable that was created meanwhile may have any length.
            let at_most = after
                .into_iter()
                .filter(|(thread, number, ..)| {
                    before.iter().any(|(t, n, ..)| (t, n) == (thread, number))
                })
                .collect();
            checked += stage
                .check(
                    &copy.path().join(work.file_name().unwrap()),
                    &before,
                    &at_most,
                    Crash::Power,
                )
                .unwrap_or_else(|wrong| panic!("{filesystem:?}, {way:?}, cut {cut}: {wrong}"));
            durable += before.iter().map(|(.., durable, _)| durable).sum::<u64>();
        }
        running.kill();
        println!(
            "{filesystem:?}, {way:?}: {cuts} power cuts, {} MiB compared, {} MiB had been synced, \
             zeros behind what was synced in {} tables",
            checked.bytes >> 20,
            durable >> 20,
            checked.tables_with_zeros
        );
        if durable == 0 {
            skip("nothing was synced before any cut");
        }
    }
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    let cuts = if long() { 50 } else { 2 };
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs] {
        cut_on(filesystem, cuts);
    }
}
