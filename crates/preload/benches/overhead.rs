//! What the library adds to the foreground's calls, in nanoseconds: libc's own function and the
//! interposed one are called in turn, in short blocks, within one process, so that whatever
//! else the machine does hits both. Prints the median of the paired differences and the quartiles.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Pairs of blocks, and calls a block: short enough that a block is rarely interrupted.
const PAIRS: usize = 4001;
const CALLS: usize = 64;

type Pread = unsafe extern "C" fn(i32, *mut c_void, usize, i64) -> isize;
type Read = unsafe extern "C" fn(i32, *mut c_void, usize) -> isize;
type Write = unsafe extern "C" fn(i32, *const c_void, usize) -> isize;
type Open = unsafe extern "C" fn(*const libc::c_char, i32, libc::mode_t) -> i32;
type Close = unsafe extern "C" fn(i32) -> i32;

fn main() {
    let library = coldstream_testkit::library::built_before();
    if std::env::var_os("LD_PRELOAD").is_none() {
        let error = Command::new(std::env::current_exe().expect("own path"))
            .env("LD_PRELOAD", &library)
            .env("COLDSTREAM_LOG", "none")
            .exec();
        panic!("cannot start again with {}: {error}", library.display());
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("scratch directory");
    let table = directory.path().join("000001.sst");
    let other = directory.path().join("other");
    for path in [&table, &other] {
        std::fs::write(path, vec![7; 1 << 20]).expect("write");
    }
    println!(
        "{:<44} {:>8} {:>9} {:>20}",
        "call", "libc ns", "added ns", "quartiles of added"
    );
    for (name, path) in [
        ("pread 4 KiB of a table, page cache", &table),
        ("pread 4 KiB of another file, page cache", &other),
    ] {
        let descriptor = open(path);
        let mut buffer = vec![0_u8; 4096];
        let buffer = buffer.as_mut_ptr();
        compare(name, |symbols: &Symbols| {
            // SAFETY: the buffer has room for a page.
            let read = unsafe { (symbols.pread)(descriptor, buffer.cast(), 4096, 4096) };
            assert_eq!(read, 4096);
        });
    }
    let zero = open(Path::new("/dev/zero"));
    let mut byte = 0_u8;
    let byte = &raw mut byte;
    compare("read 1 byte of /dev/zero", |symbols| {
        // SAFETY: one byte is there.
        let read = unsafe { (symbols.read)(zero, byte.cast(), 1) };
        assert_eq!(read, 1);
    });
    let null = open(Path::new("/dev/null"));
    compare("write 1 byte to /dev/null", |symbols| {
        // SAFETY: one byte is there.
        let written = unsafe { (symbols.write)(null, byte.cast(), 1) };
        assert_eq!(written, 1);
    });
    for (name, path) in [
        ("open and close of another file", &other),
        ("open and close of a table", &table),
    ] {
        let path = c_string(path);
        compare(name, |symbols| {
            // SAFETY: the path is a NUL-terminated string; the descriptor is ours.
            let closed = unsafe {
                let descriptor = (symbols.open)(path.as_ptr(), libc::O_RDONLY, 0);
                (symbols.close)(descriptor)
            };
            assert_eq!(closed, 0);
        });
    }
}

struct Symbols {
    pread: Pread,
    read: Read,
    write: Write,
    open: Open,
    close: Close,
}

impl Symbols {
    fn of(library: *mut c_void) -> Self {
        let symbol = |name: &CStr| {
            // SAFETY: the handle is libc's, or the default one.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!address.is_null(), "{name:?}");
            address
        };
        // SAFETY: these are the signatures of these functions.
        unsafe {
            Self {
                pread: std::mem::transmute::<*mut c_void, Pread>(symbol(c"pread64")),
                read: std::mem::transmute::<*mut c_void, Read>(symbol(c"read")),
                write: std::mem::transmute::<*mut c_void, Write>(symbol(c"write")),
                open: std::mem::transmute::<*mut c_void, Open>(symbol(c"open64")),
                close: std::mem::transmute::<*mut c_void, Close>(symbol(c"close")),
            }
        }
    }
}

fn compare(name: &str, call: impl Fn(&Symbols)) {
    // SAFETY: libc is loaded already.
    let libc = unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    assert!(!libc.is_null(), "libc.so.6 is not loaded");
    let plain = Symbols::of(libc);
    let interposed = Symbols::of(libc::RTLD_DEFAULT);
    assert!(
        plain.pread as usize != interposed.pread as usize,
        "the library is not loaded"
    );
    let block = |symbols: &Symbols| {
        let start = Instant::now();
        for _ in 0..CALLS {
            call(symbols);
        }
        start.elapsed().as_nanos() as f64 / CALLS as f64
    };
    let mut plain_ns = Vec::new();
    let mut added_ns = Vec::new();
    for pair in 0..PAIRS {
        // Which one goes first alternates too.
        let (before, after) = if pair % 2 == 0 {
            let before = block(&plain);
            (before, block(&interposed))
        } else {
            let after = block(&interposed);
            (block(&plain), after)
        };
        plain_ns.push(before);
        added_ns.push(after - before);
    }
    plain_ns.sort_by(f64::total_cmp);
    added_ns.sort_by(f64::total_cmp);
    println!(
        "{name:<44} {:>8.0} {:>9.1} {:>20}",
        plain_ns[PAIRS / 2],
        added_ns[PAIRS / 2],
        format!(
            "{:.1} … {:.1}",
            added_ns[PAIRS / 4],
            added_ns[PAIRS * 3 / 4]
        ),
    );
}

fn open(path: &Path) -> i32 {
    // SAFETY: a NUL-terminated string.
    let descriptor = unsafe { libc::open64(c_string(path).as_ptr(), libc::O_RDWR) };
    assert!(descriptor >= 0, "{}", path.display());
    descriptor
}

fn c_string(path: &Path) -> CString {
    CString::new(path.to_str().expect("UTF-8")).expect("no NUL")
}
