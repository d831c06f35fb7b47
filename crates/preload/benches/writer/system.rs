//! The calls that the library wraps, and what the system counts of them.

use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

/// User and system, of this process.
pub fn process_cpu() -> Duration {
    // SAFETY: zero is a valid value of each of its fields.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours.
    let asked = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(asked, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Pages that have become dirty since the system's start.
pub fn dirtied_pages() -> u64 {
    std::fs::read_to_string("/proc/vmstat")
        .expect("/proc/vmstat")
        .lines()
        .find_map(|line| line.strip_prefix("nr_dirtied ")?.parse().ok())
        .expect("nr_dirtied")
}

/// As `open` does, by the name that the library wraps.
pub fn open(path: &Path, flags: i32) -> i32 {
    let name = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
    // SAFETY: a NUL-terminated string.
    let descriptor = unsafe { libc::open64(name.as_ptr(), flags, 0o644) };
    assert!(descriptor >= 0, "{}", path.display());
    descriptor
}

/// All of it at once.
pub fn write(descriptor: i32, bytes: &[u8]) {
    // SAFETY: the bytes are there.
    let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(written, bytes.len() as isize, "a short write");
}

/// As `close` does.
pub fn close(descriptor: i32) {
    // SAFETY: the descriptor is ours, and not used again.
    assert_eq!(unsafe { libc::close(descriptor) }, 0);
}
