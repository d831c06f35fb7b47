//! Anonymous memory from the kernel, for maps and windows. The application's allocator may not be
//! called inside an interposed call.

use crate::sys::{Errno, memory};

/// What a forked child finds in place of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFork {
    /// Zeros: the child starts with empty state (`MADV_WIPEONFORK`, Linux 4.14).
    Wipe,
    /// Nothing at all (`MADV_DONTFORK`). A page must not be copied while the device may be writing
    /// into it.
    Unmap,
}

/// Maps `length_bytes` of zeroed private memory for the life of the process. The system gives each
/// page when it is first touched.
///
/// # Errors
/// The kernel's, such as `ENOMEM`; `EINVAL` before Linux 4.14 with [`OnFork::Wipe`].
pub fn map_for_life(length_bytes: usize, on_fork: OnFork) -> Result<*mut u8, Errno> {
    let base = memory::map_anonymous(length_bytes, libc::MAP_NORESERVE)?;
    let advice = match on_fork {
        OnFork::Wipe => memory::ADVICE_WIPE_ON_FORK,
        OnFork::Unmap => memory::ADVICE_DONT_FORK,
    };
    // SAFETY: neither advice changes the content that this process sees.
    if let Err(errno) = unsafe { memory::advise(base, length_bytes, advice) } {
        // SAFETY: nobody else uses the mapping yet.
        let _ = unsafe { memory::unmap(base, length_bytes) };
        return Err(errno);
    }
    // A core dump of a database should hold its state, and no copies of its files.
    // SAFETY: as above. If the kernel refuses, nothing else is lost.
    let _ = unsafe { memory::advise(base, length_bytes, memory::ADVICE_DONT_DUMP) };
    Ok(base)
}
