//! Pages that the caller's own reads bring in: they are dropped again, and those that were cached before stay.

use crate::file::coldstream_file;
use crate::guard::{handle, made, status};
use coldstream_io::Errno;
use coldstream_io::absent::{AbsentPages, RANGE_BYTES_MAX};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::residency;
use coldstream_sstable::memory::TryVec;

/// Pages of a file that were not cached at one moment. Its members are the library's own.
pub struct coldstream_absent {
    file: *const coldstream_file,
    start: u64,
    parts: Vec<AbsentPages>,
}

/// Remembers which pages of a range are not in the page cache at present.
///
/// Give the handle back by `coldstream_absent_drop`, before the file is closed.
///
/// Returns 0, or `-EINVAL`, `-ENOMEM`, or an error of the kernel. Where it does not tell what is cached, as of
/// other users' files that the process cannot write, nothing is remembered.
///
/// # Safety
/// The pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_absent_take(
    file: *const coldstream_file,
    offset: u64,
    length: u64,
    absent: *mut *mut coldstream_absent,
) -> i32 {
    let taken = || {
        // SAFETY: passed on.
        let of = unsafe { handle(file) }?;
        let end = offset.checked_add(length).ok_or(Errno(libc::EINVAL))?;
        let descriptor = of.file.number;
        let end = end.min(coldstream_io::sys::file::stamp(descriptor)?.size_bytes);
        // The first page may be needed by others: it is left alone unless the range begins with it.
        let start = offset.next_multiple_of(PAGE_BYTES);
        if start < end {
            residency::of_range(descriptor, start, end - start)?;
        }
        let mut parts = Vec::new();
        let mut at = start;
        while at < end {
            let part_bytes = (end - at).min(RANGE_BYTES_MAX);
            let part = AbsentPages::of(descriptor, at, part_bytes);
            parts.try_push(part).map_err(|_| Errno(libc::ENOMEM))?;
            at += part_bytes;
        }
        Ok(coldstream_absent { file, start, parts })
    };
    // SAFETY: the caller's place for the handle.
    unsafe { made(absent, taken) }
}

/// Drops the remembered pages from the page cache, and frees the handle. Pages that were cached before stay, and those
/// that have become hot.
///
/// Returns 0, or `-EINVAL`.
///
/// # Safety
/// The handle is null, or was not given back, and its file is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldstream_absent_drop(absent: *mut coldstream_absent) -> i32 {
    status(|| {
        if absent.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: made by `Box::into_raw`, and given back once.
        let absent = unsafe { Box::from_raw(absent) };
        // SAFETY: the caller keeps the file open.
        let file = &unsafe { handle(absent.file) }?.file;
        let hot = |offset| {
            let known = file
                .runtime
                .and_then(|it| Some((it, it.core.tracked(file.number)?)));
            known.is_some_and(|(runtime, tracked)| {
                runtime.heat.is_hot(&runtime.core, tracked.slot, offset)
            })
        };
        for (number, part) in (0..).zip(&absent.parts) {
            let start = absent.start + number * RANGE_BYTES_MAX;
            part.drop_again(file.number, start, hot);
        }
        Ok(())
    })
}
