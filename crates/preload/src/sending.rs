//! Tables that the kernel sends: Cassandra streams whole ones by `sendfile`, which nothing but the page
//! cache can feed. They pass through a bounded window of it ([`coldstream_io::sending`]).
//!
//! Followed are background threads that send a little at a time, as Cassandra does (1 MiB), of
//! tables whose bytes could be read in windows, while heat tells what the foreground reads. All others
//! get the kernel's readahead. Of two descriptors of a table one is followed: what it lets go the
//! other has to read again.

use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::core::inode_map;
use crate::heat::Present;
use crate::reads;
use crate::reads::filesystems::Choice;
use crate::runtime::Runtime;
use crate::thread::{self, Inside};
use coldstream_control::{Counter, Mechanism};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::lock::FutexLock;
use coldstream_io::sending::{CALL_BYTES_MAX, SendfileStream};
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::memory;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Tables that are sent at once; further ones are sent plainly.
const SENT_MAX: usize = 16;

/// The window of a table that is being sent.
#[repr(C)]
struct Window {
    /// What the window was begun with: after a change, or of another file, nothing is known.
    stamp: FileStamp,
    sending: SendfileStream,
}

/// A table that is being sent.
#[repr(C)]
struct Sent {
    /// Slot of the inode plus one; 0 is a free place. This and the descriptor are changed by who holds
    /// `begin`.
    owner: AtomicU32,
    /// The application's descriptor.
    descriptor: AtomicI32,
    window: FutexLock<Window>,
}

impl Sent {
    fn is_of(&self, tracked: TrackedFile, descriptor: i32) -> bool {
        self.owner.load(Ordering::Acquire) == tracked.slot + 1
            && self.descriptor.load(Ordering::Relaxed) == descriptor
    }
}

/// All of them; all-zero memory is none.
#[repr(C)]
pub(crate) struct Sendings {
    count: AtomicU32,
    begin: FutexLock<()>,
    places: [Sent; SENT_MAX],
}

impl Runtime {
    /// The calling thread is about to have up to `length_bytes` of a table sent, from the position at
    /// `position`. Whether they pass through a window; `false` is plainly.
    #[cold]
    pub(crate) fn follow_sending(
        &self,
        tracked: TrackedFile,
        descriptor: i32,
        position: *const i64,
        length_bytes: usize,
    ) -> bool {
        let length_bytes = length_bytes as u64;
        if length_bytes > CALL_BYTES_MAX
            || !thread::is_background_reader()
            || !self.sends_through_windows()
            || !self.are_ours()
        {
            return false;
        }
        let _errno = ErrnoGuard::new();
        let (Some(start), Some(present)) = (read_position(position), self.heat.present()) else {
            return false;
        };
        let Some(_inside) = Inside::enter() else {
            return false;
        };
        let Ok((stamp, Choice::Windows(_))) = reads::eligible(self, tracked, descriptor) else {
            return false;
        };
        let Some(sent) = self.place_of(tracked, descriptor) else {
            return false;
        };
        let mut window = sent.window.lock();
        if !sent.is_of(tracked, descriptor) {
            return false;
        }
        if !is_same(&window.stamp, &stamp) {
            window.sending = SendfileStream::default();
            window.stamp = stamp;
        }
        // The kernel's readahead would look as if its pages had been there; who has sent plainly
        // meanwhile got it back.
        self.take_from_the_kernel(tracked, descriptor);
        let call = start..start.saturating_add(length_bytes);
        let is_kept = self.is_kept(tracked, &stamp, present);
        let dropped = window
            .sending
            .before_call(descriptor, call, stamp.size_bytes, is_kept);
        self.count(Counter::SendfileBytesDropped, dropped);
        // A switch may have come, and told the descriptor, before us.
        let is_followed = self.sends_through_windows();
        if !is_followed {
            let _ = file::advise(descriptor, 0, 0, libc::POSIX_FADV_NORMAL);
        }
        is_followed
    }

    /// A descriptor of a table is about to be closed: what is left of the window is dropped.
    #[inline]
    pub(crate) fn end_sending(&self, tracked: TrackedFile, descriptor: i32) {
        if self.sendings.count.load(Ordering::Acquire) > 0 {
            self.end_sending_of(tracked, descriptor);
        }
    }

