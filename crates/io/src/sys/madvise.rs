//! Advice about memory: [`madvise(2)`](https://man7.org/linux/man-pages/man2/madvise.2.html).

use super::Errno;
use super::raw::syscall;

/// `MADV_WIPEONFORK`, Linux 4.14: a forked child finds zeros.
pub const ADVICE_WIPE_ON_FORK: i32 = libc::MADV_WIPEONFORK;
/// `MADV_DONTFORK`: a forked child does not have the range at all.
pub const ADVICE_DONT_FORK: i32 = libc::MADV_DONTFORK;
/// `MADV_DONTDUMP`: core dumps leave the range out.
pub const ADVICE_DONT_DUMP: i32 = libc::MADV_DONTDUMP;
/// `MADV_DONTNEED`: gives the memory of an anonymous range back to the system. It reads as zeros then.
pub const ADVICE_DONT_NEED: i32 = libc::MADV_DONTNEED;
/// `MADV_HUGEPAGE`: huge pages, where the system gives them on request.
pub const ADVICE_HUGE_PAGES: i32 = libc::MADV_HUGEPAGE;
/// `MADV_NORMAL`: the kernel reads ahead of faults, and around them.
pub const ADVICE_NORMAL: i32 = libc::MADV_NORMAL;
/// `MADV_RANDOM`: the kernel reads only the page that is touched.
pub const ADVICE_RANDOM: i32 = libc::MADV_RANDOM;

/// `madvise(2)` with an advice that changes no byte: [`ADVICE_NORMAL`] or [`ADVICE_RANDOM`]. Any range
/// is allowed.
///
/// # Errors
/// `EINVAL` for any other advice; the kernel's, such as `ENOMEM` where nothing is mapped.
pub fn hint(address: usize, length_bytes: usize, advice: i32) -> Result<(), Errno> {
    if advice != ADVICE_NORMAL && advice != ADVICE_RANDOM {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: neither advice discards or changes anything.
    unsafe { advise(address as *mut u8, length_bytes, advice) }
}

/// `madvise(2)`.
///
/// # Safety
/// If the advice discards memory, nobody may rely on the range's content.
///
/// # Errors
/// The kernel's, such as `EINVAL` for an advice that it does not know.
pub unsafe fn advise(address: *mut u8, length_bytes: usize, advice: i32) -> Result<(), Errno> {
    // SAFETY: the caller vouches for the range.
    let result = unsafe {
        syscall(
            libc::SYS_madvise,
            [address as usize, length_bytes, advice as usize],
        )
    };
    Errno::check(result).map(drop)
}
