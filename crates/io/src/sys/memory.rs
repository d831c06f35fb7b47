//! Memory system calls: mmap, munmap, madvise, mincore.

use super::Errno;
use super::raw::syscall;

/// `MADV_WIPEONFORK`, Linux 4.14: a forked child finds zeros.
pub const ADVICE_WIPE_ON_FORK: i32 = libc::MADV_WIPEONFORK;
/// `MADV_DONTFORK`: a forked child does not have the range at all.
pub const ADVICE_DONT_FORK: i32 = libc::MADV_DONTFORK;
/// `MADV_DONTDUMP`: left out of core dumps.
pub const ADVICE_DONT_DUMP: i32 = libc::MADV_DONTDUMP;
/// `MADV_DONTNEED`: gives the memory of an anonymous range back; it reads as zeros then.
pub const ADVICE_DONT_NEED: i32 = libc::MADV_DONTNEED;

/// `MADV_HUGEPAGE`: huge pages, where the system lets whoever asks have some.
pub const ADVICE_HUGE_PAGES: i32 = libc::MADV_HUGEPAGE;

/// `MADV_NORMAL`: the kernel reads ahead of faults, and around them.
pub const ADVICE_NORMAL: i32 = libc::MADV_NORMAL;
/// `MADV_RANDOM`: it reads what is touched and nothing else.
pub const ADVICE_RANDOM: i32 = libc::MADV_RANDOM;

/// `madvise(2)` with an advice that changes no byte, on whatever is there: [`ADVICE_NORMAL`] or
/// [`ADVICE_RANDOM`]; others are refused with `EINVAL`.
pub fn hint(address: usize, length_bytes: usize, advice: i32) -> Result<(), Errno> {
    if advice != ADVICE_NORMAL && advice != ADVICE_RANDOM {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: neither discards or changes anything.
    unsafe { advise(address as *mut u8, length_bytes, advice) }
}

/// Bytes of the kernel's pages: 4 KiB, or on aarch64 perhaps 16 or 64.
pub fn page_bytes() -> u64 {
    // SAFETY: reads the auxiliary vector, which never changes; any type may be asked for.
    unsafe { libc::getauxval(libc::AT_PAGESZ) }
}

/// `mmap(2)` at an address of the kernel's choice.
pub fn map(
    length_bytes: usize,
    protection: i32,
    flags: i32,
    descriptor: i32,
    offset: u64,
) -> Result<*mut u8, Errno> {
    // SAFETY: without MAP_FIXED no existing mapping is touched.
    let result = unsafe {
        syscall(
            libc::SYS_mmap,
            [
                0,
                length_bytes,
                protection as usize,
                (flags & !libc::MAP_FIXED) as usize,
                descriptor as usize,
                offset as usize,
            ],
        )
    };
    Errno::check(result).map(|address| address as *mut u8)
}

/// Zeroed memory of this process alone, with further `MAP_*` flags.
pub fn map_anonymous(length_bytes: usize, more_flags: i32) -> Result<*mut u8, Errno> {
    map(
        length_bytes,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more_flags,
        -1,
        0,
    )
}

/// `munmap(2)`.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(address: *mut u8, length_bytes: usize) -> Result<(), Errno> {
    // SAFETY: the caller vouches for the range.
    Errno::check(unsafe {
        syscall(
            libc::SYS_munmap,
            [address as usize, length_bytes, 0, 0, 0, 0],
        )
    })
    .map(|_| ())
}

/// `madvise(2)`.
///
/// # Safety
/// With an advice that discards memory nobody may rely on the range's content.
pub unsafe fn advise(address: *mut u8, length_bytes: usize, advice: i32) -> Result<(), Errno> {
    // SAFETY: the caller vouches for the range.
    Errno::check(unsafe {
        syscall(
            libc::SYS_madvise,
            [address as usize, length_bytes, advice as usize, 0, 0, 0],
        )
    })
    .map(|_| ())
}

/// `mincore(2)`: one byte a page into `residency`, lowest bit set if the page is resident.
///
/// # Safety
/// `address` must be a mapping of `length_bytes`; `residency` has one byte for each page of it.
pub unsafe fn residency(
    address: *mut u8,
    length_bytes: usize,
    residency: &mut [u8],
) -> Result<(), Errno> {
    // SAFETY: the caller vouches for the range and the vector's length.
    Errno::check(unsafe {
        syscall(
            libc::SYS_mincore,
            [
                address as usize,
                length_bytes,
                residency.as_mut_ptr() as usize,
                0,
                0,
                0,
            ],
        )
    })
    .map(|_| ())
}

/// Of a shorter buffer nobody can be asked whether it can be written.
pub const WRITABLE_BYTES_MIN: usize = 8;

