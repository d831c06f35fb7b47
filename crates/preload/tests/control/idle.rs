//! A mechanism that is switched off releases everything at once, while its threads are idle.

use crate::subject::{self, name_thread, wait_for};
use coldstream_control::{Counter, Mechanism, Outcome};
use coldstream_host::process::descriptors;
use coldstream_testkit::directories;
use coldstream_testkit::files::{self, fill, first_difference};
use coldstream_testkit::library::Preload;
use coldstream_testkit::status_client::StatusClient;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

const TABLE: &str = "nb-1-big-Data.db";
/// The SSTable that begins with the second part.
const LATER_TABLE: &str = "nb-2-big-Data.db";
/// Smaller than a staging buffer, and not a multiple of a block.
const PART_BYTES: usize = 100_001;

/// The subject that writes three parts. It waits for a file before the second and the third.
pub fn write() {
    name_thread(c"CompactionExecu");
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
    let directory = directories::on_disk();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let mut running = subject::program(
        "writes and pauses",
        &work,
        &directory.path().join("journal"),
    )
    .start_with(&Preload::quiet().with("COLDSTREAM_WRITES", "direct"));
    let mut client = StatusClient::of(running.process_id());
    let size = || std::fs::metadata(work.join(TABLE)).unwrap().len();
    running.wait_until(|| work.join("wrote 0").exists());
    assert_eq!(size(), 0, "it is staged, else this test shows nothing");

    assert_eq!(client.off(&[Mechanism::Writes]), Outcome::Done);
    assert_eq!(size(), PART_BYTES as u64);
    assert_eq!(client.get(Counter::StagingEndedSwitchedOff), 1);
    assert_eq!(client.get(Counter::StagedFiles), 1);
    File::create_new(work.join("go on after 0")).unwrap();
    running.wait_until(|| work.join("wrote 1").exists());
    assert_eq!(size(), 2 * PART_BYTES as u64, "written plainly");
    let later = std::fs::metadata(work.join(LATER_TABLE)).unwrap();
    assert_eq!(later.len(), PART_BYTES as u64, "so is a new table");
    assert_eq!(client.get(Counter::StagedFiles), 1);

    // A file that has fallen back to plain writes stays there.
    assert_eq!(client.off(&[]), Outcome::Done);
    File::create_new(work.join("go on after 1")).unwrap();
    running.wait_until(|| work.join("wrote 2").exists());
    assert_eq!(size(), 3 * PART_BYTES as u64);
    File::create_new(work.join("go on after 2")).unwrap();
    running.end().well();
    let bytes = std::fs::read(work.join(TABLE)).unwrap();
    assert_eq!(first_difference(1, 0, &bytes), None);
}

/// The subject that reads a part of an SSTable, and waits for a file before it reads the rest.
pub fn read() {
    name_thread(c"CompactionExecu");
    let file = File::open(TABLE).unwrap();
    let mut bytes = vec![0; 4096];
    for offset in (0..TABLE_BYTES).step_by(bytes.len()) {
        if offset == TABLE_BYTES / 2 {
            // Present at once, and without a descriptor.
            std::fs::create_dir("read half").unwrap();
            wait_for("go on");
        }
        file.read_exact_at(&mut bytes, offset).unwrap();
        assert_eq!(first_difference(1, offset, &bytes), None);
    }
}

const TABLE_BYTES: u64 = 8 << 20;

#[test]
fn windows_and_descriptors_are_given_back_at_once() {
    let directory = directories::on_disk();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    files::create(&work.join(TABLE), 1, TABLE_BYTES);
    std::thread::sleep(files::REST);
    let mut running =
        subject::program("reads and pauses", &work, &directory.path().join("journal"))
            .start_with(&Preload::quiet().with("COLDSTREAM_READS", "direct"));
    let process = running.process_id();
    let mut client = StatusClient::of(process);
    running.wait_until(|| work.join("read half").exists());
    let before = descriptors(process);
    assert!(client.get(Counter::WindowMemoryBytes) > 0);
    let heap_bytes = 1..1 << 20;
    assert!(heap_bytes.contains(&client.get(Counter::HeapBytes)));
    assert!(client.get(Counter::HeapPeakBytes) >= client.get(Counter::HeapBytes));

    assert_eq!(client.off(&[Mechanism::Reads]), Outcome::Done);
    assert_eq!(client.get(Counter::WindowMemoryBytes), 0);
    assert_eq!(
        descriptors(process),
        before - 2,
        "a direct one and a plain one"
    );
    let direct = client.get(Counter::BytesDirect);
    File::create_new(work.join("go on")).unwrap();
    running.end().well();
    assert_eq!(client.get(Counter::BytesDirect), direct, "read plainly");
    assert!(client.get(Counter::FallbackSwitchedOff) > 0);
}

/// The subject that maps two SSTables and another file.
pub fn map() {
    for name in [TABLE, LATER_TABLE, NO_TABLE] {
        let file = File::open(name).unwrap();
        // SAFETY: a new mapping, which lives as long as the process.
        let mapped = unsafe {
            subject::calls::mmap(
                std::ptr::null_mut(),
                TABLE_BYTES as usize,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(mapped, libc::MAP_FAILED);
    }
    File::create_new("mapped").unwrap();
    wait_for("go on");
}

const NO_TABLE: &str = "nb-1-big-Index.db";

/// The mapped files of a process, each with whether the kernel reads ahead at page faults (`rr` in `VmFlags`
/// means it does not).
fn mappings(process: u32) -> Vec<(String, bool)> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps")).unwrap();
    let mut mappings: Vec<(String, bool)> = Vec::new();
    let mut file = None;
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let is_random = flags.split_whitespace().any(|flag| flag == "rr");
            mappings.extend(file.take().map(|name| (name, is_random)));
        } else if let Some((_, name)) = line.rsplit_once('/')
            && name.contains("-big-")
        {
            file = Some(name.to_owned());
        }
    }
    mappings.sort();
    mappings
}

#[test]
fn mappings_change_at_once() {
    let directory = directories::on_disk();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    for name in [TABLE, LATER_TABLE, NO_TABLE] {
        files::create(&work.join(name), 1, TABLE_BYTES);
    }
    let mut running = subject::program("maps and pauses", &work, &directory.path().join("journal"))
        .start_with(&Preload::quiet().with("COLDSTREAM_READAHEAD", "scans-and-mapped"));
    let mut client = StatusClient::of(running.process_id());
    running.wait_until(|| work.join("mapped").exists());
    let mapped = |is_random| {
        vec![
            (TABLE.to_owned(), is_random),
            (NO_TABLE.to_owned(), false),
            (LATER_TABLE.to_owned(), is_random),
        ]
    };
    let sorted = |mut mappings: Vec<(String, bool)>| {
        mappings.sort();
        mappings
    };
    assert_eq!(mappings(running.process_id()), sorted(mapped(true)));
    // The name is gone, the mapping is not.
    std::fs::remove_file(work.join(LATER_TABLE)).unwrap();
    let renamed = |is_random| {
        let mut mappings = mapped(is_random);
        mappings[2].0 += " (deleted)";
        sorted(mappings)
    };
    for is_on in [false, true] {
        let off: &[Mechanism] = if is_on { &[] } else { &[Mechanism::Readahead] };
        assert_eq!(client.off(off), Outcome::Done);
        assert_eq!(mappings(running.process_id()), renamed(is_on));
    }
    File::create_new(work.join("go on")).unwrap();
    running.end().well();
}
