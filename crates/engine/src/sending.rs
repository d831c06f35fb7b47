//! SSTables that the kernel sends: Cassandra streams whole ones by `sendfile`, which only the page
//! cache can feed. They pass through a bounded window of it ([`coldstream_io::sending`]).
//!
//! A send is followed under three conditions:
//!
//! - a background thread sends a little at a time, as Cassandra does (1 MiB);
//! - the file's bytes could be read in windows;
//! - heat tells what the foreground reads.
//!
//! All other sends get the kernel's readahead. Of two descriptors of a file only one is followed: what it
//! drops the other has to read again.

use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::core::{Core, fuse, inode_map};
use crate::heat::{HeatMap, Present};
use crate::readahead;
use crate::reads::{Choice, Reads};
use crate::thread::{self, Inside};
use coldstream_control::{Counter, Mechanism};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::append::Operation;
use coldstream_io::lock::FutexLock;
use coldstream_io::sending::{CALL_BYTES_MAX, SendfileStream};
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::memory;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Files that are sent at once; further ones are sent by plain calls.
const SENDS_MAX: usize = 16;

/// The window of a file that is being sent.
#[repr(C)]
struct Window {
    /// The file when the window began. After a change, or of another file, nothing is known.
    stamp: FileStamp,
    sending: SendfileStream,
}

/// A file that is being sent.
#[repr(C)]
struct Send {
    /// Slot of the inode plus one; 0 is a free entry. This and the descriptor are changed by the holder of
    /// `begin`.
    owner: AtomicU32,
    /// The application's descriptor.
    descriptor: AtomicI32,
    window: FutexLock<Window>,
}

impl Send {
    fn is_of(&self, tracked: TrackedFile, descriptor: i32) -> bool {
        self.owner.load(Ordering::Acquire) == tracked.slot + 1
            && self.descriptor.load(Ordering::Relaxed) == descriptor
    }
}

/// All of them; all-zero memory is none.
#[repr(C)]
pub struct Sendings {
    count: AtomicU32,
    begin: FutexLock<()>,
    sends: [Send; SENDS_MAX],
}

/// A call of `sendfile`, or another one that takes bytes from a descriptor.
pub struct SendCall {
    /// The descriptor that is read.
    pub descriptor: i32,
    /// Where the offset stands; null is the descriptor's position.
    pub position: *const i64,
    /// How many bytes are asked for.
    pub length_bytes: u64,
}

impl SendCall {
    /// What the call asks for. Without an offset of its own it reads at the descriptor's position, which another
    /// thread may move meanwhile.
    pub fn range(&self) -> Operation {
        match read_position(self.position) {
            Some(start) => Operation::ReadAt {
                start,
                end: start.saturating_add(self.length_bytes),
            },
            None => Operation::Read,
        }
    }
}

impl Sendings {
    /// The calling thread is about to call `sendfile`. Returns whether the bytes pass through a window of
    /// the page cache. If not, the call is plain.
    #[cold]
    pub fn follow(
        &self,
        core: &Core,
        heat: &HeatMap,
        reads: &Reads,
        tracked: TrackedFile,
        call: &SendCall,
    ) -> bool {
        if call.length_bytes > CALL_BYTES_MAX
            || !thread::is_background_reader()
            || !is_possible(core)
            || !core.owner.is_this_process()
        {
            return false;
        }
        let descriptor = call.descriptor;
        let _errno = ErrnoGuard::new();
        let (Some(start), Some(present)) = (read_position(call.position), heat.present()) else {
            return false;
        };
        let Some(_inside) = Inside::enter() else {
            return false;
        };
        let Ok((stamp, Choice::Windows(_))) = reads.eligible(core, tracked, descriptor) else {
            return false;
        };
        let Some(send) = self.begin(core, tracked, descriptor) else {
            return false;
        };
        let mut window = send.window.lock();
        if !send.is_of(tracked, descriptor) {
            return false;
        }
        if !is_same(&window.stamp, &stamp) {
            window.sending = SendfileStream::default();
            window.stamp = stamp;
        }
        // Pages of the kernel's readahead would look as if they had been there before. A plain send
        // meanwhile has given readahead back to the kernel.
        readahead::take_from_the_kernel(core, tracked, descriptor);
        let range = start..start.saturating_add(call.length_bytes);
        let is_kept = is_kept(core, tracked, &stamp, present);
        let dropped = window
            .sending
            .before_call(descriptor, range, stamp.size_bytes, is_kept);
        core.count(Counter::SendfileBytesDropped, dropped);
        // A switch may have come, and advised the descriptor, before us.
        let is_followed = is_possible(core);
        if !is_followed {
            let _ = file::advise(descriptor, 0, 0, libc::POSIX_FADV_NORMAL);
        }
        is_followed
    }

    /// A descriptor of a file is about to be closed: what is left of the window is dropped.
    #[inline]
    pub fn end(&self, core: &Core, heat: &HeatMap, tracked: TrackedFile, descriptor: i32) {
        if self.count.load(Ordering::Acquire) > 0 {
            self.end_of(core, heat, tracked, descriptor);
        }
    }

