//! The inode map: which SSTables are open, by how many descriptors, and whether a thread of this process
//! could be writing to them.

use coldstream_io::lock::FutexLock;
use coldstream_io::mapping::give_untouched_back;
use coldstream_io::scan::FILES_MAX;
use coldstream_io::sys::file::FileStamp;
use coldstream_io::sys::process;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The map searches 64 slots behind the inode's hash. If none of them is free, the file is not tracked.
const PROBES: usize = 64;
/// A time that a thread took before another thread's may be this much older.
const MOMENT_MILLISECONDS: u32 = 60_000;

/// Background threads whose position in a file is remembered.
pub const SCANS: usize = 4;

/// A background thread's sequential reads of a file.
#[repr(C)]
#[derive(Default)]
pub struct Scan {
    /// Time and place of the last read: see [`crate::eviction`].
    pub last: AtomicU64,
    /// Where it started to read in sequence.
    pub started: AtomicU64,
    /// The offset up to which the eviction thread has looked. Only that thread writes here.
    pub looked_at: AtomicU64,
}

/// One inode. Fields that other threads read without the map's lock are atomic.
#[repr(C)]
pub struct Inode {
    device: AtomicU64,
    number: AtomicU64,
    descriptors: AtomicU32,
    writers: AtomicU32,
    changes: AtomicU32,
    /// It has a shared writable mapping: content can change without a call.
    mapped_writable: AtomicBool,
    /// Its last descriptor is being closed. Changed by the holder of the map's lock.
    is_ending: AtomicBool,
    /// It has record locks, which closing any descriptor of the inode would drop.
    locked: AtomicBool,
    /// Number of the staged file plus one; 0 is none.
    staged_slot: AtomicU32,
    /// How background reads are served, as [`crate::reads`] encodes it; 0 is undecided.
    read_choice: AtomicU32,
    /// The descriptor that was entered last, plus one. It may be closed while others are open.
    descriptor: AtomicI32,
    /// When its first descriptor was entered, in milliseconds of [`process::coarse_milliseconds`].
    entered: AtomicU32,
    /// Its first descriptor was opened by a background thread.
    opened_in_background: AtomicBool,
    /// The foreground may use it in ways that are not counted: mapped, or by position.
    uncounted_use: AtomicBool,
    /// The foreground has read it.
    read: AtomicBool,
    /// Which directory it was opened in; 0 is unknown.
    directory: AtomicU32,
    /// The scans that were seen last.
    pub scans: [Scan; SCANS],
}

fn key(device: u64, inode: u64) -> u64 {
    inode ^ device.rotate_left(32)
}

