//! `mmap(2)`: a mapping shows a file's bytes without a call for each access.

use super::answer::Failed;
use super::next::interpose;
use super::staged;
use coldstream_engine::core::errno;
use coldstream_engine::runtime;
use coldstream_io::append::Operation;
use libc::{c_int, c_void, off64_t, size_t};

fn map(
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    (length, offset): (size_t, off64_t),
    next: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS != 0 {
        // The kernel ignores the descriptor.
        return next();
    }
    if runtime::get().is_some_and(|runtime| runtime.core.is_private(descriptor)) {
        errno::set(libc::EBADF);
        return libc::MAP_FAILED;
    }
    if descriptor >= 0 {
        let end = (offset.max(0) as u64).saturating_add(length as u64);
        if before_mapping(protection, flags, descriptor, end).is_err() {
            return libc::MAP_FAILED;
        }
    }
    let mapped = next();
    if descriptor >= 0
        && mapped != libc::MAP_FAILED
        && let Some(runtime) = runtime::get()
    {
        runtime.mapped(descriptor, protection, flags, mapped as usize, length);
    }
    mapped
}

/// To be called before a mapping of a staged file up to `end`. The file stays staged if no later byte can show
/// in the mapping.
fn before_mapping(
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    end: u64,
) -> Result<(), Failed> {
    let Some((_, tracked)) = staged::find(descriptor) else {
        return Ok(());
    };
    let only_reads = protection & libc::PROT_WRITE == 0 || flags & libc::MAP_PRIVATE != 0;
    let operation = if only_reads && !tracked.writable {
        Operation::Map { end }
    } else {
        Operation::Unknown
    };
    staged::drain_before(descriptor, operation)
}

interpose! {
    fn mmap | mmap64(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, descriptor: c_int, offset: off64_t) -> *mut c_void |next| {
        map(protection, flags, descriptor, (length, offset), next)
    }
}
