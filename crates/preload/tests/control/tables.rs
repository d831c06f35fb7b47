//! The subject that runs until it is stopped. Background threads write SSTables like engines, and read them
//! back byte for byte. They see what they wrote, whatever is switched meanwhile.

use coldstream_testkit::files::{REST, fill, first_difference};
use std::ffi::CStr;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The file that stops it.
pub const STOP: &str = "stop";

const TABLE_BYTES: u64 = 2 << 20;

/// A way to write: thread name, prefix and suffix of the SSTable's name, lengths of the writes.
const WRITERS: [(&CStr, &str, &str, &[usize]); 3] = [
    (c"CompactionExecu", "nb-1", "-big-Data.db", &[4118, 4]),
    (c"rocksdb:low", "1", ".sst", &[1_046_000, 99_999, 999]),
    (c"rocksdb:bottom", "2", ".sst", &[300_001]),
];

pub fn run() {
    std::thread::scope(|scope| {
        for (identity, writer) in WRITERS.iter().enumerate() {
            scope.spawn(move || write_and_read(identity as u64, writer));
        }
    });
}

fn write_and_read(
    identity: u64,
    (thread, beginning, end, lengths): &(&CStr, &str, &str, &[usize]),
) {
    // SAFETY: a NUL-terminated text. By the symbol, so that the library sees it.
    unsafe { crate::subject::calls::prctl(libc::PR_SET_NAME, thread.as_ptr()) };
    let mut bytes = vec![0; 1 << 20];
    for round in 0_u64.. {
        if Path::new(STOP).exists() {
            return;
        }
        let content = identity << 32 | round;
        let name = format!("{beginning}{:05}{end}", round % 100_000);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&name)
            .unwrap();
        let mut written = 0;
        for length in lengths.iter().cycle() {
            if written >= TABLE_BYTES {
                break;
            }
            fill(content, written, &mut bytes[..*length]);
            file.write_all(&bytes[..*length]).unwrap();
            written += *length as u64;
            assert_eq!(file.stream_position().unwrap(), written, "{name}");
        }
        file.sync_data().unwrap();
        assert_eq!(file.metadata().unwrap().len(), written, "{name}");
        drop(file);
        std::thread::sleep(REST);
        let file = File::open(&name).unwrap();
        let mut read = 0;
        while read < written {
            let length = (32 << 10).min(written - read) as usize;
            file.read_exact_at(&mut bytes[..length], read).unwrap();
            let difference = first_difference(content, read, &bytes[..length]);
            assert_eq!(difference, None, "{name}");
            read += length as u64;
        }
        drop(file);
        std::fs::remove_file(&name).unwrap();
    }
}
