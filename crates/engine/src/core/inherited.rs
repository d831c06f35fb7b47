//! Private descriptors in a forked child. A child inherits its parent's, but not the parent's state. They are closed
//! there at once: they would keep deleted SSTables on the disk for as long as the child lives.
//!
//! The list is outside the wiped region. A child of `vfork`, `posix_spawn` or `clone` does not come here.

use super::descriptor_map::PrivateFile;
use coldstream_io::private::is_marked;
use coldstream_io::sys::file::{self, FileStamp};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// Private descriptors are fewer, but get numbers above those that an application with many files has there. Numbers
/// beyond are inherited.
const NUMBERS_MAX: usize = 65_536;

/// The number of the first entry.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// Entries in use lie before this one.
static END: AtomicUsize = AtomicUsize::new(0);
/// What each number names, as [`PrivateFile::identity_of`] tells, plus one; 0 is none.
static IDENTITIES: [AtomicU32; NUMBERS_MAX] = [const { AtomicU32::new(0) }; NUMBERS_MAX];

/// The lowest number of a private descriptor. Called before the first one is opened.
pub fn set_first(number: i32) {
    FIRST.store(number, Ordering::Relaxed);
}

fn entry(number: i32) -> Option<(usize, &'static AtomicU32)> {
    let index = usize::try_from(number.checked_sub(FIRST.load(Ordering::Relaxed))?).ok()?;
    Some((index, IDENTITIES.get(index)?))
}

/// A private descriptor was opened.
pub fn record(number: i32, stamp: &FileStamp) {
    if let Some((index, identity)) = entry(number) {
        END.fetch_max(index + 1, Ordering::Relaxed);
        identity.store(PrivateFile::identity_of(stamp) + 1, Ordering::Relaxed);
    }
}

/// A private descriptor is about to be closed.
pub fn forget(number: i32) {
    if let Some((_, identity)) = entry(number) {
        identity.store(0, Ordering::Relaxed);
    }
}

/// Runs in a forked child, before `fork` returns there.
///
/// # Safety
/// No other thread runs.
pub unsafe extern "C" fn close_in_child() {
    let end = END.swap(0, Ordering::Relaxed);
    let first = FIRST.load(Ordering::Relaxed);
    for (number, identity) in (first..).zip(IDENTITIES.iter().take(end)) {
        // Most are none. To write these would take memory.
        let own = identity.load(Ordering::Relaxed);
        if own == 0 {
            continue;
        }
        identity.store(0, Ordering::Relaxed);
        let is_same = |stamp: FileStamp| PrivateFile::identity_of(&stamp) + 1 == own;
        if is_marked(number) && file::stamp(number).is_ok_and(is_same) {
            let _ = file::close(number);
        }
    }
}
