//! The descriptor map: number → what Coldstream knows of the descriptor.
//!
//! Lock-free; a look-up is two loads. It grows by leaves as numbers are used, never by what `RLIMIT_NOFILE`
//! would allow.

#[cfg(not(loom))]
use coldstream_io::mapping::{OnFork, map_for_life};
use coldstream_io::sync::{AtomicPtr, AtomicU64, Ordering};
use coldstream_io::sys::file::FileStamp;
use coldstream_policy::FileKind;
use std::num::NonZeroU64;

/// Entries of a leaf: one page of memory. Few in a model.
const LEAF_ENTRIES: usize = if cfg!(loom) { 2 } else { 512 };
/// Leaves: numbers up to a million. Higher ones are not tracked.
const LEAVES: usize = if cfg!(loom) { 2 } else { 2048 };

/// What is known of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The application's descriptor of an SSTable.
    Tracked(TrackedFile),
    /// Coldstream's own descriptor.
    Private(PrivateFile),
}

/// Coldstream's own descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateFile {
    /// Slot in the inode map of the file on whose behalf it was opened.
    pub slot: u32,
    /// Some bits of the device and the inode that it names: [`PrivateFile::identity_of`].
    pub identity: u32,
}

impl PrivateFile {
    /// Bits of device and inode that fit beside a slot.
    pub fn identity_of(stamp: &FileStamp) -> u32 {
        let key = stamp.inode ^ stamp.device.rotate_left(32);
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - IDENTITY_BITS)) as u32
    }
}

const IDENTITY_BITS: u32 = 23;
const IDENTITY_SHIFT: u32 = 64 - IDENTITY_BITS;

/// The application's descriptor of an SSTable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackedFile {
    /// Slot in the inode map.
    pub slot: u32,
    /// The engine whose SSTable it is.
    pub kind: FileKind,
    /// Opened for writing.
    pub writable: bool,
    /// Background reads can be served: it was opened read-only and without `O_DIRECT`.
    pub servable: bool,
    /// The file was staged when this descriptor was opened. Only such a descriptor can ever miss staged bytes;
    /// others need no look.
    pub watched: bool,
    /// The application's last advice for the whole file: `POSIX_FADV_NORMAL`, `_RANDOM` or `_SEQUENTIAL`.
    pub advice: u8,
    /// It is read or sent by its position, in sequence: readahead is the kernel's.
    pub in_sequence: bool,
    /// A call that Coldstream saw has read it at an offset: readahead is Coldstream's, unless it is switched off.
    pub at_offsets: bool,
}

const PRIVATE: u64 = 1 << 40;
const WRITABLE: u64 = 1 << 41;
const SERVABLE: u64 = 1 << 42;
const WATCHED: u64 = 1 << 43;
const ADVICE_SHIFT: u32 = 44;
const ADVICE: u64 = 3;
const IN_SEQUENCE: u64 = 1 << 46;
const AT_OFFSETS: u64 = 1 << 47;

/// What is known of a descriptor, which may be private: an [`Entry`] in one word, which a look-up keeps in a
/// register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownDescriptor(NonZeroU64);

impl KnownDescriptor {
    /// `None` if the word is 0: nothing is known.
    #[inline]
    pub(super) fn of(word: u64) -> Option<Self> {
        NonZeroU64::new(word).map(Self)
    }

    /// What is known.
    #[inline]
    pub fn entry(self) -> Entry {
        let word = self.0.get();
        // One was added, so that no entry is 0.
        let slot = (word as u32).wrapping_sub(1);
        if word & PRIVATE != 0 {
            let identity = (word >> IDENTITY_SHIFT) as u32;
            return Entry::Private(PrivateFile { slot, identity });
        }
        Entry::Tracked(TrackedFile {
            slot,
            kind: FileKind::from_u8((word >> 32) as u8),
            writable: word & WRITABLE != 0,
            servable: word & SERVABLE != 0,
            watched: word & WATCHED != 0,
            advice: (word >> ADVICE_SHIFT & ADVICE) as u8,
            in_sequence: word & IN_SEQUENCE != 0,
            at_offsets: word & AT_OFFSETS != 0,
        })
    }
}

impl Entry {
    /// Never 0, which means "nothing is known".
    pub(super) fn pack(self) -> u64 {
        match self {
            Entry::Private(private) => {
                PRIVATE
                    | u64::from(private.slot + 1)
                    | u64::from(private.identity) << IDENTITY_SHIFT
            }
            Entry::Tracked(tracked) => {
                u64::from(tracked.slot + 1)
                    | u64::from(tracked.kind as u8) << 32
                    | if tracked.writable { WRITABLE } else { 0 }
                    | if tracked.servable { SERVABLE } else { 0 }
                    | if tracked.watched { WATCHED } else { 0 }
                    | (u64::from(tracked.advice) & ADVICE) << ADVICE_SHIFT
                    | if tracked.in_sequence { IN_SEQUENCE } else { 0 }
                    | if tracked.at_offsets { AT_OFFSETS } else { 0 }
            }
        }
    }
}

