//! A table is followed while it is written: by a thread of the writing process, by calls that the
//! library sees, and by another process, which it cannot know of.

use crate::preload;
use crate::subject::{self, calls, machine, raw};
use crate::support::files::{fill, first_difference};
use crate::support::{long, places};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

const TABLES: [(&CStr, &CStr, &[usize]); 2] = [
    (c"nb-1-big-Data.db", c"CompactionExecu", &[4118, 4]),
    (c"000001.sst", c"rocksdb:low", &[1_046_500, 20_001, 70_000]),
];
const TABLE_BYTES: u64 = 24 << 20;
/// So much later, at most, another process sees what only the writing process must see at once: two
/// staging buffers, of which one is being written.
const LATE_BYTES_MAX: u64 = 512 << 10;

/// What `write` has returned for, by table; the end is announced by `u64::MAX`.
#[repr(C)]
struct Shared {
    written: [AtomicU64; TABLES.len()],
}

fn shared(path: &CStr) -> &'static Shared {
    let descriptor = raw::open(path, libc::O_RDWR | libc::O_CREAT);
    raw::truncate(descriptor, 4096);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let address = raw::map(4096, access, descriptor, 0).expect("shared page");
    raw::close(descriptor);
    // SAFETY: a shared mapping that stays, of a type of which zeros are valid.
    unsafe { &*address.cast::<Shared>() }
}

/// The writing process: two writers, and a follower of each.
pub fn run() {
    machine::set_limits();
    let mut journal = subject::own_journal();
    let shared = shared(c"shared");
    std::thread::scope(|scope| {
        for (number, table) in TABLES.iter().enumerate() {
            let written = &shared.written[number];
            scope.spawn(move || write(number as u64, *table, written));
        }
        let followers: Vec<_> = TABLES
            .iter()
            .enumerate()
            .map(|(number, (path, ..))| {
                let written = &shared.written[number];
                scope.spawn(move || follow(number as u64, path, written, 0, Calls::Seen))
            })
            .collect();
        for follower in followers {
            journal.line(&follower.join().unwrap());
        }
    });
    journal.line("end");
}

fn write(identity: u64, (path, name, lengths): (&CStr, &CStr, &[usize]), written: &AtomicU64) {
    // SAFETY: NUL-terminated texts; the buffer is readable for its length.
    unsafe {
        calls::prctl(libc::PR_SET_NAME, name.as_ptr());
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let descriptor = calls::open64(path.as_ptr(), flags, 0o644);
        assert!(descriptor >= 0);
        let mut end = 0;
        let mut bytes = Vec::new();
        for number in 0.. {
            bytes.resize(lengths[number % lengths.len()], 0);
            fill(identity, end, &mut bytes);
            let length = bytes.len();
            assert_eq!(
                calls::write(descriptor, bytes.as_ptr().cast(), length),
                length as isize
            );
            end += length as u64;
            written.store(end, Ordering::SeqCst);
            if end >= TABLE_BYTES {
                break;
            }
        }
        assert_eq!(calls::close(descriptor), 0);
    }
    written.store(u64::MAX, Ordering::SeqCst);
}

/// By which calls a follower looks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// By those that the library interposes.
    Seen,
    /// By the kernel's own, in a process without the library.
    Plain,
}

/// Follows a table to its end; a violation is a line of its own.
fn follow(identity: u64, path: &CStr, written: &AtomicU64, late: u64, by: Calls) -> String {
    let (mut looks, mut mapped) = (0_u64, 0_u64);
    let mut descriptor = -1;
    let mut bytes = vec![0; 300_000];
    let mut checked = 0;
    loop {
        // What was promised comes first; the look after it must show at least that.
        let promised = written.load(Ordering::SeqCst);
        if descriptor < 0 {
            descriptor = open(path, by);
            if descriptor < 0 {
                continue;
            }
        }
        let size = size(descriptor, by);
        if promised != u64::MAX && size + late < promised {
            return format!("violation: {path:?} has {size} bytes, {promised} were written");
        }
        let start = checked.max(size.saturating_sub(bytes.len() as u64));
        let length = (size - start.min(size)).min(bytes.len() as u64) as usize;
        let read = read(descriptor, &mut bytes[..length], start, by);
        if read < length as i64 {
            return format!(
                "violation: {path:?} has {size} bytes, and {read} of {length} at {start}"
            );
        }
        if let Some(place) = first_difference(identity, start, &bytes[..length]) {
            return format!("violation: {path:?} has a wrong byte at {place} of {size}");
        }
        checked = start + length as u64;
        if looks % 16 == 7 && length > 0 {
            mapped += 1;
            let page = start & !4095;
            let whole = (start - page) as usize + length;
            if let Some(place) = look_through_mapping(identity, descriptor, page, whole, by) {
                return format!("violation: {path:?} is mapped with a wrong byte at {place}");
            }
        }
        // Sometimes from the beginning, by another descriptor.
        if looks % 64 == 40 {
            close(descriptor, by);
            descriptor = -1;
            checked /= 2;
        }
        looks += 1;
        if promised == u64::MAX {
            return format!(
                "{path:?}: followed to {size}{}",
                if mapped > 0 { ", mapped" } else { "" }
            );
        }
        std::thread::yield_now();
    }
}

