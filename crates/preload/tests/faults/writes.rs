//! The subject that writes. Background threads append to SSTables like engines, and check every promise
//! themselves. What a write or a sync promised is in the file, or an error was reported.

use crate::subject::{self, calls, raw};
use coldstream_testkit::files::{fill, first_difference};
use std::ffi::CStr;

/// The obstacle beside injected faults.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    None,
    /// No file may be larger than this.
    FileSize,
    /// The disk is nearly full.
    FullDisk,
}

/// The greatest length of a file.
const TABLE_BYTES: u64 = 5 << 20;
const FILE_SIZE_MAX: u64 = (3 << 20) + 1000;
const LEFT_ON_DISK_BYTES: u64 = 4 << 20;

/// A way to write: thread name, SSTable, lengths of the writes.
const WRITERS: [(&CStr, &CStr, &[usize]); 3] = [
    (c"CompactionExecu", c"nb-1-big-Data.db", &[4118, 4]),
    (c"rocksdb:low", c"000001.sst", &[1_046_000, 1_048_576, 999]),
    (c"rocksdb:bottom", c"000002.sst", &[300_001]),
];

pub fn run(obstacle: Obstacle) {
    let mut journal = subject::own_journal();
    match obstacle {
        Obstacle::None => {}
        Obstacle::FileSize => limit_file_size(),
        Obstacle::FullDisk => fill_disk(),
    }
    let lines: Vec<Vec<String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = WRITERS
            .iter()
            .enumerate()
            .map(|(identity, writer)| scope.spawn(move || write_table(identity as u64, *writer)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for line in lines.into_iter().flatten() {
        journal.line(&line);
    }
    journal.line("end");
}

/// Length of an SSTable whose staging buffer of 256 KiB has just been submitted.
pub const IN_FLIGHT_BYTES: u64 = 9 * (64 << 10);

/// Creates an SSTable and stops while its second staging buffer is being written. Its number is the identity
/// of its content.
fn write_until_in_flight(name: &CStr, number: u64) -> i32 {
    let mut bytes = vec![0; 64 << 10];
    // SAFETY: NUL-terminated texts; the buffer is readable for its length.
    unsafe {
        calls::prctl(libc::PR_SET_NAME, c"CompactionExecu".as_ptr());
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let file = calls::open64(name.as_ptr(), flags, 0o644);
        for start in (0..IN_FLIGHT_BYTES).step_by(bytes.len()) {
            fill(number, start, &mut bytes);
            let written = calls::write(file, bytes.as_ptr().cast(), bytes.len());
            assert_eq!(written, bytes.len() as isize);
        }
        file
    }
}

/// Checks that the kernel has exactly the bytes of such an SSTable.
pub fn is_complete(name: &CStr, number: u64) -> bool {
    let file = raw::open(name, libc::O_RDONLY);
    let mut bytes = vec![0; IN_FLIGHT_BYTES as usize + 1];
    let size = raw::read_all(file, &mut bytes);
    raw::close(file);
    size as u64 == IN_FLIGHT_BYTES && first_difference(number, 0, &bytes[..size]).is_none()
}

/// Forks and exits with a write in flight. The child writes its own SSTable.
pub fn fork_and_exit() {
    let mut journal = subject::own_journal();
    write_until_in_flight(c"nb-1-big-Data.db", 1);
    // SAFETY: the child makes system calls, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let seen = is_complete(c"nb-1-big-Data.db", 1);
            let own = write_until_in_flight(c"nb-2-big-Data.db", 2);
            let closed = calls::close(own) == 0 && is_complete(c"nb-2-big-Data.db", 2);
            libc::_exit(i32::from(!(seen && closed)));
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        if status != 0 {
            journal.line(&format!("violation: status {status:x} of the child"));
        }
        write_until_in_flight(c"nb-3-big-Data.db", 3);
        journal.line("end");
        libc::_exit(0);
    }
}

/// Truncates an SSTable by name while it is written, and continues to write. Records what is seen.
pub fn truncate_by_name() {
    let mut journal = subject::own_journal();
    let name = c"nb-1-big-Data.db";
    let bytes = vec![1; 64 << 10];
    let mut look = |when: &str| {
        let file = raw::open(name, libc::O_RDONLY);
        let mut found = vec![1; 2 << 20];
        let size = raw::read_all(file, &mut found);
        raw::close(file);
        let written = found[..size].iter().filter(|byte| **byte != 0).count();
        journal.line(&format!("{when}: {size} bytes, {written} not zero"));
    };
    let file = write_until_in_flight(name, 1);
    // SAFETY: a NUL-terminated text; the buffer is readable for its length.
    unsafe {
        let other = calls::open64(name.as_ptr(), libc::O_WRONLY | libc::O_TRUNC, 0);
        look("truncated");
        let written = calls::write(file, bytes.as_ptr().cast(), bytes.len());
        assert_eq!(written, bytes.len() as isize);
        look("written on");
        assert_eq!((calls::close(other), calls::close(file)), (0, 0));
        look("closed");
    }
    journal.line("end");
}

/// Locks an SSTable after the writeback of an earlier part has failed. The lock must stay when staging ends.
pub fn lock_after_an_error() {
    let mut journal = subject::own_journal();
    let name = c"nb-1-big-Data.db";
    let bytes = vec![1_u8; 64 << 10];
    // SAFETY: NUL-terminated texts; the buffers are as long as the calls say; one structure is read or written.
    unsafe {
        calls::prctl(libc::PR_SET_NAME, c"CompactionExecu".as_ptr());
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let file = calls::open64(name.as_ptr(), flags, 0o644);
        let other = calls::open64(name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0);
        let write = |length: usize| {
            let written = calls::write(file, bytes.as_ptr().cast(), length);
            assert_eq!(written, length as isize);
        };
        // A reader wants its last bytes: they go through the page cache, and must be on the device before those behind.
        write(5000);
        let mut last = 0_u8;
        assert_eq!(calls::pread64(other, (&raw mut last).cast(), 1, 4999), 1);
        (0..12).for_each(|_| write(bytes.len()));
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        let locked = calls::fcntl(file, libc::F_SETLK, (&raw mut lock).addr() as i64);
        let synced = calls::fsync(file);
        journal.line(&format!("lock {locked}, sync {synced}"));
        // This ends the staging at the latest.
        assert_eq!(calls::pwrite64(file, bytes.as_ptr().cast(), 1, 0), 1);
        let mut wish: libc::flock = std::mem::zeroed();
        wish.l_type = libc::F_WRLCK as i16;
        let asked = libc::fcntl(other, libc::F_OFD_GETLK, &raw mut wish);
        if locked != 0 || asked != 0 || wish.l_type != libc::F_WRLCK as i16 {
            journal.line("violation: the record lock is gone");
        }
    }
    journal.line("end");
}

fn limit_file_size() {
    let limit = libc::rlimit {
        rlim_cur: FILE_SIZE_MAX,
        rlim_max: FILE_SIZE_MAX,
    };
    // SAFETY: one structure is read; the signal is ignored.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

/// Fills the disk with one file, and leaves little free. The space of deleted files may become free later.
fn fill_disk() {
    let file = raw::open(c"ballast", libc::O_WRONLY | libc::O_CREAT);
    let (mut taken, mut is_full) = (0, false);
    'filling: for _ in 0..100 {
        let mut status = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: one structure is written, then read; no other memory is passed.
        unsafe {
            libc::syncfs(file);
            assert_eq!(libc::statvfs(c".".as_ptr(), status.as_mut_ptr()), 0);
            let status = status.assume_init();
            let free = status.f_bfree * status.f_frsize;
            if taken > 0 && free <= LEFT_ON_DISK_BYTES {
                if is_full {
                    break;
                }
                // XFS frees the space of deleted files a little later.
                std::thread::sleep(std::time::Duration::from_millis(100));
                is_full = true;
                continue;
            }
            is_full = false;
            let mut more = free.saturating_sub(LEFT_ON_DISK_BYTES).max(4096);
            // Free space may be unusable, in one piece or at all.
            while libc::fallocate(file, 0, taken as i64, more as i64) != 0 {
                more /= 2;
                if more < LEFT_ON_DISK_BYTES / 4 {
                    break 'filling;
                }
            }
            taken += more;
        }
    }
    raw::close(file);
}

/// The results that a writer got, and the content that it found.
struct Writer {
    identity: u64,
    name: &'static CStr,
    /// Bytes that `write` accepted.
    accepted_bytes: u64,
    /// Errors that were reported.
    errors: Vec<i32>,
    lines: Vec<String>,
}

impl Writer {
    fn errno(&mut self) -> i32 {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        self.errors.push(errno);
        errno
    }

    /// The file must hold what was promised: all accepted bytes, or a correct prefix after a reported error.
    fn hold_to_its_word(&mut self, when: &str) {
        let file = raw::open(self.name, libc::O_RDONLY);
        let mut bytes = vec![0; TABLE_BYTES as usize + (4 << 20)];
        let size = raw::read_all(file, &mut bytes) as u64;
        raw::close(file);
        if let Some(place) = first_difference(self.identity, 0, &bytes[..size as usize]) {
            self.violation(&format!("{when}: a wrong byte at {place} of {size}"));
        }
        if size > self.accepted_bytes {
            self.violation(&format!("{when}: {size} bytes of {}", self.accepted_bytes));
        }
        if size < self.accepted_bytes && self.errors.is_empty() {
            self.violation(&format!(
                "{when}: {size} bytes of {}, no error",
                self.accepted_bytes
            ));
        }
    }

    fn violation(&mut self, text: &str) {
        self.lines
            .push(format!("violation: {:?} {text}", self.name));
    }
}

fn write_table(
    identity: u64,
    (thread, name, lengths): (&CStr, &'static CStr, &[usize]),
) -> Vec<String> {
    // SAFETY: NUL-terminated texts.
    let file = unsafe {
        calls::prctl(libc::PR_SET_NAME, thread.as_ptr());
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        calls::open64(name.as_ptr(), flags, 0o644)
    };
    let mut writer = Writer {
        identity,
        name,
        accepted_bytes: 0,
        errors: Vec::new(),
        lines: Vec::new(),
    };
    if file < 0 {
        return vec![format!("{name:?} cannot be made")];
    }
    let mut bytes = Vec::new();
    let mut number = 0;
    while writer.accepted_bytes < TABLE_BYTES && writer.errors.len() < 8 {
        bytes.resize(lengths[number % lengths.len()], 0);
        number += 1;
        fill(identity, writer.accepted_bytes, &mut bytes);
        // SAFETY: the buffer is readable for its length.
        let written = unsafe { calls::write(file, bytes.as_ptr().cast(), bytes.len()) };
        if written < 0 {
            writer.errno();
            continue;
        }
        writer.accepted_bytes += written as u64;
        // SAFETY: no memory is passed.
        let position = unsafe { calls::lseek64(file, 0, libc::SEEK_CUR) };
        if position >= 0 && position as u64 != writer.accepted_bytes {
            let text = format!("position {position} after {} bytes", writer.accepted_bytes);
            writer.violation(&text);
        }
        if number % 400 == 3 {
            let before = writer.errors.len();
            // SAFETY: no memory is passed.
            if unsafe { calls::fdatasync(file) } < 0 {
                writer.errno();
            }
            // After a successful sync everything is in the file.
            let reported = std::mem::take(&mut writer.errors);
            if reported.len() > before {
                writer.errors = reported;
            } else {
                writer.hold_to_its_word("after fdatasync");
                writer.errors = reported;
            }
        }
    }
    let before = writer.errors.len();
    // SAFETY: no memory is passed.
    unsafe {
        if calls::fsync(file) < 0 {
            writer.errno();
        }
        if calls::close(file) < 0 {
            writer.errno();
        }
    }
    let reported = std::mem::take(&mut writer.errors);
    if reported.len() > before {
        writer.errors.clone_from(&reported);
    }
    writer.hold_to_its_word("at the end");
    writer.lines.push(format!(
        "{name:?}: {} bytes, errors {reported:?}",
        writer.accepted_bytes
    ));
    writer.lines
}