    /// As [`Sendings::end`], of all descriptors from `first` to `last`.
    pub fn end_range(&self, core: &Core, heat: &HeatMap, first: u32, last: u32) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for send in &self.sends {
            let descriptor = send.descriptor.load(Ordering::Relaxed);
            let is_in_range =
                u32::try_from(descriptor).is_ok_and(|it| (first..=last).contains(&it));
            if is_in_range && let Some(tracked) = core.tracked(descriptor) {
                self.end_of(core, heat, tracked, descriptor);
            }
        }
    }

    #[cold]
    fn end_of(&self, core: &Core, heat: &HeatMap, tracked: TrackedFile, descriptor: i32) {
        let is_sent = |send: &&Send| send.is_of(tracked, descriptor);
        // Not under the lock: it is held while another file's window is dropped. The search may miss a
        // descriptor that another thread is sending just now; such a close is the application's mistake.
        if !core.owner.is_this_process() || self.sends.iter().find(is_sent).is_none() {
            return;
        }
        let Some(_inside) = Inside::enter() else {
            return;
        };
        let _begin = self.begin.lock();
        let mut sends = self.sends.iter();
        let Some(send) = sends.find(is_sent) else {
            return;
        };
        let mut window = send.window.lock();
        if is_possible(core)
            && let Ok(stamp) = file::stamp(descriptor)
            && is_same(&window.stamp, &stamp)
            && let Some(present) = heat.present()
        {
            let is_kept = is_kept(core, tracked, &stamp, present);
            let dropped = window.sending.finish(descriptor, is_kept);
            core.count(Counter::SendfileBytesDropped, dropped);
        }
        send.owner.store(0, Ordering::Release);
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// The entry of a file that is sent by this descriptor, which may be a new one.
    fn begin(&self, core: &Core, tracked: TrackedFile, descriptor: i32) -> Option<&Send> {
        let _begin = self.begin.lock();
        let slot_of = |descriptor| core.tracked(descriptor).map(|tracked| tracked.slot + 1);
        let mut free = None;
        for send in &self.sends {
            if send.is_of(tracked, descriptor) {
                return Some(send);
            }
            let owner = send.owner.load(Ordering::Relaxed);
            let is_open = slot_of(send.descriptor.load(Ordering::Relaxed)) == Some(owner);
            if owner == 0 || !is_open {
                // The entry is free, or its descriptor was closed by a call that we did not see.
                free = free.or(Some(send));
            } else if owner == tracked.slot + 1 {
                return None;
            }
        }
        let send = free?;
        send.window.lock().sending = SendfileStream::default();
        send.descriptor.store(descriptor, Ordering::Relaxed);
        if send.owner.swap(tracked.slot + 1, Ordering::AcqRel) == 0 {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
        Some(send)
    }
}

/// Whether bulk reads go around the page cache, and Coldstream controls the readahead. The kernel's
/// readahead must not run ahead of the windows.
fn is_possible(core: &Core) -> bool {
    core.is_on(Mechanism::Reads) && readahead::is_ours(core) && !fuse::is_blown()
}

/// Whether the foreground has lately read a page of a file. The page in which a read ends does not count.
/// Nor do reads by position or by a mapping.
fn is_kept(
    core: &Core,
    tracked: TrackedFile,
    stamp: &FileStamp,
    present: Present,
) -> impl Fn(u64) -> bool {
    let (key, inode) = (inode_map::key_of(stamp), core.inodes.get(tracked.slot));
    let is_hot = move |offset| present.heat.of(key, offset, present.epoch) > 0;
    move |offset: u64| {
        inode.is_none_or(|inode| inode.has_uncounted_use())
            || is_hot(offset)
            || is_hot(offset.saturating_sub(PAGE_BYTES))
    }
}

/// Whether a file is the same, unchanged.
fn is_same(before: &FileStamp, now: &FileStamp) -> bool {
    before.same_inode(now) && before.changed_ns == now.changed_ns
}

/// The position at the application's address, if it can be read. `None` without one: the descriptor's own
/// position counts.
fn read_position(position: *const i64) -> Option<u64> {
    if position.is_null() || !memory::readable(position.cast(), size_of::<i64>()) {
        return None;
    }
    // SAFETY: it can be read, and any eight bytes are a number; the application promises the kernel the same.
    let position = unsafe { position.read_unaligned() };
    u64::try_from(position).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_descriptor_of_a_file_is_followed_until_it_is_closed() {
        let (core, tracked) = Core::with_file(3);
        // SAFETY: all-zero memory is a valid one.
        let sendings: Box<Sendings> = unsafe { Box::new_zeroed().assume_init() };
        let first = sendings.begin(&core, tracked, 3).unwrap();
        assert!(first.is_of(tracked, 3));
        let again = sendings.begin(&core, tracked, 3).unwrap();
        assert!(std::ptr::eq(first, again));
        assert!(sendings.begin(&core, tracked, 4).is_none(), "another one");
        assert_eq!(sendings.count.load(Ordering::Relaxed), 1);
        // After a close that was not seen, the next descriptor gets the entry.
        core.descriptors.take(3);
        assert!(sendings.begin(&core, tracked, 4).unwrap().is_of(tracked, 4));
        assert_eq!(sendings.count.load(Ordering::Relaxed), 1);
    }
}
