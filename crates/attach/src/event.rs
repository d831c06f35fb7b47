//! What the programs in the kernel tell: a page entered the page cache, a range was read through it, or a thread
//! reads ahead.

use std::ops::Range;

/// A file for the kernel: device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The device, as `stat(2)` has it.
    pub device: u64,
    /// The number of the inode.
    pub inode: u64,
}

impl FileId {
    /// The number under which heat is kept.
    #[must_use]
    pub fn key(self) -> u64 {
        self.inode ^ self.device.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// These pages entered the page cache: a thread read them, read them ahead, or wrote them.
    Added,
    /// A thread read these pages out of the page cache.
    Read,
    /// A thread reads ahead, and its descriptor allows that many pages at once.
    ReadAhead(u32),
}

/// The system call that an event belongs to, and its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It reads by this descriptor.
    Read(u32),
    /// It writes by this descriptor.
    Write(u32),
    /// A page fault, or another call.
    Other,
}

impl Call {
    fn of(first: u64, number: u64) -> Self {
        match number as i64 {
            libc::SYS_pread64
            | libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_preadv
            | libc::SYS_preadv2 => Self::Read(first as u32),
            libc::SYS_pwrite64
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwritev
            | libc::SYS_pwritev2 => Self::Write(first as u32),
            _ => Self::Other,
        }
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub what: What,
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The thread's name, with zeros behind it.
    pub name: [u8; 16],
    /// What the thread does, where the programs tell it.
    pub call: Option<Call>,
    /// The file.
    pub file: FileId,
    /// The first page, in pages of 4096 bytes.
    pub page: u64,
    /// The number of pages.
    pub pages: u64,
}

/// Words of an event in the ring.
pub(crate) const EVENT_WORDS: usize = 10;
pub(crate) const ADDED: i32 = 1;
pub(crate) const READ: i32 = 2;
pub(crate) const READ_AHEAD: i32 = 3;
/// The last two words are the call's.
pub(crate) const BY_CALL: i32 = 1 << 7;

/// A folio with more than one page (`PG_head`).
const FOLIO_IS_LARGE: u64 = 1 << 6;
/// The largest order of a folio that is believed: 2 MiB.
const ORDER_MAX: u64 = 9;
/// The longest read that is believed, in pages.
const READ_PAGES_MAX: u64 = 1 << 20;

impl Event {
    /// The pages.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.page..self.page.saturating_add(self.pages)
    }

    /// The event of a record in the ring; `None` if it is none.
    #[must_use]
    pub fn decode(words: &[u64]) -> Option<Self> {
        let [
            process_and_thread,
            kind_and_device,
            inode,
            first,
            last_or_flags,
            more,
            name_begin,
            name_end,
            argument,
            number,
        ] = *words
        else {
            return None;
        };
        let kind = kind_and_device as i32 & 0xff;
        let (what, page, pages) = match kind & !BY_CALL {
            ADDED => {
                let is_large = last_or_flags & FOLIO_IS_LARGE != 0;
                let order = if is_large { more & 0xff } else { 0 };
                if order > ORDER_MAX || first & ((1 << order) - 1) != 0 {
                    return None;
                }
                (What::Added, first, 1 << order)
            }
            READ => {
                let pages = last_or_flags.saturating_sub(first).saturating_add(1);
                (What::Read, first, pages.min(READ_PAGES_MAX))
            }
            READ_AHEAD => (What::ReadAhead(more as u32), first, 0),
            _ => return None,
        };
        let mut name = [0; 16];
        name[..8].copy_from_slice(&name_begin.to_ne_bytes());
        name[8..].copy_from_slice(&name_end.to_ne_bytes());
        // The kernel's own numbers have 20 bits for the minor one (`include/linux/kdev_t.h`).
        let device = (kind_and_device >> 32) as u32;
        Some(Self {
            what,
            process: (process_and_thread >> 32) as u32,
            thread: process_and_thread as u32,
            name,
            call: (kind & BY_CALL != 0).then(|| Call::of(argument, number)),
            file: FileId {
                device: libc::makedev(device >> 20, device & 0xf_ffff),
                inode,
            },
            page,
            pages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folios_count_with_their_pages_and_nonsense_is_no_event() {
        let words = |kind: u64, first, flags, more| {
            [
                7 << 32 | 9,
                kind | 0x00f0_0001 << 32,
                42,
                first,
                flags,
                more,
                0,
                0,
                0,
                0,
            ]
        };
        let event = Event::decode(&words(1, 8, FOLIO_IS_LARGE, 3)).unwrap();
        assert_eq!((event.process, event.thread), (7, 9));
        assert_eq!((event.what, event.page, event.pages), (What::Added, 8, 8));
        assert_eq!(event.file.device, libc::makedev(15, 1));
        assert_eq!(Event::decode(&words(1, 8, 0, 3)).unwrap().pages, 1);
        assert_eq!(Event::decode(&words(1, 4, FOLIO_IS_LARGE, 3)), None);
        assert_eq!(Event::decode(&words(1, 0, FOLIO_IS_LARGE, 12)), None);
        let read = Event::decode(&words(2, 8, 9, 0)).unwrap();
        assert_eq!((read.pages, read.what), (2, What::Read));
        assert_eq!(Event::decode(&words(4, 0, 0, 0)), None);
        assert_eq!(Event::decode(&[1, 2]), None);
    }

    #[test]
    fn calls_are_told_by_their_numbers() {
        let call = |number: i64| {
            let kind = (READ | BY_CALL) as u64;
            let words = [0, kind, 0, 0, 0, 0, 0, 0, 9, number as u64];
            Event::decode(&words).and_then(|event| event.call)
        };
        assert_eq!(call(libc::SYS_pread64), Some(Call::Read(9)));
        assert_eq!(call(libc::SYS_write), Some(Call::Write(9)));
        // A page fault.
        assert_eq!(call(-1), Some(Call::Other));
    }
}
