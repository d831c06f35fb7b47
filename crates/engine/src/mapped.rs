//! SSTables that the application reads by mappings. Such reads make no calls. The kernel's readahead around
//! faults is kept away from them, and their heat is estimated from what the page cache keeps (`mincore(2)`).
//!
//! The control thread looks once a second. It asks the kernel for the mappings each time (`/proc/self/maps`): no
//! map of our own follows `munmap` and `mremap`. The application's threads do nothing for it.
//!
//! Around each fault the kernel reads as much as its readahead says. Where memory is short, the page cache is
//! then full of pages that nobody asked for. So mappings get `MADV_RANDOM`:
//!
//! - with `--readahead scans-and-mapped`, all;
//! - else LevelDB's, once these do not fit in memory together with much else. Its SSTables have 2 MiB, and
//!   its compactions read little at a time. Other engines' compactions need the readahead.
//!
//! Only then residency says something about heat. LevelDB's SSTables have it with `scans-and-mapped`.

use crate::core::Core;
use crate::core::errno::ErrnoGuard;
use crate::core::host_memory::{each_line, limit_bytes};
use crate::core::inode_map;
use crate::heat::{HeatMap, Present};
use crate::settings;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::residency;
use coldstream_io::sys::file::FileStamp;
use coldstream_io::sys::{memory, process};
use coldstream_policy::{Config, FileKind, MappedFile, Readahead, mapped_file};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Room for a line of `/proc/self/maps`, whose path has 4095 bytes at most.
const LINE_BYTES_MAX: usize = 6 << 10;
/// The shortest time between two looks.
const LOOK_MILLISECONDS: u32 = 1000;
/// After a look the thread rests this many times as long as the look took.
const REST_TIMES: u32 = 50;
/// LevelDB's mappings are many if they take more than one part in this number of the memory.
const MANY_SHARE: u64 = 2;
/// They are few again if they take less than one part in this number.
const FEW_SHARE: u64 = 4;
/// Looks after which heat is known.
const LOOKS_MIN: u32 = 4;

/// What is known of the mapped SSTables; all-zero memory is nothing.
#[repr(C)]
pub struct MappedSsTables {
    /// An SSTable of LevelDB was mapped, and perhaps is still. Others are not looked at.
    any: AtomicBool,
    /// LevelDB's mappings do not fit in memory together with much else.
    are_many: AtomicBool,
    /// Looks that took heat.
    looks: AtomicU32,
    /// When to look again, by [`process::coarse_milliseconds`].
    due: AtomicU32,
}

impl MappedSsTables {
    /// The application has mapped an SSTable.
    pub fn record(&self, core: &Core, kind: FileKind, address: usize, length_bytes: usize) {
        let _errno = ErrnoGuard::new();
        // A look takes a low descriptor number for a moment, which the application sees: by option only.
        let readahead = settings::get().map(|settings| settings.config.readahead);
        if readahead == Some(Readahead::ScansAndMapped)
            && kind == FileKind::LevelDbSsTable
            && !self.any.swap(true, Ordering::Relaxed)
        {
            core.wake_control_thread();
        }
        if self.has_no_readahead(core, kind) {
            let _ = memory::hint(address, length_bytes, memory::ADVICE_RANDOM);
            if !core.is_on(Mechanism::Readahead) {
                // The control thread may have been here before.
                let _ = memory::hint(address, length_bytes, memory::ADVICE_NORMAL);
            }
        }
    }

    /// Whether mappings of SSTables of this kind have no readahead at present.
    fn has_no_readahead(&self, core: &Core, kind: FileKind) -> bool {
        let readahead = settings::get().map(|settings| settings.config.readahead);
        core.is_on(Mechanism::Readahead)
            && match readahead {
                Some(Readahead::ScansAndMapped) => true,
                Some(Readahead::Scans) => {
                    kind == FileKind::LevelDbSsTable && self.are_many.load(Ordering::Relaxed)
                }
                Some(Readahead::Kernel) | None => false,
            }
    }

