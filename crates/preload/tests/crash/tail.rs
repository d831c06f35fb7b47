//! Two readers follow an SSTable while it is written. One is a thread of the writing process, whose calls the
//! library sees. The other is a process that the library does not know.

use crate::subject::{self, calls, machine, raw};
use coldstream_testkit::files::{fill, first_difference};
use coldstream_testkit::library::{Preload, WRITE_WAYS};
use coldstream_testkit::{directories, long};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

const TABLES: [(&CStr, &CStr, &[usize]); 2] = [
    (c"nb-1-big-Data.db", c"CompactionExecu", &[4118, 4]),
    (c"000001.sst", c"rocksdb:low", &[1_046_500, 20_001, 70_000]),
];
const TABLE_BYTES: u64 = 24 << 20;
/// The most bytes by which another process may lag, where only the writing process must see bytes at once.
/// Two staging buffers, of which one is being written.
const LATE_BYTES_MAX: u64 = 512 << 10;

#[repr(C)]
struct Shared {
    tables: [Progress; TABLES.len()],
}

/// The state that a writer shares with its two readers. `u64::MAX` marks the end of one.
#[repr(C)]
struct Progress {
    /// Bytes for which `write` has returned.
    written: AtomicU64,
    /// Number of looks of each reader while the SSTable was written, looks through a mapping included.
    looked: [AtomicU64; 2],
}

/// Announces an end when dropped, also in a panic. Others would wait for ever.
struct End<'a>(&'a AtomicU64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, Ordering::SeqCst);
    }
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

/// The writing process: two writers, each with a reader.
pub fn run() {
    machine::set_limits();
    let mut journal = subject::own_journal();
    let shared = shared(c"shared");
    std::thread::scope(|scope| {
        for (number, table) in TABLES.iter().enumerate() {
            let progress = &shared.tables[number];
            scope.spawn(move || write(number as u64, *table, progress));
        }
        let followers: Vec<_> = TABLES
            .iter()
            .enumerate()
            .map(|(number, (path, ..))| {
                let progress = &shared.tables[number];
                scope.spawn(move || follow(number as u64, path, progress, 0, Calls::Seen))
            })
            .collect();
        for follower in followers {
            journal.line(&follower.join().unwrap());
        }
    });
    journal.line("end");
}

fn write(identity: u64, (path, name, lengths): (&CStr, &CStr, &[usize]), progress: &Progress) {
    let _end = End(&progress.written);
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
            let before = progress.written.swap(end, Ordering::SeqCst);
            if before < TABLE_BYTES / 2 && end >= TABLE_BYTES / 2 {
                wait_for_followers(progress);
            }
            if end >= TABLE_BYTES {
                break;
            }
        }
        assert_eq!(calls::close(descriptor), 0);
    }
}

/// An SSTable that was complete before the first look would show nothing.
fn wait_for_followers(progress: &Progress) {
    let still_to_look = |looked: &AtomicU64| looked.load(Ordering::SeqCst) == 0;
    while progress.looked.iter().any(still_to_look) {
        std::thread::yield_now();
    }
}

/// The calls that a reader makes; its index in [`Progress::looked`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// Calls that the library interposes.
    Seen,
    /// System calls, in a process without the library.
    Plain,
}

/// Follows an SSTable to its end. Each violation is a line.
fn follow(identity: u64, path: &CStr, progress: &Progress, late: u64, by: Calls) -> String {
    let looked = &progress.looked[by as usize];
    let _end = End(looked);
    let mut looks = 0_u64;
    let mut descriptor = -1;
    let mut bytes = vec![0; 300_000];
    let mut checked = 0;
    loop {
        // Read the promise first. The look after it must show at least that.
        let promised = progress.written.load(Ordering::SeqCst);
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
        // Read the end again, grown or not. Whole pages only: a mapping of a page that is not full would make
        // the file fall back to plain writes.
        if looks % 16 == 7 && size >= 4096 {
            let page = size.saturating_sub(bytes.len() as u64) & !4095;
            let whole = ((size & !4095) - page) as usize;
            if let Some(place) = look_through_mapping(identity, descriptor, page, whole, by) {
                return format!("violation: {path:?} is mapped with a wrong byte at {place}");
            }
            if promised != u64::MAX {
                looked.fetch_add(1, Ordering::SeqCst);
            }
        }
        // Sometimes from the beginning, through another descriptor.
        if looks % 64 == 40 {
            close(descriptor, by);
            descriptor = -1;
            checked /= 2;
        }
        looks += 1;
        if promised == u64::MAX {
            let looked = looked.load(Ordering::SeqCst);
            if looked == 0 {
                return format!("violation: {path:?} was never looked at while it was written");
            }
            return format!("{path:?}: followed to {size}, mapped {looked} times on the way");
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

/// Runs the writing process, and follows its SSTables from this process.
fn followed(way: (&str, &str)) {
    let directory = directories::on_disk();
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
        // The readers end in any case, however the writer ends.
        let ends = shared.tables.each_ref().map(|table| End(&table.written));
        let followers: Vec<_> = TABLES
            .iter()
            .enumerate()
            .map(|(number, (name, ..))| {
                let (path, progress) = (path(name), &shared.tables[number]);
                scope.spawn(move || follow(number as u64, &path, progress, late, Calls::Plain))
            })
            .collect();
        let ended = program.run_with(&Preload::writing(way)).well();
        drop(ends);
        let said: Vec<String> = followers
            .into_iter()
            .map(|follower| follower.join().unwrap())
            .chain(subject::journal::Journal::read(&journal))
            .collect();
        for line in &said {
            assert!(!line.starts_with("violation"), "{way:?}: {line}\n{ended:?}");
        }
        println!("{way:?}: {}", said.join("; "));
    });
}

#[test]
fn whoever_follows_a_table_sees_what_was_written() {
    for _ in 0..if long() { 20 } else { 1 } {
        for way in WRITE_WAYS {
            followed(way);
        }
    }
}
