//! Which pages of a file are in the page cache. The kernel answers, not a library under test: `coldstream_io` makes
//! the calls, and tests of its own.

use std::fmt::Debug;
use std::fs::File;
use std::os::fd::AsRawFd;

use coldstream_io::residency;

/// Writes dirty pages back, and drops all pages of a file.
///
/// # Panics
/// The kernel refuses.
pub fn drop_pages(file: &File) {
    file.sync_data().expect("fdatasync");
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).expect("posix_fadvise");
}

/// One flag a page, by `mincore(2)`. It is exact for files of the caller.
///
/// # Panics
/// The kernel refuses.
#[must_use]
pub fn resident_pages(file: &File) -> Vec<bool> {
    let length_bytes = length_bytes(file);
    let mut pages = Vec::new();
    let add = |_, is_resident| pages.push(is_resident);
    residency::each_page(file.as_raw_fd(), 0, length_bytes, add).expect("mincore");
    pages
}

/// Number of pages of the whole file in the page cache, by `cachestat(2)` where the kernel has it.
///
/// # Panics
/// The kernel refuses.
#[must_use]
pub fn cached_pages(file: &File) -> u64 {
    let found = residency::of_range(file.as_raw_fd(), 0, length_bytes(file));
    found.expect("cachestat or mincore").resident_pages
}

fn length_bytes(file: &File) -> u64 {
    file.metadata().expect("fstat").len()
}

/// Asserts that these pages, in ascending order, are resident, and no others. Up to half of them may have been
/// reclaimed meanwhile.
///
/// # Panics
/// They are others.
#[track_caller]
pub fn assert_there<N: Ord + Debug>(found: &[N], expected: &[N]) {
    let is_expected = |page: &N| expected.binary_search(page).is_ok();
    assert!(found.iter().all(is_expected), "{found:?}");
    assert!(found.len() > expected.len() / 2, "{found:?}");
}
