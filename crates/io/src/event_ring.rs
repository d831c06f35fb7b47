//! Reads the events that BPF programs put into a ring (`kernel/bpf/ringbuf.c`).
//!
//! One reader only. It never waits: the caller looks as often as it likes.

use crate::sys::{Errno, bpf, memory, mmap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A record that its writer has not finished (`BPF_RINGBUF_BUSY_BIT`).
const BUSY: u32 = 1 << 31;
/// A record that its writer gave up (`BPF_RINGBUF_DISCARD_BIT`).
const DISCARDED: u32 = 1 << 30;
/// In front of each record: its length, and a number of the kernel's own.
const HEADER_BYTES: u64 = 8;
/// The longest record that is passed on.
const RECORD_WORDS_MAX: usize = 16;
/// Records after which their room is given back.
const RECORDS_A_STORE: u32 = 64;

/// A ring, mapped.
#[derive(Debug)]
pub struct EventRing {
    map: bpf::Map,
    ring_bytes: usize,
    consumer: *mut u8,
    producer: *mut u8,
    producer_bytes: usize,
}

impl EventRing {
    /// Makes a ring of `ring_bytes`, a power of two of at least a page.
    ///
    /// # Errors
    /// The kernel's: `EPERM` without `CAP_BPF`.
    pub fn new(ring_bytes: u32) -> Result<Self, Errno> {
        let map = bpf::Map::new(bpf::MapKind::Ring, 0, 0, ring_bytes)?;
        let page_bytes = mmap::page_bytes() as usize;
        let number = map.number();
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let consumer = memory::map(page_bytes, writable, libc::MAP_SHARED, number, 0)?;
        let producer_bytes = page_bytes + 2 * ring_bytes as usize;
        let producer = memory::map(
            producer_bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            number,
            page_bytes as u64,
        );
        let producer = match producer {
            Ok(producer) => producer,
            Err(errno) => {
                // SAFETY: mapped above, used by nobody else.
                let _ = unsafe { memory::unmap(consumer, page_bytes) };
                return Err(errno);
            }
        };
        Ok(Self {
            map,
            ring_bytes: ring_bytes as usize,
            consumer,
            producer,
            producer_bytes,
        })
    }

    /// The map, for instructions that write into the ring.
    #[must_use]
    pub fn map(&self) -> &bpf::Map {
        &self.map
    }

    /// Takes the finished records that are there now, in their order. `visit` gets the words of one record, 16 at
    /// most.
    pub fn drain(&mut self, mut visit: impl FnMut(&[u64])) {
        let page_bytes = mmap::page_bytes() as usize;
        // SAFETY: both mappings live as long as `self`, and begin with a word that the kernel changes atomically.
        let (consumed, produced) = unsafe {
            (
                &*self.consumer.cast::<AtomicU64>(),
                &*self.producer.cast::<AtomicU64>(),
            )
        };
        let mut position = consumed.load(Ordering::Relaxed);
        let mut taken = 0_u32;
        // Records may come faster than they are taken.
        let end = produced.load(Ordering::Acquire);
        while position < end {
            let at = position as usize & (self.ring_bytes - 1);
            // SAFETY: the data begins one page behind the producer's word. `at` is a multiple of 8 within the
            // ring, which is mapped twice in a row: a record never crosses the end of the mapping.
            let record = unsafe { self.producer.add(page_bytes + at) };
            // SAFETY: as above; the kernel stores the length last.
            let head = unsafe { &*record.cast::<AtomicU32>() }.load(Ordering::Acquire);
            if head & BUSY != 0 {
                break;
            }
            let length = u64::from(head & !(BUSY | DISCARDED));
            if head & DISCARDED == 0 {
                let mut words = [0_u64; RECORD_WORDS_MAX];
                let count = (length as usize / 8).min(RECORD_WORDS_MAX);
                for (place, word) in words.iter_mut().take(count).enumerate() {
                    // SAFETY: within the record, whose writer has finished.
                    *word = unsafe { record.cast::<u64>().add(1 + place).read_volatile() };
                }
                visit(words.get(..count).unwrap_or_default());
            }
            position += (length + HEADER_BYTES).next_multiple_of(8);
            taken += 1;
            // The kernel's writers read this word. Each store takes its cache line away from them.
            if taken.is_multiple_of(RECORDS_A_STORE) {
                consumed.store(position, Ordering::Release);
            }
        }
        consumed.store(position, Ordering::Release);
    }
}

impl Drop for EventRing {
    fn drop(&mut self) {
        let page_bytes = mmap::page_bytes() as usize;
        // SAFETY: mapped by `new`, used by nobody else.
        unsafe {
            let _ = memory::unmap(self.consumer, page_bytes);
            let _ = memory::unmap(self.producer, self.producer_bytes);
        }
    }
}