/// The map; all-zero memory is an empty one.
#[repr(C)]
pub struct DescriptorMap {
    leaves: [AtomicPtr<[AtomicU64; LEAF_ENTRIES]>; LEAVES],
}

impl DescriptorMap {
    #[inline]
    fn word(&self, descriptor: i32) -> Option<&AtomicU64> {
        let number = descriptor as u32 as usize;
        let leaf = self
            .leaves
            .get(number / LEAF_ENTRIES)?
            .load(Ordering::Acquire);
        if leaf.is_null() {
            return None;
        }
        // SAFETY: a leaf is a zeroed mapping of this type that lives as long as the process.
        unsafe { &*leaf }.get(number % LEAF_ENTRIES)
    }

    /// What is known of a descriptor.
    #[inline]
    pub fn get(&self, descriptor: i32) -> Option<Entry> {
        self.known(descriptor).map(KnownDescriptor::entry)
    }

    /// As [`DescriptorMap::get`], in one word.
    #[inline]
    pub fn known(&self, descriptor: i32) -> Option<KnownDescriptor> {
        KnownDescriptor::of(self.word(descriptor)?.load(Ordering::Acquire))
    }

    /// Takes the entry out.
    pub fn take(&self, descriptor: i32) -> Option<Entry> {
        let word = self.word(descriptor)?;
        if word.load(Ordering::Relaxed) == 0 {
            return None;
        }
        KnownDescriptor::of(word.swap(0, Ordering::AcqRel)).map(KnownDescriptor::entry)
    }

