//! A device with unreadable blocks. Readable bytes are correct, and the application gets everything that the
//! kernel can read.

use crate::subject::journal::Journal;
use crate::subject::{self, calls, raw};
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::files::{self, REST};
use coldstream_testkit::library::Preload;
use coldstream_testkit::process::Program;
use coldstream_testkit::skip;
use std::collections::BTreeSet;

const TABLE: &std::ffi::CStr = c"000001.sst";
const CHUNK_BYTES: usize = 4096;

/// Reads every chunk three times, and records which are readable.
pub fn run() {
    let mut journal = subject::own_journal();
    // SAFETY: NUL-terminated strings.
    let file = unsafe {
        calls::prctl(libc::PR_SET_NAME, c"rocksdb:low".as_ptr());
        calls::open64(TABLE.as_ptr(), libc::O_RDONLY, 0)
    };
    let size_bytes = raw::size_bytes(file);
    let mut bytes = vec![0; CHUNK_BYTES];
    for round in 0..3 {
        raw::drop_pages(TABLE);
        std::thread::sleep(REST);
        for offset in (0..size_bytes).step_by(CHUNK_BYTES) {
            // SAFETY: the buffer has room for a chunk.
            let read = unsafe {
                calls::pread64(file, bytes.as_mut_ptr().cast(), CHUNK_BYTES, offset as i64)
            };
            let error = std::io::Error::last_os_error().raw_os_error();
            if read == CHUNK_BYTES as isize {
                let wrong = files::first_difference(5, offset, &bytes);
                assert_eq!(wrong, None, "round {round}, read at {offset}");
                journal.line(&format!("read {round} {offset}"));
            } else {
                assert_eq!(
                    (read, error),
                    (-1, Some(libc::EIO)),
                    "round {round}, {offset}"
                );
            }
        }
    }
    journal.line("end");
}

fn make_loop_direct(mount_point: &std::path::Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mount_point = mount_point.to_str().unwrap();
    mounts.lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        fields.get(1) == Some(&mount_point)
            && Program::new("losetup")
                .arguments(["--direct-io=on", fields[0]])
                .run()
                .status
                .success()
    })
}

#[test]
fn what_a_failing_device_can_read_is_read() {
    let Some(place) = directories::on(Filesystem::Ext4) else {
        return;
    };
    let Some(image) = place.image() else { return };
    let work = place.path().join("work");
    std::fs::create_dir(&work).unwrap();
    files::create(&work.join("000001.sst"), 5, 48 << 20);
    // A loop device with buffered reads reports a read across the end of its file as done, without the bytes
    // (`lo_complete_rq`, drivers/block/loop.c). With direct I/O the read fails.
    if !make_loop_direct(place.path()) {
        skip("the loop device cannot read its file directly");
        return;
    }
    let records = directories::on_disk();
    let journal = records.path().join("journal");
    let run = |preload: Option<&Preload>| -> BTreeSet<String> {
        let _ = std::fs::remove_file(&journal);
        let program = subject::program("damaged", &work, &journal);
        program.run_either(preload).well();
        Journal::read(&journal).into_iter().collect()
    };
    let all = run(None).len();
    // The device has no blocks behind this offset.
    let image_bytes = std::fs::metadata(&image).unwrap().len();
    let damaged = std::fs::File::options().write(true).open(&image).unwrap();
    let mut cut = image_bytes;
    let plain = loop {
        cut = cut * 3 / 4;
        damaged.set_len(cut).unwrap();
        let plain = run(None);
        if plain.len() < all {
            break plain;
        }
        assert!(cut > 1 << 20, "no block of the table is anywhere");
    };
    println!("{} of {all} reads of a damaged device succeed", plain.len());
    for reads in ["direct", "drop-behind", "dontcache"] {
        let preload = Preload::quiet().with("COLDSTREAM_READS", reads);
        let with = run(Some(&preload));
        let missing: Vec<_> = plain.difference(&with).take(5).collect();
        assert!(missing.is_empty(), "reads = {reads}: not read: {missing:?}");
    }
    // Then the filesystem can be unmounted without errors.
    damaged.set_len(image_bytes).unwrap();
}
