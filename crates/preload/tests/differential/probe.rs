//! The first background read decides the I/O mode for the life of the process. The decision must not depend
//! on what the foreground does to the file at that moment.

use crate::subject::{self, calls, raw};
use coldstream_testkit::directories::{self, Filesystem};
use coldstream_testkit::files::{self, REST};
use coldstream_testkit::library::Preload;
use coldstream_testkit::random::Random;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TABLE: &std::ffi::CStr = c"000001.sst";
const SIZE_BYTES: u64 = 4 << 20;

/// The subject. The foreground reads scattered pages, which are dropped again, while a background thread
/// makes its first reads.
pub fn run() {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let over = &over;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut bytes = [0_u8; 4096];
                let file = std::fs::File::open("000001.sst").unwrap();
                // SAFETY: no memory is passed; then a page of room.
                unsafe { calls::posix_fadvise64(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
                while !over.load(Ordering::Relaxed) {
                    let offset = random.below(SIZE_BYTES / 4096) * 4096;
                    // SAFETY: as above.
                    unsafe {
                        calls::pread64(
                            file.as_raw_fd(),
                            bytes.as_mut_ptr().cast(),
                            4096,
                            offset as i64,
                        )
                    };
                    if random.once_in(100) {
                        raw::drop_clean_pages(TABLE);
                    }
                }
            });
        }
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            let mut bytes = [0_u8; 4096];
            // SAFETY: NUL-terminated strings; a page of room.
            unsafe {
                calls::prctl(libc::PR_SET_NAME, c"rocksdb:low".as_ptr());
                let file = calls::open64(TABLE.as_ptr(), libc::O_RDONLY, 0);
                for offset in (0..1 << 20).step_by(4096) {
                    calls::pread64(file, bytes.as_mut_ptr().cast(), 4096, offset);
                }
            }
            over.store(true, Ordering::Relaxed);
        });
    });
}

fn busy(filesystem: Filesystem) {
    let Some(place) = directories::on(filesystem) else {
        return;
    };
    let records = directories::on_disk();
    let (journal, log) = (records.path().join("journal"), records.path().join("log"));
    files::create(&place.path().join("000001.sst"), 1, SIZE_BYTES);
    std::thread::sleep(REST);
    const RUNS: usize = 20;
    for _ in 0..RUNS {
        subject::program("busy", place.path(), &journal)
            .run_with(&Preload::logging_to(&log))
            .well();
    }
    let text = std::fs::read_to_string(&log).unwrap();
    let direct = text
        .lines()
        .filter(|line| line.contains("event=reads io_mode=direct"))
        .count();
    assert_eq!(
        direct, RUNS,
        "the others gave direct reads up for good:\n{text}"
    );
}

#[test]
fn a_busy_file_is_read_directly_all_the_same() {
    busy(Filesystem::Ext4);
}

#[test]
fn a_busy_file_is_read_directly_all_the_same_on_xfs() {
    busy(Filesystem::Xfs);
}
