//! SSTables that the application reads by mappings. Such reads make no calls. With `--readahead scans-and-mapped`
//! the kernel's readahead around faults is kept away from them. LevelDB's then have heat: it is estimated from what
//! the page cache keeps (`mincore(2)`).
//!
//! The control thread looks once a second. It asks the kernel for the mappings each time (`/proc/self/maps`): no
//! map of our own follows `munmap` and `mremap`. The application's threads do nothing for it.
//!
//! Around each fault the kernel reads as much as its readahead says. Where memory is short, the page cache is
//! then full of pages that nobody asked for. So mappings get `MADV_RANDOM`. Only then residency says something
//! about heat.
//!
//! It is an option, because compactions that read by mappings need the readahead.
//!
//! Without it, all that is known is whether Cassandra maps its data files: its compactions are written plainly then.

use crate::core::errno::ErrnoGuard;
use crate::core::host_memory::{each_line, each_line_of};
use crate::core::inode_map;
use crate::core::{Core, descriptor_map::TrackedFile};
use crate::heat::{HeatMap, Present};
use crate::settings;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::lock::FutexLock;
use coldstream_io::private::{PrivateDescriptor, is_marked};
use coldstream_io::residency;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::{memory, process};
use coldstream_policy::{Config, FileKind, MappedFile, Readahead, mapped_file};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The kernel's list of this process's mappings.
const LIST: &CStr = c"/proc/self/maps";

/// Room for a line of `/proc/self/maps`, whose path has 4095 bytes at most.
const LINE_BYTES_MAX: usize = 6 << 10;
/// The shortest time between two looks.
const LOOK_MILLISECONDS: u32 = 1000;
/// After a look the thread rests this many times as long as the look took.
const REST_TIMES: u32 = 50;
/// Looks after which heat is known.
const LOOKS_MIN: u32 = 4;

/// What is known of the mapped SSTables; all-zero memory is nothing.
#[repr(C)]
pub struct MappedSsTables {
    /// A data file of Cassandra was mapped once: so are all of them, by its `disk_access_mode`.
    any_of_cassandra: AtomicBool,
    /// An SSTable of LevelDB was mapped, and perhaps is still. Others are not looked at.
    any: AtomicBool,
    /// Looks that took heat.
    looks: AtomicU32,
    /// When to look again, by [`process::coarse_milliseconds`].
    due: AtomicU32,
    list: FutexLock<OpenList>,
}

/// The list of mappings, while there is something to look at. To open it anew for each look would take a low
/// descriptor number, which the application would miss.
#[repr(C)]
struct OpenList {
    descriptor: PrivateDescriptor,
    stamp: FileStamp,
}

impl OpenList {
    /// Opens it, unless it is open. `slot` is that of a mapped SSTable.
    fn open(&mut self, core: &Core, slot: u32) {
        if self.number().is_some() || !core.owner.is_this_process() {
            return;
        }
        self.close(core);
        if let Ok((descriptor, stamp)) = PrivateDescriptor::open_path(LIST, slot, core) {
            *self = Self { descriptor, stamp };
        }
    }

    /// Its descriptor's number, if nobody has closed it. Needs no thread-local storage.
    fn number(&self) -> Option<i32> {
        let number = self.descriptor.get()?.number();
        (file::is_same_inode(number, &self.stamp) && is_marked(number)).then_some(number)
    }

    fn close(&mut self, core: &Core) {
        self.descriptor.close(&self.stamp, core);
    }
}

impl MappedSsTables {
    /// Whether this is a node of Cassandra that reads its data files by mappings.
    pub fn is_mapping_cassandra(&self) -> bool {
        self.any_of_cassandra.load(Ordering::Relaxed)
    }

    /// The application has mapped an SSTable.
    pub fn record(&self, core: &Core, tracked: TrackedFile, address: usize, length_bytes: usize) {
        if tracked.kind == FileKind::CassandraData && !self.is_mapping_cassandra() {
            self.any_of_cassandra.store(true, Ordering::Relaxed);
        }
        if !is_configured() {
            return;
        }
        let _errno = ErrnoGuard::new();
        if tracked.kind == FileKind::LevelDbSsTable {
            let was_any = self.any.swap(true, Ordering::Relaxed);
            // Here, and not at the first look: this thread chooses numbers in its own order. With each SSTable, as the
            // application may have needed the number meanwhile.
            if let Some(mut list) = self.list.try_lock() {
                list.open(core, tracked.slot);
            }
            if !was_any {
                core.wake_control_thread();
            }
        }
        if core.is_on(Mechanism::Readahead) {
            let _ = memory::hint(address, length_bytes, memory::ADVICE_RANDOM);
            if !core.is_on(Mechanism::Readahead) {
                // The control thread may have been here before.
                let _ = memory::hint(address, length_bytes, memory::ADVICE_NORMAL);
            }
        }
    }

