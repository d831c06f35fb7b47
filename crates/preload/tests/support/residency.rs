//! Which pages of a file are in the page cache, asked of the kernel without the library's help.

use std::fmt::Debug;
use std::fs::File;
use std::os::fd::AsRawFd;

const PAGE_BYTES: usize = 4096;

/// Writes back what is dirty and drops the pages of a file.
pub fn drop_pages(file: &File) {
    file.sync_data().expect("fdatasync");
    // SAFETY: no memory is passed.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0, "posix_fadvise");
}

/// One flag a page, by `mincore(2)` (exact for files of one's own).
pub fn resident_pages(file: &File) -> Vec<bool> {
    let length_bytes = file.metadata().expect("fstat").len() as usize;
    if length_bytes == 0 {
        return Vec::new();
    }
    let mut states = vec![0_u8; length_bytes.div_ceil(PAGE_BYTES)];
    // SAFETY: a new mapping, unmapped below, whose pages are never touched; one byte a page is
    // written into `states`.
    unsafe {
        let address = libc::mmap(
            std::ptr::null_mut(),
            length_bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(address, libc::MAP_FAILED, "mmap");
        assert_eq!(
            libc::mincore(address, length_bytes, states.as_mut_ptr()),
            0,
            "mincore"
        );
        libc::munmap(address, length_bytes);
    }
    states.iter().map(|state| state & 1 == 1).collect()
}

/// Pages of the whole file in the page cache, by `cachestat(2)` where there is one.
pub fn cached_pages(file: &File) -> u64 {
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [0_u64; 2];
    let mut statistics = [0_u64; 5];
    // SAFETY: the kernel reads two and writes five words at these places.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            statistics.as_mut_ptr(),
            0,
        )
    };
    if result == 0 {
        statistics[0]
    } else {
        resident_pages(file).iter().filter(|page| **page).count() as u64
    }
}

/// These pages, in ascending order, are there and no others, except some that were reclaimed meanwhile.
#[track_caller]
pub fn assert_there<N: Ord + Debug>(found: &[N], expected: &[N]) {
    let is_expected = |page: &N| expected.binary_search(page).is_ok();
    assert!(found.iter().all(is_expected), "{found:?}");
    assert!(found.len() > expected.len() / 2, "{found:?}");
}
