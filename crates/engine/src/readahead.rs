//! Readahead of SSTables: none around reads at random places, and our own ahead of range scans.
//!
//! All threads of a database share a descriptor, and with it the kernel's idea of how it is read. Point reads
//! of many threads look like a scan once enough is cached, and each then reads up to `read_ahead_kb`. So
//! every descriptor of an SSTable gets `FADV_RANDOM`, with its first read at an offset. Scans are found out for each
//! thread by itself ([`coldstream_policy::scan`]).
//!
//! A descriptor that is read in ways that Coldstream does not see (io_uring) keeps the kernel's readahead.
//!
//! Around a fault in a mapped file the kernel reads as much, whatever the descriptor's advice
//! (`mm/filemap.c`, `do_sync_mmap_readahead`): see [`crate::mapped`].

use crate::core::Core;
use crate::core::descriptor_map::{Entry, TrackedFile};
use crate::core::errno::ErrnoGuard;
use crate::settings;
use crate::thread;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::sys::file;
use coldstream_io::{residency, warm};
use coldstream_policy::Readahead;
use coldstream_policy::scan::{Ahead, Need};
use std::ops::Range;

/// Whether readahead is ours.
#[inline]
pub fn is_ours(core: &Core) -> bool {
    settings::get().is_some_and(|settings| settings.config.readahead != Readahead::Kernel)
        && core.is_on(Mechanism::Readahead)
}

/// A call is about to read a file at an offset.
#[inline]
pub fn record_read_at_offset(core: &Core, tracked: TrackedFile, descriptor: i32) {
    if tracked.servable && !tracked.at_offsets && !tracked.in_sequence {
        begin(core, tracked, descriptor);
    }
}

#[cold]
fn begin(core: &Core, tracked: TrackedFile, descriptor: i32) {
    let _errno = ErrnoGuard::new();
    if !core.owner.is_this_process() || !is_same_inode(core, tracked, descriptor) {
        return;
    }
    // Before the advice: the control thread visits such descriptors only.
    core.update(descriptor, tracked.slot, |file| file.at_offsets = true);
    if is_ours(core) {
        let _ = file::advise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM);
        if !is_ours(core) {
            // The control thread may have been here before.
            let _ = file::advise(descriptor, 0, 0, i32::from(tracked.advice));
        }
    }
}

/// Whether a descriptor still names the file. It may have been closed by a call that Coldstream did not see.
fn is_same_inode(core: &Core, tracked: TrackedFile, descriptor: i32) -> bool {
    let inode = core.inodes.get(tracked.slot);
    let stamp = file::stamp(descriptor);
    inode.is_some_and(|inode| stamp.is_ok_and(|stamp| inode.is(&stamp)))
}

/// A background thread reads a file by a plain call: reads ahead if that is part of a scan.
pub fn record_background_read(
    core: &Core,
    tracked: TrackedFile,
    descriptor: i32,
    offset: u64,
    length_bytes: u64,
) {
    thread::record_sequence(descriptor, offset, length_bytes, |need| {
        // The kernel's readahead is too far for it: a foreground read would wait behind it.
        if let Need::Range(range) | Need::LongRange(range) = need {
            request(core, tracked, descriptor, range);
        }
        Ahead::Own
    });
}

/// A plain call has read a file: reads ahead if that is part of a scan. Returns whether it is, of a foreground read.
pub fn after_read(
    core: &Core,
    tracked: TrackedFile,
    descriptor: i32,
    offset: u64,
    length_bytes: u64,
) -> Option<bool> {
    if thread::is_background_reader() {
        record_background_read(core, tracked, descriptor, offset, length_bytes);
        return None;
    }
    let in_scan = thread::record_sequence(descriptor, offset, length_bytes, |need| match need {
        // The next read begins where this one ended.
        Need::Look(range) => {
            let next = Need::Look(range.end..range.end + 1);
            read_ahead(core, tracked, descriptor, next)
        }
        need => read_ahead(core, tracked, descriptor, need),
    });
    Some(in_scan)
}

/// The calling thread scans a file, and needs this. Returns who reads ahead of it from now on.
#[cold]
pub fn read_ahead(core: &Core, tracked: TrackedFile, descriptor: i32, need: Need) -> Ahead {
    match need {
        Need::Range(range) => {
            request(core, tracked, descriptor, range);
            Ahead::Own
        }
        Need::LongRange(range) => {
            if is_left_to_the_kernel(core, tracked, descriptor, &range) {
                return Ahead::Kernel;
            }
            request(core, tracked, descriptor, range);
            Ahead::OwnForGood
        }
        Need::Look(range) => {
            let _errno = ErrnoGuard::new();
            if is_cached(descriptor, range.start..range.start + 1) {
                return Ahead::Kernel;
            }
            Ahead::Own
        }
    }
}

fn request(core: &Core, tracked: TrackedFile, descriptor: i32, range: Range<u64>) {
    if tracked.servable && !tracked.in_sequence && is_ours(core) {
        let _errno = ErrnoGuard::new();
        let length_bytes = range.end - range.start;
        warm::read_ahead(descriptor, range.start, length_bytes);
        core.count(Counter::ScanBytesAhead, length_bytes);
    }
}

/// The kernel must read at least this far ahead, its usual `read_ahead_kb`. Else Coldstream's readahead is faster.
const KERNEL_BYTES_MIN: u64 = 128 << 10;