/// A number for the directory in a path, which is never 0. An engine calls a directory by one name.
pub fn directory_of(path: &[u8]) -> u32 {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let directory = path.get(..end).unwrap_or_default();
    // FNV-1a.
    let hash = directory.iter().fold(0x811C_9DC5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    hash | 1
}

/// The number of a stamped inode under which its heat is kept.
pub fn key_of(stamp: &FileStamp) -> u64 {
    key(stamp.device, stamp.inode)
}

/// The slots that an inode may have.
fn slots_of(stamp: &FileStamp) -> impl Iterator<Item = usize> + use<> {
    let hash = key_of(stamp).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (0..PROBES).map(move |probe| (hash as usize + probe) % FILES_MAX)
}

impl Inode {
    /// As [`key_of`].
    #[inline]
    pub fn key(&self) -> u64 {
        key(
            self.device.load(Ordering::Relaxed),
            self.number.load(Ordering::Relaxed),
        )
    }

    /// Initialises this slot for the stamped inode, without a descriptor yet.
    fn begin(&self, stamp: &FileStamp) {
        self.device.store(stamp.device, Ordering::Relaxed);
        self.number.store(stamp.inode, Ordering::Relaxed);
        self.writers.store(0, Ordering::Relaxed);
        self.mapped_writable.store(false, Ordering::Relaxed);
        self.locked.store(false, Ordering::Relaxed);
        self.read_choice.store(0, Ordering::Relaxed);
        self.staged_slot.store(0, Ordering::Relaxed);
        self.descriptor.store(0, Ordering::Relaxed);
        self.entered
            .store(process::coarse_milliseconds(), Ordering::Relaxed);
        self.opened_in_background.store(false, Ordering::Relaxed);
        self.read.store(false, Ordering::Relaxed);
        self.directory.store(0, Ordering::Relaxed);
        self.uncounted_use.store(false, Ordering::Relaxed);
        for scan in &self.scans {
            scan.last.store(0, Ordering::Relaxed);
            scan.started.store(0, Ordering::Relaxed);
            scan.looked_at.store(0, Ordering::Relaxed);
        }
    }

    /// Whether this is the inode that the stamp was taken of.
    pub fn is(&self, stamp: &FileStamp) -> bool {
        self.number.load(Ordering::Relaxed) == stamp.inode
            && self.device.load(Ordering::Relaxed) == stamp.device
    }

    /// Whether it is on this device.
    pub fn is_on(&self, device: u64) -> bool {
        self.device.load(Ordering::Relaxed) == device
    }

    /// It was opened by this path.
    pub fn record_path(&self, path: &[u8]) {
        self.directory.store(directory_of(path), Ordering::Relaxed);
    }

    /// Which directory it was opened in, as [`directory_of`]; 0 is unknown.
    pub fn directory(&self) -> u32 {
        self.directory.load(Ordering::Relaxed)
    }

    /// Whether its content may change before the change time says so.
    pub fn may_be_written(&self) -> bool {
        self.writers.load(Ordering::Relaxed) > 0 || self.mapped_writable.load(Ordering::Relaxed)
    }

    /// Counts a change that was made through an interposed call.
    pub fn record_change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes counted so far.
    pub fn changes(&self) -> u32 {
        self.changes.load(Ordering::Relaxed)
    }

    /// It has been mapped shared and writable; mappings outlive descriptors.
    pub fn record_writable_mapping(&self) {
        self.mapped_writable.store(true, Ordering::Relaxed);
    }

    /// The process has taken a record lock (`F_SETLK`) on it.
    pub fn record_lock(&self) {
        self.locked.store(true, Ordering::Relaxed);
    }

    /// Whether private descriptors must stay away from it.
    pub fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Relaxed)
    }

    /// Whether it has only one descriptor that Coldstream knows.
    pub fn is_alone(&self) -> bool {
        self.descriptors.load(Ordering::Relaxed) == 1
            && !self.mapped_writable.load(Ordering::Relaxed)
    }

    /// The number of its staged file.
    #[inline]
    pub fn staged_slot(&self) -> Option<usize> {
        (self.staged_slot.load(Ordering::Acquire) as usize).checked_sub(1)
    }

    /// Sets or clears the number of its staged file.
    pub fn set_staged_slot(&self, number: Option<usize>) {
        let word = number.map_or(0, |number| number as u32 + 1);
        self.staged_slot.store(word, Ordering::Release);
    }

    /// A descriptor of it that is probably still open.
    pub fn descriptor(&self) -> Option<i32> {
        self.descriptor
            .load(Ordering::Relaxed)
            .checked_sub(1)
            .filter(|number| *number >= 0)
    }

    /// Remembers a descriptor that names it.
    pub fn record_descriptor(&self, descriptor: i32) {
        self.descriptor.store(descriptor + 1, Ordering::Relaxed);
    }

    /// It was entered with a descriptor of a background thread.
    pub fn record_background_opening(&self) {
        if self.descriptors.load(Ordering::Relaxed) == 1 {
            self.opened_in_background.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a background thread has opened it.
    pub fn was_opened_in_background(&self) -> bool {
        self.opened_in_background.load(Ordering::Relaxed)
    }

    /// Milliseconds since it was entered, at `now` of [`process::coarse_milliseconds`].
    pub fn age_milliseconds(&self, now: u32) -> u32 {
        let age = now.wrapping_sub(self.entered.load(Ordering::Relaxed));
        // `now` may have been taken a moment before the entry.
        if age > u32::MAX - MOMENT_MILLISECONDS {
            0
        } else {
            age
        }
    }

    /// From now on the foreground may use it without being counted.
    #[inline]
    pub fn record_uncounted_use(&self) {
        if !self.uncounted_use.load(Ordering::Relaxed) {
            self.uncounted_use.store(true, Ordering::Relaxed);
        }
    }

    /// The foreground has read it, and was counted.
    #[inline]
    pub fn record_read(&self) {
        // It is usually set already. Without a store, all readers keep the cache line.
        if !self.read.load(Ordering::Relaxed) {
            self.read.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the foreground has ever read it.
    pub fn is_read(&self) -> bool {
        self.read.load(Ordering::Relaxed)
    }

    /// Whether heat misses some uses of it.
    pub fn has_uncounted_use(&self) -> bool {
        self.uncounted_use.load(Ordering::Relaxed)
    }

    /// Whether it has a descriptor at present.
    pub fn is_open(&self) -> bool {
        self.descriptors.load(Ordering::Relaxed) > 0
    }

    /// How its background reads are served, encoded; 0 is not chosen.
    pub fn read_choice(&self) -> u32 {
        self.read_choice.load(Ordering::Relaxed)
    }

    /// Sets how its background reads are served.
    pub fn set_read_choice(&self, choice: u32) {
        self.read_choice.store(choice, Ordering::Relaxed);
    }
}

/// The map; all-zero memory is an empty one.
#[repr(C)]
pub struct InodeMap {
    lock: FutexLock<()>,
    /// A bit for each slot in use. A visit of all used slots need not read megabytes.
    in_use: [AtomicU64; FILES_MAX / 64],
    slots: [Inode; FILES_MAX],
}

impl InodeMap {
    /// The inode in a slot.
    pub fn get(&self, slot: u32) -> Option<&Inode> {
        self.slots.get(slot as usize)
    }

    /// The first slot in use from `first` on.
    pub fn next_in_use(&self, first: usize) -> Option<usize> {
        let words = self.in_use.get(first / 64..)?;
        let mut mask = u64::MAX << (first % 64);
        for (index, word) in words.iter().enumerate() {
            let found = word.load(Ordering::Relaxed) & mask;
            if found != 0 {
                return Some((first / 64 + index) * 64 + found.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Whether the process has a record lock on the stamped file: closing any descriptor of it would drop the
    /// lock.
    pub fn is_locked(&self, stamp: &FileStamp) -> bool {
        slots_of(stamp).any(|slot| {
            let inode = self.slots.get(slot);
            inode.is_some_and(|inode| inode.is_open() && inode.is(stamp) && inode.is_locked())
        })
    }

    /// The word and the bit that mark a slot as in use.
    fn mark(&self, slot: usize) -> Option<(&AtomicU64, u64)> {
        Some((self.in_use.get(slot / 64)?, 1 << (slot % 64)))
    }

    /// Gives memory back to the system that `mlockall` has made resident, and that was never used. Runs `also`
    /// while no slot changes its state; it is told which slots are in use.
    ///
    /// # Safety
    /// The map must lie in a mapping of `map_for_life`.
    pub unsafe fn give_untouched_back(&self, also: impl FnOnce(&dyn Fn(usize) -> bool)) {
        let _lock = self.lock.lock();
        let start = std::ptr::from_ref(&self.slots).cast_mut().cast();
        // SAFETY: passed on. A slot in use is not all zeros, and gets into use under the lock only.
        unsafe { give_untouched_back(start, size_of_val(&self.slots), |_| true) };
        also(&|slot| {
            let mark = self.mark(slot);
            mark.is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
        });
    }

    /// Counts a new descriptor of the stamped inode and returns its slot; `None` if there is no room.
    pub fn attach(&self, stamp: &FileStamp, writable: bool) -> Option<u32> {
        let _lock = self.lock.lock();
        let mut free = None;
        let mut found = None;
        for slot in slots_of(stamp) {
            let inode = self.slots.get(slot)?;
            if inode.descriptors.load(Ordering::Relaxed) == 0 {
                free = free.or(Some(slot));
            } else if inode.is(stamp) && !inode.is_ending.load(Ordering::Relaxed) {
                found = Some(slot);
                break;
            }
        }
        let slot = match found {
            Some(slot) => slot,
            None => {
                let slot = free?;
                self.slots.get(slot)?.begin(stamp);
                if let Some((word, bit)) = self.mark(slot) {
                    word.fetch_or(bit, Ordering::Relaxed);
                }
                slot
            }
        };
        let inode = self.slots.get(slot)?;
        inode.descriptors.fetch_add(1, Ordering::Relaxed);
        if writable {
            inode.writers.fetch_add(1, Ordering::Relaxed);
        }
        Some(slot as u32)
    }

    /// Counts one more descriptor of an inode that has one.
    pub fn attach_again(&self, slot: u32, writable: bool) {
        let _lock = self.lock.lock();
        if let Some(inode) = self.get(slot) {
            inode.descriptors.fetch_add(1, Ordering::Relaxed);
            if writable {
                inode.writers.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts one descriptor less. With the last one runs `last`, which may wait for a device: no lock is held then.
    /// Meanwhile nobody gets the slot. If the inode is opened again, it gets another slot.
    pub fn detach(&self, slot: u32, writable: bool, last: impl FnOnce()) {
        let Some(inode) = self.get(slot) else {
            return;
        };
        let mut lock = self.lock.lock();
        if writable {
            inode.writers.fetch_sub(1, Ordering::Relaxed);
        }
        if inode.descriptors.load(Ordering::Relaxed) == 1 {
            inode.is_ending.store(true, Ordering::Relaxed);
            drop(lock);
            last();
            lock = self.lock.lock();
            inode.is_ending.store(false, Ordering::Relaxed);
        }
        // A descriptor may have been duplicated meanwhile, and counted.
        if inode.descriptors.fetch_sub(1, Ordering::Relaxed) == 1
            && let Some((word, bit)) = self.mark(slot as usize)
        {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
        drop(lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(inode: u64) -> FileStamp {
        FileStamp {
            device: 7,
            inode,
            ..FileStamp::default()
        }
    }

    #[test]
    fn an_inode_keeps_its_slot_until_its_last_descriptor_goes() {
        // SAFETY: all-zero memory is an empty map.
        let inodes: Box<InodeMap> = unsafe { Box::new_zeroed().assume_init() };
        let slot = inodes.attach(&stamp(1), false).unwrap();
        assert_eq!(inodes.attach(&stamp(1), true), Some(slot));
        assert!(inodes.get(slot).unwrap().may_be_written());
        inodes.detach(slot, true, || panic!("there is another descriptor"));
        assert!(!inodes.get(slot).unwrap().may_be_written());
        inodes.attach_again(slot, false);
        inodes.detach(slot, false, || panic!("there is another descriptor"));
        let mut last = false;
        assert_eq!(inodes.next_in_use(0), Some(slot as usize));
        assert_eq!(inodes.next_in_use(slot as usize), Some(slot as usize));
        assert_eq!(inodes.next_in_use(slot as usize + 1), None);
        let mut again = None;
        inodes.detach(slot, false, || {
            last = true;
            // No lock is held. An inode that is opened meanwhile gets another slot.
            again = inodes.attach(&stamp(1), false);
        });
        assert!(last && again.is_some() && again != Some(slot));
        assert_eq!(
            inodes.next_in_use(slot as usize),
            again.map(|slot| slot as usize)
        );
        inodes.detach(again.unwrap(), false, || ());
        assert_eq!(inodes.next_in_use(0), None);
    }

    #[test]
    fn a_full_neighbourhood_is_refused_not_overrun() {
        // SAFETY: all-zero memory is an empty map.
        let inodes: Box<InodeMap> = unsafe { Box::new_zeroed().assume_init() };
        let mut slots = std::collections::HashSet::new();
        let mut refused = 0;
        for inode in 0..FILES_MAX as u64 + 100 {
            match inodes.attach(&stamp(inode), false) {
                Some(slot) => assert!(slots.insert(slot), "two inodes in one slot"),
                None => refused += 1,
            }
        }
        assert!(refused >= 100);
        assert!(slots.len() > FILES_MAX / 2);
    }
}