    /// Enters a descriptor and returns the entry before. `Err` if there is no room for it.
    pub(crate) fn put(&self, descriptor: i32, entry: Entry) -> Result<Option<Entry>, ()> {
        let number = usize::try_from(descriptor).map_err(|_| ())?;
        let leaf_slot = self.leaves.get(number / LEAF_ENTRIES).ok_or(())?;
        if leaf_slot.load(Ordering::Acquire).is_null() {
            let leaf = new_leaf().ok_or(())?;
            // A thread that loses this race leaves its page unused, once in a process's life.
            let _ = leaf_slot.compare_exchange(
                std::ptr::null_mut(),
                leaf,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
        let word = self.word(descriptor).ok_or(())?;
        Ok(
            KnownDescriptor::of(word.swap(entry.pack(), Ordering::AcqRel))
                .map(KnownDescriptor::entry),
        )
    }

    /// Replaces an entry, unless it is not `before` any more. Whether it was.
    pub fn replace(&self, descriptor: i32, before: Entry, entry: Entry) -> bool {
        self.word(descriptor).is_some_and(|word| {
            let (before, entry) = (before.pack(), entry.pack());
            word.compare_exchange(before, entry, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// Takes an entry out, unless it is not `before` any more. Whether it was.
    pub fn take_if(&self, descriptor: i32, before: Entry) -> bool {
        self.word(descriptor).is_some_and(|word| {
            word.compare_exchange(before.pack(), 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// Calls `visit` for each descriptor from `first` to `last` that something is known of.
    pub fn each_in(&self, first: u32, last: u32, mut visit: impl FnMut(i32, Entry)) {
        let first = first as usize;
        let last = (last as usize).min(LEAVES * LEAF_ENTRIES - 1);
        let mut number = first;
        while number <= last {
            let leaf = self.leaves.get(number / LEAF_ENTRIES);
            if leaf.is_none_or(|leaf| leaf.load(Ordering::Acquire).is_null()) {
                number = (number / LEAF_ENTRIES + 1) * LEAF_ENTRIES;
                continue;
            }
            if let Some(entry) = self.get(number as i32) {
                visit(number as i32, entry);
            }
            number += 1;
        }
    }
}

/// An empty leaf, which is never given back.
#[cfg(not(loom))]
fn new_leaf() -> Option<*mut [AtomicU64; LEAF_ENTRIES]> {
    let length_bytes = size_of::<[AtomicU64; LEAF_ENTRIES]>();
    map_for_life(length_bytes, OnFork::Wipe)
        .ok()
        .map(<*mut u8>::cast)
}

#[cfg(loom)]
fn new_leaf() -> Option<*mut [AtomicU64; LEAF_ENTRIES]> {
    let leaf = std::array::from_fn(|_| AtomicU64::new(0));
    Some(Box::into_raw(Box::new(leaf)))
}

#[cfg(test)]
mod entries {
    use super::*;

    /// An entry with every bit of its identity in use.
    pub(super) fn private(slot: u32) -> Entry {
        Entry::Private(PrivateFile {
            slot,
            identity: (1 << IDENTITY_BITS) - 1 - slot,
        })
    }
}

#[cfg(test)]
#[cfg(loom)]
mod model {
    use super::entries::private;
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn empty() -> Arc<DescriptorMap> {
        Arc::new(DescriptorMap {
            leaves: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        })
    }

    /// Two threads enter numbers of one leaf that is not there yet: neither entry is lost.
    #[test]
    fn loom_a_leaf_is_made_once() {
        loom::model(|| {
            let descriptors = empty();
            let other = Arc::clone(&descriptors);
            let thread = thread::spawn(move || other.put(1, private(7)));
            assert_eq!(descriptors.put(0, private(8)), Ok(None));
            assert_eq!(thread.join().unwrap(), Ok(None));
            assert_eq!(descriptors.get(0), Some(private(8)));
            assert_eq!(descriptors.get(1), Some(private(7)));
        });
    }

    /// Only one thread gets an entry that two threads take. A reader sees the whole entry or none.
    #[test]
    fn loom_an_entry_is_taken_once() {
        loom::model(|| {
            let descriptors = empty();
            descriptors.put(0, private(1)).unwrap();
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let descriptors = Arc::clone(&descriptors);
                    thread::spawn(move || descriptors.take(0))
                })
                .collect();
            assert!([None, Some(private(1))].contains(&descriptors.get(0)));
            let taken = threads
                .into_iter()
                .filter_map(|thread| thread.join().unwrap())
                .count();
            assert_eq!(taken, 1);
            assert_eq!(descriptors.get(0), None);
        });
    }

    /// If an entry is taken out while another thread replaces it, it does not come back.
    #[test]
    fn loom_what_is_taken_is_not_replaced() {
        loom::model(|| {
            let descriptors = empty();
            descriptors.put(0, private(1)).unwrap();
            let other = Arc::clone(&descriptors);
            let thread = thread::spawn(move || other.take(0));
            descriptors.replace(0, private(1), private(2));
            let taken = thread.join().unwrap();
            assert!(
                [Some(private(1)), Some(private(2))].contains(&taken),
                "{taken:?}"
            );
            assert_eq!(descriptors.get(0), None);
        });
    }

    /// If a number is entered again while it is taken out, each entry is returned exactly once.
    #[test]
    fn loom_replacing_and_taking_lose_nothing() {
        loom::model(|| {
            let descriptors = empty();
            descriptors.put(0, private(1)).unwrap();
            let other = Arc::clone(&descriptors);
            let thread = thread::spawn(move || other.put(0, private(2)).unwrap());
            let mut seen = vec![descriptors.take(0)];
            seen.push(thread.join().unwrap());
            seen.push(descriptors.take(0));
            let mut slots: Vec<_> = seen.into_iter().flatten().collect();
            slots.sort_by_key(|entry| format!("{entry:?}"));
            assert_eq!(slots, [private(1), private(2)]);
        });
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::entries::private;
    use super::*;

    fn empty_map() -> Box<DescriptorMap> {
        // SAFETY: all-zero memory is an empty map.
        unsafe { Box::new_zeroed().assume_init() }
    }

    fn entry(slot: u32) -> Entry {
        Entry::Tracked(TrackedFile {
            slot,
            kind: FileKind::CassandraData,
            writable: slot.is_multiple_of(2),
            servable: slot.is_multiple_of(3),
            watched: slot.is_multiple_of(5),
            advice: (slot % 3) as u8,
            in_sequence: slot.is_multiple_of(7),
            at_offsets: slot.is_multiple_of(11),
        })
    }

    #[test]
    fn entries_come_back_as_they_were_put() {
        let descriptors = empty_map();
        for slot in [0, 1, 6, 65_535] {
            assert_eq!(descriptors.put(700, entry(slot)).map(|_| ()), Ok(()));
            assert_eq!(descriptors.get(700), Some(entry(slot)));
        }
        assert_eq!(descriptors.put(700, private(3)), Ok(Some(entry(65_535))));
        assert_eq!(descriptors.take(700), Some(private(3)));
        assert_eq!(descriptors.take(700), None);
    }

    #[test]
    fn no_number_is_out_of_bounds() {
        let descriptors = empty_map();
        for number in [i32::MIN, -1, 1 << 20, i32::MAX] {
            assert_eq!(descriptors.get(number), None);
            assert_eq!(descriptors.take(number), None);
            assert_eq!(descriptors.put(number, entry(1)), Err(()));
        }
        let last = (LEAVES * LEAF_ENTRIES - 1) as i32;
        assert_eq!(descriptors.put(last, entry(1)), Ok(None));
        descriptors.put(5, entry(2)).unwrap();
        let mut seen = Vec::new();
        descriptors.each_in(3, u32::MAX, |number, _| seen.push(number));
        assert_eq!(seen, [5, last]);
        descriptors.each_in(6, 4, |_, _| panic!("an empty range has no entries"));
    }

    #[test]
    fn concurrent_use_never_loses_an_entry() {
        let descriptors = empty_map();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let descriptors = &descriptors;
                scope.spawn(move || {
                    for round in 0..2000 {
                        let number = thread + 4 * (round % 1000);
                        descriptors.put(number, entry(round as u32)).unwrap();
                        assert_eq!(descriptors.take(number), Some(entry(round as u32)));
                    }
                });
            }
        });
    }
}