    /// Whether the heat of mapped SSTables of this kind is known.
    pub fn is_heat_known(&self, core: &Core, kind: FileKind) -> bool {
        self.any.load(Ordering::Relaxed)
            && self.looks.load(Ordering::Relaxed) >= LOOKS_MIN
            && self.has_heat(core, kind)
    }

    /// Whether mapped SSTables of this kind have heat. Other engines' compactions take so long that what they
    /// read once would be seen twice.
    fn has_heat(&self, core: &Core, kind: FileKind) -> bool {
        let readahead = settings::get().map(|settings| settings.config.readahead);
        kind == FileKind::LevelDbSsTable
            && readahead == Some(Readahead::ScansAndMapped)
            && core.is_on(Mechanism::Readahead)
    }

    /// Readahead was switched off or on: gives all mappings the advice that they should have. Needs no
    /// thread-local storage.
    pub fn switched(&self, core: &Core) {
        if let Some(settings) = settings::get()
            && settings.config.readahead != Readahead::Kernel
        {
            self.advise_all(core, &settings.config);
        }
    }

    fn advise_all(&self, core: &Core, config: &Config) {
        each_mapping(config, |mapped, kind| {
            if config.readahead == Readahead::ScansAndMapped || kind == FileKind::LevelDbSsTable {
                let advice = match self.has_no_readahead(core, kind) {
                    true => memory::ADVICE_RANDOM,
                    false => memory::ADVICE_NORMAL,
                };
                // If something else has been mapped there meanwhile, it gets the hint.
                let _ = memory::hint(mapped.address, mapped.length_bytes, advice);
            }
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
        let present = heat.present().filter(|_| core.is_on(Mechanism::Handover));
        let (mut any, mut took_heat, mut leveldb_bytes) = (false, false, 0_u64);
        self.any.store(false, Ordering::Relaxed);
        each_mapping(&settings.config, |mapped, kind| {
            if kind != FileKind::LevelDbSsTable {
                return;
            }
            any = true;
            leveldb_bytes = leveldb_bytes.saturating_add(mapped.length_bytes as u64);
            if let Some(present) = &present
                && self.has_heat(core, kind)
            {
                take_heat(present, mapped);
                took_heat = true;
            }
        });
        if any {
            self.any.store(true, Ordering::Relaxed);
        }
        if took_heat {
            self.looks.fetch_add(1, Ordering::Relaxed);
            core.count(Counter::MappedLooks, 1);
        }
        self.weigh(core, &settings.config, leveldb_bytes);
        let taken = process::coarse_milliseconds().wrapping_sub(now);
        let rest = LOOK_MILLISECONDS.max(taken.saturating_mul(REST_TIMES));
        let due = now.wrapping_add(rest).max(1);
        self.due.store(due, Ordering::Relaxed);
        any
    }

    /// Decides whether LevelDB's mappings are too many for readahead around faults.
    fn weigh(&self, core: &Core, config: &Config, leveldb_bytes: u64) {
        let were_many = self.are_many.load(Ordering::Relaxed);
        let share = if were_many { FEW_SHARE } else { MANY_SHARE };
        let are_many = leveldb_bytes > limit_bytes() / share;
        if are_many != were_many {
            self.are_many.store(are_many, Ordering::Relaxed);
            if config.readahead == Readahead::Scans {
                self.advise_all(core, config);
            }
        }
    }
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

/// Calls `visit` for each mapping of an SSTable.
pub fn each_mapping(config: &Config, mut visit: impl FnMut(&MappedFile<'_>, FileKind)) {
    let _ = each_line(c"/proc/self/maps", &mut [0; LINE_BYTES_MAX], |line| {
        if let Some(mapped) = mapped_file(line) {
            let kind = config.profile.kind_of_file(mapped.path);
            if kind.is_sstable() {
                visit(&mapped, kind);
            }
        }
    });
}
