//! Anonymous memory straight from the kernel, for tables and windows that may not come from
//! the application's allocator.

use crate::sys::{Errno, memory};

/// What a forked child finds in place of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFork {
    /// Zeros: the child's books are empty (`MADV_WIPEONFORK`, Linux 4.14).
    Wipe,
    /// Nothing at all: a page into which the device may be writing must not be copied
    /// (`MADV_DONTFORK`).
    Leave,
}

/// Maps `length_bytes` of zeroed private memory that is taken from the system only as it is
/// touched, and is never given back: it lives as long as the process.
pub fn map_for_life(length_bytes: usize, on_fork: OnFork) -> Result<*mut u8, Errno> {
    let base = memory::map_anonymous(length_bytes, libc::MAP_NORESERVE)?;
    let advice = match on_fork {
        OnFork::Wipe => memory::ADVICE_WIPE_ON_FORK,
        OnFork::Leave => memory::ADVICE_DONT_FORK,
    };
    // SAFETY: neither advice changes the content that this process sees.
    if let Err(errno) = unsafe { memory::advise(base, length_bytes, advice) } {
        // SAFETY: nobody has seen the mapping yet.
        let _ = unsafe { memory::unmap(base, length_bytes) };
        return Err(errno);
    }
    // Core dumps of a database should hold its state, not copies of its files.
    // SAFETY: as above; a refusal costs nothing.
    let _ = unsafe { memory::advise(base, length_bytes, memory::ADVICE_DONT_DUMP) };
    Ok(base)
}
