//! The runtime of a process: its descriptors, tables, filesystems, windows and counters, in one
//! region of memory that is all zeros at the start, and again in a forked child
//! (`MADV_WIPEONFORK`): a child knows nothing, holds no lock, and starts its own runtime with the
//! first table that it opens. A `vfork` child shares the memory and must not write into it; it
//! is told by its process id.

pub(crate) mod entries;
mod private;

use crate::core::descriptor_map::{DescriptorMap, Entry, TrackedDescriptor, TrackedFile};
use crate::core::host_memory;
use crate::core::inode_map::InodeMap;
use crate::core::switches::OwnSwitches;
use crate::core::{heap, status_page};
use crate::eviction::Eviction;
use crate::handover::lineage::Lineage;
use crate::heat::HeatMap;
use crate::pacing::Pacing;
use crate::priority::Threads;
use crate::reads::filesystems::Filesystems;
use crate::sending::Sendings;
use crate::settings::Settings;
use crate::thread::Inside;
use crate::writes::StagedFiles;
use crate::{control_thread, eviction, report};
use coldstream_control::{Counter, PageView, PidNamespace};
use coldstream_io::lock::FutexLock;
use coldstream_io::mapping::{OnFork, map_for_life};
use coldstream_io::scan::{self, Scanner};
use coldstream_io::sys::process;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Everything that Coldstream knows of this process.
#[repr(C)]
pub(crate) struct Runtime {
    descriptors: DescriptorMap,
    opening: FutexLock<()>,
    state: AtomicU32,
    /// The process that made the runtime; 0 in a forked child, which has found them empty.
    maker: AtomicI32,
    /// The process whose tables are in them; 0 before the first.
    process_id: AtomicI32,
    lowest_descriptor: AtomicI32,
    /// DescriptorMap of our own, now and at most.
    private_descriptors: AtomicU32,
    private_descriptors_max: AtomicU32,
    /// The status page's words; null before the first table.
    page: AtomicPtr<PageView<'static>>,
    page_memory: FutexLock<Option<PageView<'static>>>,
    /// The namespace of process ids that the page's name has.
    namespace: AtomicU64,
    pub(crate) filesystems: Filesystems,
    pub(crate) inodes: InodeMap,
    pub(crate) heat: HeatMap,
    pub(crate) lineage: Lineage,
    pub(crate) scanner: Scanner,
    pub(crate) staging: StagedFiles,
    pub(crate) sendings: Sendings,
    pub(crate) switches: OwnSwitches,
    pub(crate) eviction: Eviction,
    pub(crate) threads: Threads,
    pub(crate) pacing: Pacing,
}

const STATE_EMPTY: u32 = 0;
const STATE_OPEN: u32 = 1;
const STATE_FAILED: u32 = 2;

/// Whether the process, or the one that it was forked from, has said what is in force: outside
/// the runtime on purpose, so that a forked child does not say it again.
static IN_FORCE_SAID: AtomicBool = AtomicBool::new(false);

/// As above, of writes.
static WRITES_SAID: AtomicBool = AtomicBool::new(false);

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// A child that shares this memory was made once, and may be there.
static MEMORY_WAS_SHARED: AtomicBool = AtomicBool::new(false);

/// Makes the runtime. `Err` on a kernel without `MADV_WIPEONFORK` (before 4.14): nothing is
/// tracked then.
pub(crate) fn create() -> Result<(), coldstream_io::Errno> {
    let memory = map_for_life(size_of::<Runtime>(), OnFork::Wipe)?;
    RUNTIME.store(memory.cast(), Ordering::Release);
    if let Some(runtime) = get() {
        runtime
            .maker
            .store(process::process_id(), Ordering::Relaxed);
    }
    Ok(())
}

