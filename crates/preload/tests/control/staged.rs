//! What is staged when writes are switched off is written at once, though its thread does nothing.

use crate::asker::Asker;
use crate::subject;
use crate::support::files::{fill, first_difference};
use crate::support::library::Preload;
use crate::support::places;
use coldstream_control::{Counter, Mechanism, Outcome};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Duration;

const TABLE: &str = "nb-1-big-Data.db";
/// A table that is begun with the second part.
const LATER_TABLE: &str = "nb-2-big-Data.db";
/// Less than a staging buffer, and no whole number of blocks.
const PART_BYTES: usize = 100_001;

fn wait_for(name: &str) {
    while !Path::new(name).exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The subject: writes a part, and another when it is told to, and a third.
pub fn run() {
    // SAFETY: a NUL-terminated text.
    unsafe { subject::calls::prctl(libc::PR_SET_NAME, c"CompactionExecu".as_ptr()) };
    let mut file = File::create_new(TABLE).unwrap();
    let mut later = None;
    let mut bytes = vec![0; PART_BYTES];
    for part in 0..3 {
        fill(1, (part * PART_BYTES) as u64, &mut bytes);
        file.write_all(&bytes).unwrap();
        assert_eq!(
            file.stream_position().unwrap(),
            ((part + 1) * PART_BYTES) as u64
        );
        if part == 1 {
            let table = later.insert(File::create_new(LATER_TABLE).unwrap());
            table.write_all(&bytes).unwrap();
        }
        File::create_new(format!("wrote {part}")).unwrap();
        wait_for(&format!("go on after {part}"));
    }
    file.sync_data().unwrap();
}

#[test]
fn what_is_staged_is_written_at_once() {
    let directory = places::on_disk();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let mut running = subject::program("pauses", &work, &directory.path().join("journal"))
        .start_with(&Preload::quiet().with("COLDSTREAM_WRITES", "direct"));
    let mut asker = Asker::of(running.process_id());
    let size = || std::fs::metadata(work.join(TABLE)).unwrap().len();
    running.wait_until(|| work.join("wrote 0").exists());
    assert_eq!(size(), 0, "it is staged, else this test shows nothing");

    assert_eq!(asker.off(&[Mechanism::Writes]), Outcome::Done);
    assert_eq!(size(), PART_BYTES as u64);
    assert_eq!(asker.get(Counter::DemotedSwitchedOff), 1);
    File::create_new(work.join("go on after 0")).unwrap();
    running.wait_until(|| work.join("wrote 1").exists());
    assert_eq!(size(), 2 * PART_BYTES as u64, "written plainly");
    let later = std::fs::metadata(work.join(LATER_TABLE)).unwrap();
    assert_eq!(later.len(), PART_BYTES as u64, "so is a new table");

    // A table that was given up stays with the kernel.
    assert_eq!(asker.off(&[]), Outcome::Done);
    File::create_new(work.join("go on after 1")).unwrap();
    running.wait_until(|| work.join("wrote 2").exists());
    assert_eq!(size(), 3 * PART_BYTES as u64);
    File::create_new(work.join("go on after 2")).unwrap();
    running.end().well();
    let bytes = std::fs::read(work.join(TABLE)).unwrap();
    assert_eq!(first_difference(1, 0, &bytes), None);
}
