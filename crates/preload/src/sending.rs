//! Tables that the kernel sends: Cassandra streams whole ones by `sendfile`, which nothing but the page
//! cache can feed. They pass through a bounded window of it ([`coldstream_io::sending`]).
//!
//! Followed are background threads that send a little at a time, as Cassandra does (1 MiB), of
//! tables whose bytes could be read in windows, while heat tells what the foreground reads. All others
//! get the kernel's readahead. Of two descriptors of a table one is followed: what it lets go the
//! other has to read again.

use crate::background;
use crate::books::Books;
use crate::descriptors::Table;
use crate::errno::ErrnoGuard;
use crate::filesystems::Choice;
use crate::heat::Present;
use crate::inodes;
use crate::thread::{self, Inside};
use coldstream_control::{Counter, Mechanism};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::lock::FutexLock;
use coldstream_io::sending::{CALL_BYTES_MAX, Sending};
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::memory;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Tables that are sent at once; further ones are sent plainly.
const SENT_MAX: usize = 16;

/// A table that is being sent.
#[repr(C)]
struct Sent {
    /// Slot of the inode plus one; 0 is a free place. Changed by who holds `begin` or `sending`.
    owner: AtomicU32,
    /// The application's descriptor.
    descriptor: AtomicI32,
    sending: FutexLock<Sending>,
}

/// All of them; all-zero memory is none.
#[repr(C)]
pub(crate) struct Sendings {
    count: AtomicU32,
    begin: FutexLock<()>,
    places: [Sent; SENT_MAX],
}

impl Sendings {
    fn of(&self, table: Table) -> Option<&Sent> {
        let owner = table.slot + 1;
        self.places
            .iter()
            .find(|sent| sent.owner.load(Ordering::Acquire) == owner)
    }
}

impl Books {
    /// The calling thread is about to have up to `length_bytes` of a table sent, from the position at
    /// `position`. Whether they pass through a window; `false` is plainly.
    #[cold]
    pub(crate) fn follow_sending(
        &self,
        table: Table,
        descriptor: i32,
        position: *const i64,
        length_bytes: usize,
    ) -> bool {
        let length_bytes = length_bytes as u64;
        if length_bytes > CALL_BYTES_MAX
            || !thread::is_background_reader()
            || !self.switches.is_on(Mechanism::Reads)
            || !self.controls_readahead()
            || background::is_broken()
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
        let Ok((stamp, Choice::Windows(_))) = background::eligible(self, table, descriptor) else {
            return false;
        };
        let Some(sent) = self.place_of(table, descriptor) else {
            return false;
        };
        // Kernel's readahead would look as if its pages had been there; who has been sending plainly
        // meanwhile got it back.
        let _ = file::advise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM);
        let call = start..start.saturating_add(length_bytes);
        let is_kept = self.is_kept(table, &stamp, present);
        let mut sending = sent.sending.lock();
        if sent.owner.load(Ordering::Relaxed) != table.slot + 1 {
            return false;
        }
        let dropped = sending.go_on(descriptor, call, stamp.size_bytes, is_kept);
        self.count(Counter::SentBytesDropped, dropped);
        true
    }

    /// A descriptor of a table is about to be closed: what is left of the window is dropped.
    #[inline]
    pub(crate) fn end_sending(&self, table: Table, descriptor: i32) {
        if self.sendings.count.load(Ordering::Acquire) > 0 {
            self.end_sending_of(table, descriptor);
        }
    }

    #[cold]
    fn end_sending_of(&self, table: Table, descriptor: i32) {
        let Some(_inside) = Inside::enter() else {
            return;
        };
        let Some(sent) = self.sendings.of(table) else {
            return;
        };
        if sent.descriptor.load(Ordering::Relaxed) != descriptor {
            return;
        }
        let _begin = self.sendings.begin.lock();
        let mut sending = sent.sending.lock();
        // Whoever closes it knows that it is this file, but for what was closed unseen.
        if let Some(inode) = self.inodes.get(table.slot)
            && let Ok(stamp) = file::stamp(descriptor)
            && inode.is(&stamp)
            && let Some(present) = self.heat.present()
        {
            let is_kept = self.is_kept(table, &stamp, present);
            let dropped = sending.finish(descriptor, is_kept);
            self.count(Counter::SentBytesDropped, dropped);
        }
        *sending = Sending::default();
        sent.owner.store(0, Ordering::Release);
        self.sendings.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// The place of a table that is sent by this descriptor, which may be a new one.
    fn place_of(&self, table: Table, descriptor: i32) -> Option<&Sent> {
        let _begin = self.sendings.begin.lock();
        if let Some(sent) = self.sendings.of(table) {
            let owner = sent.descriptor.load(Ordering::Relaxed);
            if owner != descriptor && self.table(owner).is_some_and(|of| of.slot == table.slot) {
                return None;
            }
            // What was closed unseen is another's to go on with, or to leave.
            sent.descriptor.store(descriptor, Ordering::Relaxed);
            return Some(sent);
        }
        let is_free = |sent: &&Sent| {
            let owner = sent.owner.load(Ordering::Relaxed);
            let descriptor = sent.descriptor.load(Ordering::Relaxed);
            let is_open = self
                .table(descriptor)
                .is_some_and(|table| table.slot + 1 == owner);
            owner == 0 || !is_open
        };
        let sent = self.sendings.places.iter().find(is_free)?;
        *sent.sending.lock() = Sending::default();
        sent.descriptor.store(descriptor, Ordering::Relaxed);
        if sent.owner.swap(table.slot + 1, Ordering::AcqRel) == 0 {
            self.sendings.count.fetch_add(1, Ordering::AcqRel);
        }
        Some(sent)
    }

    /// Whether the foreground has lately read a page of a table: where a read that it made ends is
    /// not counted in the page, nor is what it reads by position or by a mapping.
    fn is_kept(&self, table: Table, stamp: &FileStamp, present: Present) -> impl Fn(u64) -> bool {
        let (key, inode) = (inodes::key_of(stamp), self.inodes.get(table.slot));
        let is_hot = move |offset| present.heat.of(key, offset, present.epoch) > 0;
        move |offset: u64| {
            inode.is_none_or(|inode| inode.is_read_unseen())
                || is_hot(offset)
                || is_hot(offset.saturating_sub(PAGE_BYTES))
        }
    }
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
