//! A power cut: the image of the disk is copied while writes are in flight, and the copy is mounted.
//!
//! The image is on a filesystem that shares blocks, so that the copy is that of one moment. It holds exactly
//! what the kernel had sent to the disk by then. The volatile cache of a disk is not modelled.

use crate::crash::stage::{Checked, Crash, Promised, Stage};
use crate::directories::{self, Filesystem};
use crate::process::Running;
use crate::random::Random;
use crate::{seed, skip};
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

const OUTER_BYTES: u64 = 6 << 30;
const INNER_BYTES: u64 = 400 << 20;

/// Cuts the power of a writer in each of its ways, on a filesystem, and checks what is on the disk then.
///
/// `start` starts one in a directory that the stage has prepared.
///
/// # Panics
/// A synced byte is wrong or missing, or another is neither right nor zero.
pub fn power_cuts<Way: Copy + Debug>(
    filesystem: Filesystem,
    cuts: u64,
    ways: &[Way],
    start: impl Fn(&Stage, &Path, Way) -> Running,
) {
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
    for (number, way) in ways.iter().enumerate() {
        let (mut checked, mut durable) = (Checked::default(), 0);
        // A directory of its own: files that were deleted recently may still be on the disk.
        let work = inner.path().join(format!("way-{number}"));
        stage.prepare(&work);
        let mut running = start(&stage, &work, *way);
        running.wait_until(|| stage.written() > 1 << 20);
        for cut in 0..cuts {
            std::thread::sleep(Duration::from_micros(random.below(120_000)));
            let before = stage.now();
            let copy = directories::after_power_cut(&inner, outer.path());
            let after = stage.now();
            // An SSTable that was created meanwhile may have any length.
            let at_most = after
                .into_iter()
                .filter(|it| before.iter().any(|other| other.is_of(it)))
                .collect();
            checked += stage
                .check(
                    &copy.path().join(work.file_name().unwrap()),
                    &before,
                    &at_most,
                    Crash::Power,
                )
                .unwrap_or_else(|wrong| panic!("{filesystem:?}, {way:?}, cut {cut}: {wrong}"));
            durable += before.iter().map(Promised::durable).sum::<u64>();
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