    /// As above, of descriptors whose numbers are about to be taken.
    pub(crate) fn end_sendings(&self, first: u32, last: u32) {
        if self.sendings.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for sent in &self.sendings.places {
            let descriptor = sent.descriptor.load(Ordering::Relaxed);
            let is_taken = u32::try_from(descriptor).is_ok_and(|it| (first..=last).contains(&it));
            if is_taken && let Some(tracked) = self.tracked(descriptor) {
                self.end_sending_of(tracked, descriptor);
            }
        }
    }

    #[cold]
    fn end_sending_of(&self, tracked: TrackedFile, descriptor: i32) {
        let is_sent = |sent: &&Sent| sent.is_of(tracked, descriptor);
        // Without the lock, which is held while another table's window is dropped: a descriptor that is
        // sent by one thread while another closes it is the application's own mistake.
        if !self.are_ours() || self.sendings.places.iter().find(is_sent).is_none() {
            return;
        }
        let Some(_inside) = Inside::enter() else {
            return;
        };
        let _begin = self.sendings.begin.lock();
        let mut places = self.sendings.places.iter();
        let Some(sent) = places.find(is_sent) else {
            return;
        };
        let mut window = sent.window.lock();
        if self.sends_through_windows()
            && let Ok(stamp) = file::stamp(descriptor)
            && is_same(&window.stamp, &stamp)
            && let Some(present) = self.heat.present()
        {
            let is_kept = self.is_kept(tracked, &stamp, present);
            let dropped = window.sending.finish(descriptor, is_kept);
            self.count(Counter::SendfileBytesDropped, dropped);
        }
        sent.owner.store(0, Ordering::Release);
        self.sendings.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether bulk reads are to leave the page cache alone, and readahead, which must not run ahead
    /// of the windows, is ours.
    fn sends_through_windows(&self) -> bool {
        self.switches.is_on(Mechanism::Reads) && self.controls_readahead() && !reads::is_broken()
    }

    /// The place of a table that is sent by this descriptor, which may be a new one.
    fn place_of(&self, tracked: TrackedFile, descriptor: i32) -> Option<&Sent> {
        let _begin = self.sendings.begin.lock();
        let slot_of = |descriptor| self.tracked(descriptor).map(|tracked| tracked.slot + 1);
        let mut free = None;
        for sent in &self.sendings.places {
            if sent.is_of(tracked, descriptor) {
                return Some(sent);
            }
            let owner = sent.owner.load(Ordering::Relaxed);
            let is_open = slot_of(sent.descriptor.load(Ordering::Relaxed)) == Some(owner);
            if owner == 0 || !is_open {
                // Or closed unseen.
                free = free.or(Some(sent));
            } else if owner == tracked.slot + 1 {
                return None;
            }
        }
        let sent = free?;
        sent.window.lock().sending = SendfileStream::default();
        sent.descriptor.store(descriptor, Ordering::Relaxed);
        if sent.owner.swap(tracked.slot + 1, Ordering::AcqRel) == 0 {
            self.sendings.count.fetch_add(1, Ordering::AcqRel);
        }
        Some(sent)
    }

    /// Whether the foreground has lately read a page of a table: where a read that it made ends is
    /// not counted in the page, nor is what it reads by position or by a mapping.
    fn is_kept(
        &self,
        tracked: TrackedFile,
        stamp: &FileStamp,
        present: Present,
    ) -> impl Fn(u64) -> bool {
        let (key, inode) = (inode_map::key_of(stamp), self.inodes.get(tracked.slot));
        let is_hot = move |offset| present.heat.of(key, offset, present.epoch) > 0;
        move |offset: u64| {
            inode.is_none_or(|inode| inode.is_read_unseen())
                || is_hot(offset)
                || is_hot(offset.saturating_sub(PAGE_BYTES))
        }
    }
}

/// Whether a file is the one that it was, unchanged.
fn is_same(before: &FileStamp, now: &FileStamp) -> bool {
    before.same_inode(now) && before.changed_ns == now.changed_ns
}

/// What stands at the application's address, if it can be read; `None` without one: the descriptor's
/// own position.
fn read_position(position: *const i64) -> Option<u64> {
    if position.is_null() || !memory::readable(position.cast(), size_of::<i64>()) {
        return None;
    }
    // SAFETY: it can be read, and any eight bytes are a number; the application promises the kernel
    // the same.
    let position = unsafe { position.read_unaligned() };
    u64::try_from(position).ok()
}
