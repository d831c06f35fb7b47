//! A power cut: the image of the disk is copied while writes are in flight, and the copy is mounted.
//!
//! The image is on a filesystem that shares blocks, so that the copy is that of one moment. It holds exactly
//! what the kernel had sent to the disk by then. The volatile cache of a disk is not modelled.

use crate::crash::{Checked, Crash, Record};
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
/// `start` starts one in a directory that the record has prepared.
///
/// # Panics
/// A synced byte is wrong or missing, or another is neither right nor zero.
pub fn power_cuts<R: Record, Way: Copy + Debug>(
    record: &R,
    filesystem: Filesystem,
    cuts: u64,
    ways: &[Way],
    start: impl Fn(&R, &Path, Way) -> Running,
) {
    let current = directories::on_disk();
    let Some(outer) = directories::on_image_within(Filesystem::Xfs, current.path(), OUTER_BYTES)
    else {
        return;
    };
    let Some(inner) = directories::on_image_within(filesystem, outer.path(), INNER_BYTES) else {
        return;
    };
    let mut random = Random::new(seed());
    for (number, way) in ways.iter().enumerate() {
        let (mut checked, mut durable) = (Checked::default(), 0);
        // A directory of its own: files that were deleted recently may still be on the disk.
        let work = inner.path().join(format!("way-{number}"));
        record.prepare(&work);
        let mut running = start(record, &work, *way);
        running.wait_until(|| record.has_begun());
        for cut in 0..cuts {
            std::thread::sleep(Duration::from_micros(random.below(120_000)));
            let before = record.now();
            let copy = directories::after_power_cut(&inner, outer.path());
            let after = record.now();
            let left = copy.path().join(work.file_name().unwrap());
            checked += record
                .check(&left, &before, &after, Crash::Power)
                .unwrap_or_else(|wrong| panic!("{filesystem:?}, {way:?}, cut {cut}: {wrong}"));
            durable += record.durable(&before);
        }
        running.kill();
        println!(
            "{filesystem:?}, {way:?}: {cuts} power cuts, {} MiB compared, {} MiB had been synced, \
             zeros behind what was synced in {} files",
            checked.bytes >> 20,
            durable >> 20,
            checked.files_with_zeros
        );
        if durable == 0 {
            skip("nothing was synced before any cut");
        }
    }
}