/// Whether every page of `memory` can be written, asked of the kernel: a copy into a bad buffer
/// must end in `EFAULT` as a system call would give it, never in a fault of the process.
///
/// `rt_sigprocmask(2)` that only queries writes eight bytes and has no other effect; placed
/// across a page boundary it tests two pages at the price of the cheapest system call
/// (135 ns against 1,200 ns for `process_vm_readv`, measured on 6.18). The bytes of the buffer
/// are clobbered, so that the caller must write all of it afterwards.
///
/// Buffers under [`WRITABLE_BYTES_MIN`] are reported as not writable.
///
/// # Safety
/// Nobody may rely on what is there: any pointer that an application has given for bytes to be put
/// behind, good or bad.
pub unsafe fn writable(memory: *mut u8, length_bytes: usize) -> bool {
    const MASK_BYTES: usize = WRITABLE_BYTES_MIN;
    const PAGE_BYTES: usize = 4096;
    // A null pointer would mean that nothing is to be written.
    if length_bytes < MASK_BYTES || memory.is_null() {
        return false;
    }
    let start = memory as usize;
    let Some(last) = start.checked_add(length_bytes - MASK_BYTES) else {
        return false;
    };
    let mut address = start;
    loop {
        // The highest place that still touches the page of `address`: across its end.
        let across = (address | (PAGE_BYTES - 1)).saturating_sub(MASK_BYTES / 2 - 1);
        let at = across.max(address).min(last);
        // SAFETY: the kernel writes eight bytes within the caller's buffer or fails with EFAULT.
        let result = unsafe {
            syscall(
                libc::SYS_rt_sigprocmask,
                [libc::SIG_BLOCK as usize, 0, at, MASK_BYTES, 0, 0],
            )
        };
        if result != 0 {
            return false;
        }
        // First byte not covered: the page behind the one in which these eight bytes end.
        let next = ((at + MASK_BYTES - 1) | (PAGE_BYTES - 1)) + 1;
        if next > last + MASK_BYTES - 1 {
            return true;
        }
        address = next.min(last);
    }
}

/// Whether all of a range can be read: asked of the kernel page by page, with a call that reads
/// eight bytes and then fails for another reason (`rt_sigprocmask(2)` with a `how` that does not
/// exist).
pub fn readable(memory: *const u8, length_bytes: usize) -> bool {
    const MASK_BYTES: usize = 8;
    const PAGE_BYTES: usize = 4096;
    const NO_SUCH_HOW: usize = 0xFFFF;
    let start = memory as usize;
    let Some(end) = start.checked_add(length_bytes) else {
        return false;
    };
    // Eight aligned bytes lie in one page.
    let mut address = start & !(MASK_BYTES - 1);
    while address < end {
        // SAFETY: the kernel only reads the mask, or fails with EFAULT.
        let result = unsafe {
            syscall(
                libc::SYS_rt_sigprocmask,
                [NO_SUCH_HOW, address, 0, MASK_BYTES, 0, 0],
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
    use super::*;

    #[test]
    fn writable_finds_the_one_page_that_is_not() {
        const PAGES: usize = 6;
        let base = map_anonymous(PAGES * 4096, 0).unwrap();
        // SAFETY: in the mapping, of which nobody else knows, or where nothing is mapped.
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
                unsafe { syscall(libc::SYS_mprotect, [page as usize, 4096, 1, 0, 0, 0]) };
                let touched = bad >= offset / 4096 && bad <= (offset + length - 1) / 4096;
                assert_eq!(
                    writable(base.wrapping_add(offset), length),
                    !touched,
                    "{offset}+{length}, page {bad}"
                );
                // SAFETY: as above.
                unsafe { syscall(libc::SYS_mprotect, [page as usize, 4096, 3, 0, 0, 0]) };
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
                unsafe { syscall(libc::SYS_mprotect, [page as usize, 4096, 0, 0, 0, 0]) };
                let touched = bad >= offset / 4096 && bad <= (offset + length - 1) / 4096;
                assert_eq!(
                    readable(memory, length),
                    !touched,
                    "{offset}+{length}, page {bad}"
                );
                // SAFETY: as above.
                unsafe { syscall(libc::SYS_mprotect, [page as usize, 4096, 1, 0, 0, 0]) };
            }
        }
        assert!(!readable(std::ptr::null(), 1));
        assert!(!readable(8 as *const u8, 4096));
        assert!(!readable(usize::MAX as *const u8, 4096));
        // Of nothing nothing is read.
        assert!(readable(std::ptr::null(), 0));
        // SAFETY: nothing uses the mapping any more.
        unsafe { unmap(base, PAGES * 4096) }.unwrap();
    }
}
