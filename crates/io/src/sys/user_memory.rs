//! Whether an application's buffer can be read or written, without a fault of the process.
//!
//! The kernel answers: [`rt_sigprocmask(2)`](https://man7.org/linux/man-pages/man2/sigprocmask.2.html)
//! reads or writes eight bytes at an address, or fails with `EFAULT`. It is the cheapest such call:
//! 135 ns against 1,200 ns for `process_vm_readv`, measured on Linux 6.18.

use super::Errno;
use super::raw::syscall;

/// Bytes of the kernel's signal set: the size of one test.
const MASK_BYTES: usize = 8;
/// The smallest page of the kernel's. Larger pages are tested more than once.
const PAGE_BYTES: usize = 4096;

/// [`writable`] cannot test shorter buffers.
pub const WRITABLE_BYTES_MIN: usize = MASK_BYTES;

/// Whether every page of `memory` can be written. A copy into a bad buffer must end in `EFAULT`, as
/// the system call would give it, and never in a fault of the process.
///
/// An `rt_sigprocmask(2)` that only queries writes eight bytes, and has no other effect. Across a page
/// boundary it tests two pages. It changes bytes of the buffer, so the caller must write all of it
/// afterwards.
///
/// Buffers below [`WRITABLE_BYTES_MIN`] are reported as not writable.
///
/// # Safety
/// Nobody may rely on the buffer's content. Any pointer is allowed, good or bad, that an application
/// passed as a destination.
pub unsafe fn writable(memory: *mut u8, length_bytes: usize) -> bool {
    // With a null pointer the kernel would write nothing, and succeed.
    if length_bytes < MASK_BYTES || memory.is_null() {
        return false;
    }
    let start = memory as usize;
    let Some(last) = start.checked_add(length_bytes - MASK_BYTES) else {
        return false;
    };
    let mut address = start;
    loop {
        // The highest address whose eight bytes still touch the page of `address`: across its end.
        let across = (address | (PAGE_BYTES - 1)).saturating_sub(MASK_BYTES / 2 - 1);
        let at = across.max(address).min(last);
        // SAFETY: the kernel writes eight bytes within the caller's buffer or fails with EFAULT.
        let result = unsafe {
            syscall(
                libc::SYS_rt_sigprocmask,
                [libc::SIG_BLOCK as usize, 0, at, MASK_BYTES],
            )
        };
        if result != 0 {
            return false;
        }
        // The first byte that is not covered: the page after the one in which these bytes end.
        let next = ((at + MASK_BYTES - 1) | (PAGE_BYTES - 1)) + 1;
        if next > last + MASK_BYTES - 1 {
            return true;
        }
        address = next.min(last);
    }
}

/// Whether all of a range can be read. An `rt_sigprocmask(2)` with a `how` that does not exist reads
/// eight bytes, and then fails with `EINVAL`. It is called once for each page.
pub fn readable(memory: *const u8, length_bytes: usize) -> bool {
    const NO_SUCH_HOW: usize = 0xFFFF;
    let start = memory as usize;
    let Some(end) = start.checked_add(length_bytes) else {
        return false;
    };
    // Aligned, so that the eight bytes lie in one page.
    let mut address = start & !(MASK_BYTES - 1);
    while address < end {
        // SAFETY: the kernel only reads the mask, or fails with EFAULT.
        let result = unsafe {
            syscall(
                libc::SYS_rt_sigprocmask,
                [NO_SUCH_HOW, address, 0, MASK_BYTES],
            )
        };
        if Errno::check(result) != Err(Errno(libc::EINVAL)) {
            return false;
        }
        address = (address & !(PAGE_BYTES - 1)) + PAGE_BYTES;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::mmap::{map, map_anonymous, unmap};
    use super::*;

    #[test]
    fn writable_finds_the_one_page_that_is_not() {
        const PAGES: usize = 6;
        let base = map_anonymous(PAGES * 4096, 0).unwrap();
        // SAFETY: in the mapping, which nobody else uses, or where nothing is mapped.
        let writable = |memory, length_bytes| unsafe { writable(memory, length_bytes) };
        for (offset, length) in [
            (0, 4096),
            (100, 4096),
            (1, 20000),
            (4090, 8),
            (4092, 8),
            (4095, 8194),
        ] {
            assert!(
                writable(base.wrapping_add(offset), length),
                "{offset}+{length}"
            );
            for bad in 0..PAGES {
                let page = base.wrapping_add(bad * 4096);
                // SAFETY: the page belongs to this test's mapping.
                unsafe { syscall(libc::SYS_mprotect, [page as usize, 4096, 1]) };
                let touched = bad >= offset / 4096 && bad <= (offset + length - 1) / 4096;
                assert_eq!(
                    writable(base.wrapping_add(offset), length),
                    !touched,
                    "{offset}+{length}, page {bad}"
                );
                // SAFETY: as above.
                unsafe { syscall(libc::SYS_mprotect, [page as usize, 4096, 3]) };
            }
        }
        assert!(!writable(base, 7));
        assert!(!writable(std::ptr::null_mut(), 4096));
        assert!(!writable(std::ptr::null_mut(), 8));
        assert!(!writable(usize::MAX as *mut u8, 4096));
        // SAFETY: nothing uses the mapping any more.
        unsafe { unmap(base, PAGES * 4096) }.unwrap();
    }

    #[test]
    fn readable_finds_the_one_page_that_is_not() {
        const PAGES: usize = 6;
        let base = map(
            PAGES * 4096,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
        .unwrap();
        for (offset, length) in [
            (0, 1),
            (0, 4096),
            (100, 4096),
            (1, 20000),
            (4088, 8),
            (4090, 8),
            (4095, 1),
            (4095, 2),
            (4095, 8194),
            (8192, 8192),
        ] {
            let memory = base.wrapping_add(offset);
            assert!(readable(memory, length), "{offset}+{length}");
            for bad in 0..PAGES {
                let page = base.wrapping_add(bad * 4096);
                // SAFETY: the page belongs to this test's mapping.
                unsafe { syscall(libc::SYS_mprotect, [page as usize, 4096, 0]) };
                let touched = bad >= offset / 4096 && bad <= (offset + length - 1) / 4096;
                assert_eq!(
                    readable(memory, length),
                    !touched,
                    "{offset}+{length}, page {bad}"
                );
                // SAFETY: as above.
                unsafe { syscall(libc::SYS_mprotect, [page as usize, 4096, 1]) };
            }
        }
        assert!(!readable(std::ptr::null(), 1));
        assert!(!readable(8 as *const u8, 4096));
        assert!(!readable(usize::MAX as *const u8, 4096));
        // An empty range needs no memory.
        assert!(readable(std::ptr::null(), 0));
        // SAFETY: nothing uses the mapping any more.
        unsafe { unmap(base, PAGES * 4096) }.unwrap();
    }
}