/// A call is about to be made whose child may share this memory (`vfork`, `clone`), until it executes
/// something or ends.
pub(crate) fn note_sharing() {
    MEMORY_WAS_SHARED.store(true, Ordering::Relaxed);
    if let Some(runtime) = get() {
        // A forked child's, which are nobody's before its first table: not that child's either.
        let (nobody, own) = (0, process::process_id());
        let _ = runtime
            .maker
            .compare_exchange(nobody, own, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The runtime; `None` before the constructor, or if Coldstream is off.
#[inline]
pub(crate) fn get() -> Option<&'static Runtime> {
    let runtime = RUNTIME.load(Ordering::Acquire);
    // SAFETY: null, or a zeroed mapping of this type that lives as long as the process;
    // all-zero memory is a valid, empty runtime.
    unsafe { runtime.as_ref() }
}

/// What is known of a descriptor, and the runtime that knows it: three loads, two if nothing is.
#[inline]
pub(crate) fn known(descriptor: i32) -> Option<(&'static Runtime, TrackedDescriptor)> {
    let runtime = get()?;
    Some((runtime, runtime.descriptors.known(descriptor)?))
}

impl Runtime {
    /// What is known of a descriptor.
    #[inline]
    pub(crate) fn entry(&self, descriptor: i32) -> Option<Entry> {
        self.descriptors.get(descriptor)
    }

    /// The table behind a descriptor of the application.
    #[inline]
    pub(crate) fn tracked(&self, descriptor: i32) -> Option<TrackedFile> {
        match self.descriptors.get(descriptor)? {
            Entry::Tracked(tracked) => Some(tracked),
            Entry::Private(_) => None,
        }
    }

    /// Whether this process may write into the runtime: a `vfork` child may not.
    pub(crate) fn are_ours(&self) -> bool {
        self.process_id.load(Ordering::Relaxed) == process::process_id()
    }

    /// Whether they are this process's also before its first table.
    pub(crate) fn are_ours_or_empty(&self) -> bool {
        let owner = match self.process_id.load(Ordering::Relaxed) {
            0 => self.maker.load(Ordering::Relaxed),
            owner => owner,
        };
        owner == 0 || owner == process::process_id()
    }

    /// Whether the caller is a child that shares the memory of the process whose runtime this is: its
    /// descriptors have the same numbers, and are others. One load where there never was such a child.
    #[inline]
    pub(crate) fn are_seen_by_a_child(&self) -> bool {
        MEMORY_WAS_SHARED.load(Ordering::Relaxed) && !self.are_ours()
    }

    /// Opens the runtime with the first table of this process; whether it is open.
    fn ensure_open(&'static self, settings: &Settings) -> bool {
        match self.state.load(Ordering::Acquire) {
            STATE_OPEN => return true,
            STATE_FAILED => return false,
            _ => {}
        }
        let _opening = self.opening.lock();
        if self.state.load(Ordering::Acquire) != STATE_EMPTY {
            return self.state.load(Ordering::Acquire) == STATE_OPEN;
        }
        self.process_id
            .store(process::process_id(), Ordering::Relaxed);
        self.limit_private_descriptors();
        let config = &settings.config;
        let configured = self.scanner.configure(scan::Settings {
            window_bytes: config.window_bytes,
            windows_in_flight: config.windows_in_flight,
            memory_bytes: config.memory_bytes,
        });
        if config.handover || config.eviction {
            self.heat
                .open(config.heat_bytes, host_memory::limit_bytes());
        }
        self.pacing.open(config);
        let namespace = status_page::own_namespace();
        self.namespace.store(namespace.0, Ordering::Relaxed);
        let mut page = self.page_memory.lock();
        *page = status_page::create_page(settings, namespace);
        if let (Ok(()), Some(page)) = (configured, &*page) {
            // Stays where it is, and is never changed again: may be read without the lock.
            self.page
                .store(std::ptr::from_ref(page).cast_mut(), Ordering::Release);
            self.state.store(STATE_OPEN, Ordering::Release);
            control_thread::start(self, config);
            eviction::start(self, config);
            true
        } else {
            self.state.store(STATE_FAILED, Ordering::Release);
            false
        }
    }

    /// The status page; `None` before the first table.
    pub(crate) fn page(&self) -> Option<&PageView<'static>> {
        // SAFETY: null, or a value within the runtime that does not change any more.
        unsafe { self.page.load(Ordering::Acquire).as_ref() }
    }

    /// Adds to a counter of the status page.
    pub(crate) fn count(&self, counter: Counter, amount: u64) {
        if let Some(page) = self.page() {
            page.add(counter, amount);
        }
    }

    /// Whether this is the first time that somebody asks.
    pub(crate) fn first_to_say_what_is_in_force(&self) -> bool {
        !IN_FORCE_SAID.swap(true, Ordering::Relaxed)
    }

    /// As above, of writes.
    pub(crate) fn first_to_say_how_is_written(&self) -> bool {
        !WRITES_SAID.swap(true, Ordering::Relaxed)
    }

    /// Gives the pages of window memory that nobody uses to the system.
    pub(crate) fn give_free_memory_back(&self) {
        self.scanner.pool().give_free_to_system();
    }

    /// The content of a table's file changed, or may have.
    #[inline]
    pub(crate) fn note_change(&self, tracked: TrackedFile) {
        if let Some(inode) = self.inodes.get(tracked.slot) {
            inode.note_change();
        }
    }

    /// A record lock is about to be taken through a descriptor. POSIX drops a process's locks on
    /// a file when it closes any descriptor of it: Coldstream's are closed before, and none is
    /// opened as long as the file is in the runtime.
    pub(crate) fn before_lock(&self, descriptor: i32) {
        if let Some(tracked) = self.tracked(descriptor)
            && self.are_ours()
            && let Some(inode) = self.inodes.get(tracked.slot)
        {
            inode.note_locked();
            if let Some(_inside) = Inside::enter() {
                self.scanner.close(tracked.slot, self);
                let _ = self.fall_back_slot(tracked.slot, Counter::StagingEndedRoom);
            }
        }
    }

    /// A descriptor has been mapped.
    pub(crate) fn note_mapping(&self, descriptor: i32, protection: i32, flags: i32) {
        let Some(tracked) = self.tracked(descriptor) else {
            return;
        };
        let Some(inode) = self.inodes.get(tracked.slot) else {
            return;
        };
        inode.note_read_unseen();
        // A mapping of a descriptor that can write may be made writable later, by mprotect.
        if flags & libc::MAP_TYPE != libc::MAP_PRIVATE
            && (tracked.writable || protection & libc::PROT_WRITE != 0)
        {
            inode.note_writable_mapping();
        }
    }

    /// Brings what the library itself holds of memory to the status page: windows, and heap.
    pub(crate) fn note_memory(&self) {
        if let Some(page) = self.page() {
            let pool = self.scanner.pool();
            page.set(Counter::WindowMemoryBytes, pool.used_bytes() as u64);
            page.set(Counter::WindowMemoryPeakBytes, pool.peak_bytes() as u64);
            page.set(Counter::HeapBytes, heap::used_bytes() as u64);
            page.set(Counter::HeapPeakBytes, heap::peak_bytes() as u64);
        }
    }

    /// The process ends: says what was done.
    pub(crate) fn conclude(&self, settings: &Settings) {
        self.close_staging();
        if let Some(page) = self.page()
            && self.are_ours()
        {
            let work = [
                Counter::BackgroundReads,
                Counter::StagedFiles,
                Counter::SendfileBytes,
            ];
            if work.iter().any(|counter| page.get(*counter) > 0) {
                self.note_memory();
                report::log_summary(settings, page);
            }
            status_page::remove_page(PidNamespace(self.namespace.load(Ordering::Relaxed)));
        }
    }
}