/// Starts the kernel's own readahead of a long scan at the beginning of `range`. Returns whether it reads ahead from
/// now on.
///
/// Only its own readahead uses large folios. `FADV_RANDOM` prevents that a miss starts it. It does not prevent that it
/// goes on, when a read meets a marked folio (`mm/readahead.c: page_cache_async_ra`). So a single read without the
/// advice is enough, which waits for nothing (`RWF_NOWAIT`).
fn is_left_to_the_kernel(
    core: &Core,
    tracked: TrackedFile,
    descriptor: i32,
    range: &Range<u64>,
) -> bool {
    // If the database wants no readahead of the kernel's, it gets none.
    if !tracked.servable
        || tracked.in_sequence
        || i32::from(tracked.advice) == libc::POSIX_FADV_RANDOM
        || !is_ours(core)
    {
        return false;
    }
    let _errno = ErrnoGuard::new();
    match residency::of_range_for_certain(descriptor, range.start, range.end - range.start) {
        // Nobody could tell when the kernel stops.
        Err(_) => return false,
        Ok(residency) if residency.is_complete() => return true,
        Ok(_) => {}
    }
    if !core.owner.is_this_process() || !is_same_inode(core, tracked, descriptor) {
        return false;
    }
    let advise = |advice| file::advise(descriptor, 0, 0, advice);
    if advise(libc::POSIX_FADV_NORMAL).is_err() {
        return false;
    }
    warm::start_kernel_readahead(descriptor, range.start);
    if !is_cached(descriptor, range.clone()) {
        // It reads less far ahead than Coldstream. From now on it reads twice as far.
        let _ = advise(libc::POSIX_FADV_SEQUENTIAL);
    }
    let _ = advise(libc::POSIX_FADV_RANDOM);
    let is_in_sequence = |tracked: TrackedFile| tracked.in_sequence;
    if !is_ours(core) || core.tracked(descriptor).is_some_and(is_in_sequence) {
        // The control thread, or a thread that reads at the position, may have been here before.
        let _ = advise(i32::from(tracked.advice));
    }
    let least = range.start..range.end.min(range.start + KERNEL_BYTES_MIN);
    is_cached(descriptor, least)
}

/// Whether a range is in the page cache, or on its way there. Not, if the kernel cannot say.
fn is_cached(descriptor: i32, range: Range<u64>) -> bool {
    residency::of_range_for_certain(descriptor, range.start, range.end - range.start)
        .is_ok_and(|residency| residency.is_complete())
}

/// The application advises how it will read a whole file. Remembers the advice, and returns whether to skip
/// it. It is skipped where Coldstream controls the readahead.
#[cold]
pub fn keep_advice(core: &Core, tracked: TrackedFile, descriptor: i32, advice: i32) -> bool {
    if !tracked.servable || !is_same_inode(core, tracked, descriptor) {
        return false;
    }
    let advice = advice as u8;
    core.update(descriptor, tracked.slot, |file| file.advice = advice);
    is_ours(core) && tracked.at_offsets && !tracked.in_sequence
}

/// A call reads or sends a file from the descriptor's position, and so in sequence. From now on the kernel
/// controls this descriptor's readahead. The caller has a descriptor of its own, and Coldstream does not read
/// ahead for it. See also [`crate::sending`].
#[inline]
pub fn record_sequential(core: &Core, tracked: TrackedFile, descriptor: i32) {
    if tracked.servable && !tracked.in_sequence {
        leave_to_the_kernel(core, tracked, descriptor);
    }
}

#[cold]
fn leave_to_the_kernel(core: &Core, tracked: TrackedFile, descriptor: i32) {
    let _errno = ErrnoGuard::new();
    if !core.owner.is_this_process() || !is_same_inode(core, tracked, descriptor) {
        return;
    }
    core.update(descriptor, tracked.slot, |file| file.in_sequence = true);
    if is_ours(core) {
        let _ = file::advise(descriptor, 0, 0, i32::from(tracked.advice));
    }
}

/// From now on Coldstream controls the file's readahead again.
pub fn take_from_the_kernel(core: &Core, tracked: TrackedFile, descriptor: i32) {
    if tracked.in_sequence || !tracked.at_offsets {
        core.update(descriptor, tracked.slot, |file| {
            file.in_sequence = false;
            file.at_offsets = true;
        });
    }
    let _ = file::advise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM);
}

/// Gives the present switch its effect on all files that are open. Needs no thread-local storage:
/// the control thread calls it.
pub fn switch(core: &Core) {
    let is_on = is_ours(core);
    let own = |tracked: TrackedFile| i32::from(tracked.advice);
    if !is_on {
        advise_each(core, |tracked| Some(own(tracked)));
        return;
    }
    let random = libc::POSIX_FADV_RANDOM;
    advise_each(core, |tracked| tracked.at_offsets.then_some(random));
    // Afterwards: a duplicate of a descriptor that is read in sequence has an entry of its own, and one may have
    // become so meanwhile.
    advise_each(core, |tracked| tracked.in_sequence.then(|| own(tracked)));
}

/// Advises the descriptors of all files that `advice` has an answer for.
fn advise_each(core: &Core, advice: impl Fn(TrackedFile) -> Option<i32>) {
    core.each_descriptor(|descriptor, entry| {
        if let Entry::Tracked(tracked) = entry
            && tracked.servable
            && let Some(advice) = advice(tracked)
            && is_same_inode(core, tracked, descriptor)
        {
            let _ = file::advise(descriptor, 0, 0, advice);
        }
    });
}
