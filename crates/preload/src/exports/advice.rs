//! `posix_fadvise(2)` and `readahead(2)`: advice about tracked files.

use super::answer::unless_private;
use super::next::interpose;
use coldstream_engine::runtime;
use libc::{c_int, off64_t, size_t, ssize_t};

fn advise(
    descriptor: c_int,
    offset: off64_t,
    length_bytes: off64_t,
    advice: c_int,
    next: impl FnOnce() -> c_int,
) -> c_int {
    let Some(runtime) = runtime::get() else {
        return next();
    };
    if runtime.core.is_private(descriptor) {
        return libc::EBADF;
    }
    let Some(tracked) = runtime.core.tracked(descriptor) else {
        return next();
    };
    let is_needed = advice == libc::POSIX_FADV_WILLNEED && offset >= 0 && length_bytes >= 0;
    if is_needed && runtime.skip_range_advice(tracked, descriptor) {
        return 0;
    }
    let patterns = [
        libc::POSIX_FADV_NORMAL,
        libc::POSIX_FADV_SEQUENTIAL,
        libc::POSIX_FADV_RANDOM,
    ];
    // Whatever range they name, the kernel takes them for the whole (`mm/fadvise.c`).
    if length_bytes >= 0
        && patterns.contains(&advice)
        && runtime.skip_file_advice(tracked, descriptor, advice)
    {
        return 0;
    }
    next()
}

interpose! {
    fn readahead(descriptor: c_int, offset: off64_t, length: size_t) -> ssize_t |next| {
        unless_private(descriptor, || {
            let runtime = runtime::get();
            let tracked = runtime.and_then(|runtime| runtime.core.tracked(descriptor));
            match (runtime, tracked) {
                (Some(runtime), Some(tracked))
                    if offset >= 0 && runtime.skip_range_advice(tracked, descriptor) =>
                {
                    0
                }
                _ => next(),
            }
        })
    }
    fn posix_fadvise | posix_fadvise64(descriptor: c_int, offset: off64_t, length: off64_t, advice: c_int) -> c_int |next| {
        advise(descriptor, offset, length, advice, next)
    }
}