    /// Whether the heat of mapped SSTables of this kind is known. Only LevelDB's have one: other engines' compactions
    /// take so long that what they read once would be seen twice.
    pub fn is_heat_known(&self, core: &Core, kind: FileKind) -> bool {
        self.any.load(Ordering::Relaxed)
            && self.looks.load(Ordering::Relaxed) >= LOOKS_MIN
            && kind == FileKind::LevelDbSsTable
            && core.is_on(Mechanism::Readahead)
    }

    /// Readahead was switched off or on: gives all mappings the advice that they should have. Needs no
    /// thread-local storage.
    pub fn switched(&self, core: &Core) {
        let Some(settings) = settings::get().filter(|_| is_configured()) else {
            return;
        };
        let advice = if core.is_on(Mechanism::Readahead) {
            memory::ADVICE_RANDOM
        } else {
            memory::ADVICE_NORMAL
        };
        self.each_mapping(&settings.config, |mapped, _| {
            // If something else has been mapped there meanwhile, it gets the hint.
            let _ = memory::hint(mapped.address, mapped.length_bytes, advice);
        });
    }

    /// Looks at the mappings, if it is time to. Returns whether to look again. Needs no thread-local storage: the
    /// control thread calls it.
    pub fn look(&self, core: &Core, heat: &HeatMap) -> bool {
        let Some(settings) = settings::get().filter(|_| self.any.load(Ordering::Relaxed)) else {
            return false;
        };
        let now = process::coarse_milliseconds();
        let due = self.due.load(Ordering::Relaxed);
        if due != 0 && now.wrapping_sub(due) > u32::MAX / 2 {
            return true;
        }
        let takes_heat = core.is_on(Mechanism::Handover) && core.is_on(Mechanism::Readahead);
        let present = heat.present().filter(|_| takes_heat);
        let mut any = false;
        self.any.store(false, Ordering::Relaxed);
        self.each_mapping(&settings.config, |mapped, kind| {
            if kind != FileKind::LevelDbSsTable {
                return;
            }
            any = true;
            if let Some(present) = &present {
                take_heat(present, mapped);
            }
        });
        if any {
            self.any.store(true, Ordering::Relaxed);
        } else if let Some(mut list) = self.list.try_lock()
            && !self.any.load(Ordering::Relaxed)
        {
            list.close(core);
        }
        if any && present.is_some() {
            self.looks.fetch_add(1, Ordering::Relaxed);
            core.count(Counter::MappedLooks, 1);
        }
        let taken = process::coarse_milliseconds().wrapping_sub(now);
        let rest = LOOK_MILLISECONDS.max(taken.saturating_mul(REST_TIMES));
        let due = now.wrapping_add(rest).max(1);
        self.due.store(due, Ordering::Relaxed);
        any
    }

    /// Calls `visit` for each mapping of an SSTable. Waits for another thread's call: no call of one thread may lie in
    /// another. Needs no thread-local storage.
    pub fn each_mapping(&self, config: &Config, mut visit: impl FnMut(&MappedFile<'_>, FileKind)) {
        let visit_line = |line: &[u8]| {
            if let Some(mapped) = mapped_file(line) {
                let kind = config.profile.kind_of_file(mapped.path);
                if kind.is_sstable() {
                    visit(&mapped, kind);
                }
            }
        };
        let mut room = [0; LINE_BYTES_MAX];
        let list = self.list.lock();
        match list.number() {
            Some(number) => each_line_of(number, &mut room, visit_line),
            // The process may open few files, or only other engines' SSTables are mapped.
            None => {
                let _ = each_line(LIST, &mut room, visit_line);
            }
        }
    }

    /// The application needs a descriptor number.
    pub fn free_descriptor(&self, core: &Core) {
        // If another thread reads the list just now, it stays open: that is no reason to wait.
        if let Some(mut list) = self.list.try_lock() {
            list.close(core);
        }
    }
}

/// Whether mapped SSTables get no readahead.
fn is_configured() -> bool {
    settings::get().is_some_and(|settings| settings.config.readahead == Readahead::ScansAndMapped)
}

/// Takes the heat of a mapping from what the page cache has of it.
fn take_heat(present: &Present, mapped: &MappedFile<'_>) {
    let Present { heat, epoch } = *present;
    let key = inode_map::key_of(&stamp_of(mapped));
    // A mapping that is gone meanwhile has no heat.
    let _ = residency::each_mapped_page(mapped.address, mapped.length_bytes, |at, is_there| {
        heat.see(key, mapped.offset + at, is_there, epoch);
    });
}

/// The file of a mapping, and its size as far as it is mapped.
pub fn stamp_of(mapped: &MappedFile<'_>) -> FileStamp {
    let (major, minor) = mapped.device;
    FileStamp {
        device: libc::makedev(major, minor),
        inode: mapped.inode,
        size_bytes: mapped.offset.saturating_add(mapped.length_bytes as u64),
        ..FileStamp::default()
    }
}
