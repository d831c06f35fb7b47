//! Sampled reads of the foreground are counted apart while compactions run and while they rest. A flush is a rest.

use crate::subject::{self, name_thread, wait_for};
use coldstream_control::{Phase, PhaseReads};
use coldstream_testkit::directories;
use coldstream_testkit::files::{self, REST, fill};
use coldstream_testkit::library::Preload;
use coldstream_testkit::status_client::StatusClient;
use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

const HOT: &str = "nb-1-big-Data.db";
const HOT_PATH: &CStr = c"nb-1-big-Data.db";
const INPUT: &str = "nb-2-big-Data.db";
const FLUSHED: &str = "nb-3-big-Data.db";
const FILE_BYTES: u64 = 8 << 20;
const READS: u64 = 1280;
/// Timed for statistics: one read in 64.
const SAMPLED: u64 = READS / 64;

/// The subject: reads of the page cache, reads of the device beside a flush, reads of the device beside a compaction.
/// It waits for a file after each.
pub fn run() {
    let hot = File::open(HOT).unwrap();
    // By reads at the position: these are no samples.
    std::fs::read(HOT).unwrap();
    read(&hot, |_| ());
    pause("cached");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            name_thread(c"MemtableFlushWr");
            flush();
        });
        read(&hot, |_| subject::raw::drop_clean_pages(HOT_PATH));
    });
    pause("flushed");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            name_thread(c"CompactionExecu");
            compact();
        });
        wait_for("compacting");
        read(&hot, |_| subject::raw::drop_clean_pages(HOT_PATH));
        File::create_new("enough").unwrap();
    });
    pause("compacted");
}

fn pause(stage: &str) {
    File::create_new(stage).unwrap();
    wait_for(&format!("after {stage}"));
}

fn read(hot: &File, before: impl Fn(u64)) {
    let mut bytes = vec![0; 4096];
    for number in 0..READS {
        before(number);
        let offset = (number * 7919) % (FILE_BYTES / 4096) * 4096;
        hot.read_exact_at(&mut bytes, offset).unwrap();
    }
}

fn flush() {
    let mut file = File::create_new(FLUSHED).unwrap();
    let mut bytes = vec![0; 64 << 10];
    for offset in (0..FILE_BYTES).step_by(bytes.len()) {
        fill(3, offset, &mut bytes);
        file.write_all(&bytes).unwrap();
    }
    file.sync_data().unwrap();
}

fn compact() {
    let input = File::open(INPUT).unwrap();
    let mut bytes = vec![0; 64 << 10];
    for round in 0.. {
        for offset in (0..FILE_BYTES).step_by(bytes.len()) {
            input.read_exact_at(&mut bytes, offset).unwrap();
            if Path::new("enough").exists() {
                return;
            }
        }
        if round == 0 {
            File::create_new("compacting").unwrap();
        }
    }
}

#[test]
fn reads_in_compaction_and_at_rest_are_told_apart() {
    let directory = directories::on_disk();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    files::create(&work.join(HOT), 1, FILE_BYTES);
    files::create(&work.join(INPUT), 2, FILE_BYTES);
    std::thread::sleep(REST);
    let preload = Preload::quiet().with("COLDSTREAM_FLUSH", "bypass");
    let journal = directory.path().join("journal");
    let mut running = subject::program("reads in phases", &work, &journal).start_with(&preload);
    let client = StatusClient::of(running.process_id());
    let mut of_stage = |stage: &str| {
        running.wait_until(|| work.join(stage).exists());
        let page = client.snapshot();
        File::create_new(work.join(format!("after {stage}"))).unwrap();
        Phase::ALL.map(|phase| page.phase_reads(phase).clone())
    };
    let none = PhaseReads::default();

    let [compaction, cached] = of_stage("cached");
    assert_eq!(compaction, none);
    // A read of the page cache may be interrupted: it looks as if it came from the device.
    assert!(
        (SAMPLED / 2..=SAMPLED).contains(&cached.sampled),
        "{cached:?}"
    );
    assert!(cached.missed * 2 < cached.sampled, "{cached:?}");

    let [compaction, at_rest] = of_stage("flushed");
    assert_eq!(compaction, none, "a flush is no compaction");
    let flushed = at_rest.since(&cached);
    // Nearly all reads come from the device, and those behind one are timed.
    assert!(flushed.device_reads() > READS / 2, "{flushed:?}");
    assert!(flushed.missed * 2 > SAMPLED, "{flushed:?}");

    let [compaction, still] = of_stage("compacted");
    assert_eq!(still, at_rest, "no read was at rest");
    assert!(compaction.device_reads() > READS / 2, "{compaction:?}");
    assert!(compaction.missed * 2 > SAMPLED, "{compaction:?}");
    running.end().well();
}
