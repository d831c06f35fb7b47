//! The subject. Background threads and one of the foreground scan SSTables at the same time, then a child does. The
//! results are recorded in a fixed order. After its start the subject itself makes no call with injected
//! faults.

use crate::subject::execute::reads;
use crate::subject::{self, calls, raw};
use coldstream_testkit::files::{Hash, REST, fill};
use std::ffi::CStr;
use std::fmt::Write;

/// The resource that the process lacks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    None,
    Descriptors,
    AddressSpace,
}

const TABLES: [(&CStr, usize); 5] = [
    (c"000001.sst", (1 << 20) + 77),
    (c"000002.ldb", 3 << 18),
    (c"nb-1-big-Data.db", (2 << 20) + 4096),
    (c"000003.sst", 5000),
    // So long that the kernel's readahead may take a scan over.
    (c"nb-2-big-Data.db", (8 << 20) + 1234),
];

/// The limit of open descriptors, where they are few. It is the smallest limit at which the library opens
/// private ones.
const DESCRIPTORS: u64 = 256;
/// Number of free descriptors when the scans begin.
const DESCRIPTORS_LEFT: i32 = TABLES.len() as i32 + 2;

/// A way to scan: thread name, SSTable, first offset, chunk size.
const SCANS: [(&CStr, usize, u64, usize); 7] = [
    (c"rocksdb:low", 0, 0, 4096),
    (c"rocksdb:low", 0, 300_000, 16_384),
    (c"CompactionExecu", 1, 0, 4122),
    (c"CompactionExecu", 2, 0, 65_536),
    (c"ValidationExecu", 2, 1 << 20, 262_144),
    (c"rocksdb:bottom", 3, 0, 1000),
    (c"ReadStage-1", 4, 0, 16_384),
];

fn limit(resource: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: reads one structure.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

/// Address space in use, bytes.
fn address_space_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    pages * 4096
}

pub fn run(limits: Limits) {
    let mut journal = subject::own_journal();
    for (identity, (path, size_bytes)) in TABLES.iter().enumerate() {
        let file = raw::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC);
        let mut bytes = vec![0; *size_bytes];
        fill(identity as u64, 0, &mut bytes);
        assert!(raw::write_at(file, &bytes, 0));
        raw::close(file);
        raw::drop_pages(path);
    }
    std::thread::sleep(REST);
    match limits {
        Limits::None => {}
        Limits::Descriptors => {
            close_what_was_inherited();
            limit(libc::RLIMIT_NOFILE, DESCRIPTORS);
        }
        Limits::AddressSpace => limit(libc::RLIMIT_AS, address_space_bytes() + (48 << 20)),
    }
    // SAFETY: NUL-terminated paths.
    let files = TABLES.map(|(path, _)| unsafe { calls::open64(path.as_ptr(), libc::O_RDONLY, 0) });
    if limits == Limits::Descriptors {
        use_descriptors_up();
    }
    for _ in 0..3 {
        let texts: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = SCANS
                .iter()
                .map(|scan| scope.spawn(move || scan_all(files[scan.1], *scan)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        for text in texts {
            journal.line(&text);
        }
        if limits == Limits::Descriptors {
            take_what_is_left();
        }
        for (path, _) in TABLES {
            raw::drop_pages(path);
        }
    }
    journal.line(&child(files));
    journal.line("end");
}

/// The parent of the tests may have left descriptors open among the numbers that are compared.
fn close_what_was_inherited() {
    // SAFETY: nothing of this process's is open but the standard streams.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
}

fn open_null() -> i32 {
    // SAFETY: a NUL-terminated path.
    unsafe { calls::open64(c"/dev/null".as_ptr(), libc::O_RDONLY, 0) }
}

/// Leaves some free descriptors for the library.
fn use_descriptors_up() {
    let mut last = 0;
    while last < DESCRIPTORS as i32 - 1 - DESCRIPTORS_LEFT {
        last = open_null();
        assert!(last >= 0, "{}", std::io::Error::last_os_error());
    }
}

/// The application can open every descriptor that is left, including those of the library. They are closed
/// again: dropping pages uses raw `open` calls, for which the library makes no room.
fn take_what_is_left() {
    let left = DESCRIPTORS as i32 - DESCRIPTORS_LEFT..DESCRIPTORS as i32;
    let is_open = |number: &i32| {
        // SAFETY: no memory is passed.
        unsafe { libc::syscall(libc::SYS_fcntl, *number, libc::F_GETFD) >= 0 }
    };
    let reads = std::env::var("COLDSTREAM_READS").unwrap_or_default();
    if matches!(reads.as_str(), "auto" | "drop-behind") {
        assert!(
            left.clone().any(|number| is_open(&number)),
            "nothing is given back"
        );
    }
    let mut taken: Vec<i32> = left.clone().map(|_| open_null()).collect();
    assert_eq!(open_null(), -1);
    taken.sort_unstable();
    assert_eq!(taken, left.collect::<Vec<i32>>());
    for number in taken {
        // SAFETY: no memory is passed.
        unsafe { calls::close(number) };
    }
}

fn scan_all(file: i32, (name, table, first, chunk): (&CStr, usize, u64, usize)) -> String {
    // SAFETY: the name is NUL-terminated.
    unsafe { calls::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let mut bytes = vec![0_u8; chunk];
    let mut hash = Hash::new();
    let mut offset = first;
    let last = loop {
        let buffer = bytes.as_mut_ptr();
        let read = reads::positional("pread64", file, buffer, chunk, offset as i64, 0);
        if read <= 0 {
            break read;
        }
        hash.add(&bytes[..read as usize]);
        offset += read as u64;
    };
    let errno = std::io::Error::last_os_error()
        .raw_os_error()
        .filter(|_| last < 0);
    format!("{name:?} table {table} by {chunk}: {first} to {offset}, {errno:?} {hash}")
}

/// A forked child scans through inherited descriptors and one of its own.
fn child(files: [i32; TABLES.len()]) -> String {
    let [out, into] = raw::pipe();
    // SAFETY: the child reads and ends by a system call.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut text = String::new();
        let _ = write!(text, "{} ", scan_all(files[0], SCANS[0]));
        // SAFETY: NUL-terminated path, no memory.
        let again = unsafe {
            calls::close(files[2]);
            calls::open64(TABLES[2].0.as_ptr(), libc::O_RDONLY, 0)
        };
        let _ = write!(text, "{again} {}", scan_all(again, SCANS[3]));
        raw::write(into, text.as_bytes());
        raw::exit(0);
    }
    raw::close(into);
    let mut text = vec![0; 4096];
    let length = raw::read_all(out, &mut text);
    raw::close(out);
    let mut status = 0;
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    format!("{status:x} {}", String::from_utf8_lossy(&text[..length]))
}