fn open(path: &CStr, by: Calls) -> i32 {
    match by {
        // SAFETY: NUL-terminated.
        Calls::Seen => unsafe { calls::open64(path.as_ptr(), libc::O_RDONLY, 0) },
        Calls::Plain => raw::open(path, libc::O_RDONLY),
    }
}

fn close(descriptor: i32, by: Calls) {
    match by {
        // SAFETY: no memory is passed.
        Calls::Seen => unsafe { calls::close(descriptor) },
        Calls::Plain => raw::close(descriptor),
    };
}

fn size(descriptor: i32, by: Calls) -> u64 {
    match by {
        Calls::Seen => {
            let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
            // SAFETY: one structure is written.
            unsafe {
                assert_eq!(calls::fstat64(descriptor, status.as_mut_ptr()), 0);
                status.assume_init().st_size as u64
            }
        }
        Calls::Plain => raw::size_bytes(descriptor),
    }
}

fn read(descriptor: i32, bytes: &mut [u8], offset: u64, by: Calls) -> i64 {
    let (memory, length) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the buffer is writable for its length.
    unsafe {
        match by {
            Calls::Seen => calls::pread64(descriptor, memory, length, offset as i64) as i64,
            Calls::Plain => libc::syscall(libc::SYS_pread64, descriptor, memory, length, offset),
        }
    }
}

fn look_through_mapping(
    identity: u64,
    descriptor: i32,
    offset: u64,
    length: usize,
    by: Calls,
) -> Option<u64> {
    let address = match by {
        // SAFETY: a new mapping.
        Calls::Seen => unsafe {
            calls::mmap64(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                descriptor,
                offset as i64,
            )
            .cast()
        },
        Calls::Plain => raw::map(length, libc::PROT_READ, descriptor, offset)?,
    };
    // SAFETY: mapped for that length, all of it within the file.
    let bytes = unsafe { std::slice::from_raw_parts(address, length) };
    let found = first_difference(identity, offset, bytes);
    // SAFETY: nobody uses it any more.
    unsafe { libc::munmap(address.cast(), length) };
    found
}

/// Runs the writing process, and follows it from this one.
fn followed(way: (&str, &str)) {
    let directory = places::on_disk();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let path = |name: &CStr| {
        std::ffi::CString::new(work.join(name.to_str().unwrap()).to_str().unwrap()).unwrap()
    };
    let shared = shared(&path(c"shared"));
    let journal = directory.path().join("journal");
    let program = subject::program("tail", &work, &journal);
    let late = if way == ("direct", "process") {
        LATE_BYTES_MAX
    } else {
        0
    };
    std::thread::scope(|scope| {
        let followers: Vec<_> = TABLES
            .iter()
            .enumerate()
            .map(|(number, (name, ..))| {
                let (path, written) = (path(name), &shared.written[number]);
                scope.spawn(move || follow(number as u64, &path, written, late, Calls::Plain))
            })
            .collect();
        let ended = program.run_with(&preload(way)).well();
        // Whatever became of the writer, the followers end.
        for written in &shared.written {
            written.store(u64::MAX, Ordering::SeqCst);
        }
        let seen = subject::journal::Journal::read(&journal);
        let said = followers
            .into_iter()
            .map(|follower| follower.join().unwrap())
            .chain(seen);
        for line in said {
            assert!(!line.starts_with("violation"), "{way:?}: {line}\n{ended:?}");
        }
    });
}

#[test]
fn whoever_follows_a_table_sees_what_was_written() {
    for _ in 0..if long() { 20 } else { 1 } {
        for way in crate::WAYS {
            followed(way);
        }
    }
}
