//! Memory on its way into the processor's cache before it is needed.

use std::sync::atomic::AtomicU64;

/// Asks the processor for the cache line of a word that is soon read or written. Does not wait for it.
#[inline(always)]
pub fn fetch(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads no memory that the program could observe, and never faults.
    unsafe {
        std::arch::asm!(
            "prefetcht0 [{}]",
            in(reg) word,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{}]",
            in(reg) word,
            options(nostack, preserves_flags, readonly),
        );
    }
}
