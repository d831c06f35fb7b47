//! The books of a process: its descriptors, tables, filesystems, windows and counters, in one
//! region of memory that is all zeros at the start, and again in a forked child
//! (`MADV_WIPEONFORK`): a child knows nothing, holds no lock, and starts its own books with the
//! first table that it opens. A `vfork` child shares the memory and must not write into it; it
//! is told by its process id.

use crate::descriptors::{Descriptors, Entry, Table};
use crate::eviction::Eviction;
use crate::filesystems::Filesystems;
use crate::heat::HeatMap;
use crate::inodes::Inodes;
use crate::lineage::Lineage;
use crate::memory;
use crate::pacing::Pacing;
use crate::priority::Threads;
use crate::sending::Sendings;
use crate::settings::{self, Settings};
use crate::staging::Stages;
use crate::switches::OwnSwitches;
use crate::thread::{self, Inside};
use crate::{errno, eviction, heap, keeper, report};
use coldstream_control::{Counter, PageView, PidNamespace};
use coldstream_io::Errno;
use coldstream_io::lock::FutexLock;
use coldstream_io::mapping::{OnFork, map_for_life};
use coldstream_io::scan::{self, Event, Host, Method, Scanner};
use coldstream_io::sys::{file, process};
use coldstream_policy::FileKind;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Descriptors of our own start here, or where the last eighth of what the process may open does.
const LOWEST_DESCRIPTOR_MAX: u64 = 8192;
/// Of the descriptors that a process may open, Coldstream takes one in so many at most.
const DESCRIPTORS_SHARE: u64 = 8;
/// A process that may open fewer gets no descriptors of ours at all.
const DESCRIPTORS_MIN: u64 = 256;

/// Everything that Coldstream knows of this process.
#[repr(C)]
pub(crate) struct Books {
    descriptors: Descriptors,
    opening: FutexLock<()>,
    state: AtomicU32,
    process_id: AtomicI32,
    lowest_descriptor: AtomicI32,
    /// Descriptors of our own, now and at most.
    private_descriptors: AtomicU32,
    private_descriptors_max: AtomicU32,
    /// The status page's words; null before the first table.
    page: AtomicPtr<PageView<'static>>,
    page_memory: FutexLock<Option<PageView<'static>>>,
    /// The namespace of process ids that the page's name has.
    namespace: AtomicU64,
    pub(crate) filesystems: Filesystems,
    pub(crate) inodes: Inodes,
    pub(crate) heat: HeatMap,
    pub(crate) lineage: Lineage,
    pub(crate) scanner: Scanner,
    pub(crate) staging: Stages,
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
/// the books on purpose, so that a forked child does not say it again.
static IN_FORCE_SAID: AtomicBool = AtomicBool::new(false);

/// As above, of writes.
static WRITES_SAID: AtomicBool = AtomicBool::new(false);

static BOOKS: AtomicPtr<Books> = AtomicPtr::new(std::ptr::null_mut());

/// The process that made them.
static MAKER: AtomicI32 = AtomicI32::new(0);

/// Makes the books. `Err` on a kernel without `MADV_WIPEONFORK` (before 4.14): nothing is
/// tracked then.
pub(crate) fn create() -> Result<(), coldstream_io::Errno> {
    let memory = map_for_life(size_of::<Books>(), OnFork::Wipe)?;
    MAKER.store(process::process_id(), Ordering::Relaxed);
    BOOKS.store(memory.cast(), Ordering::Release);
    Ok(())
}

/// The books; `None` before the constructor, or if Coldstream is off.
#[inline]
pub(crate) fn get() -> Option<&'static Books> {
    let books = BOOKS.load(Ordering::Acquire);
    // SAFETY: null, or a zeroed mapping of this type that lives as long as the process;
    // all-zero memory is a valid, empty set of books.
    unsafe { books.as_ref() }
}

/// What the application may do with a descriptor number that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    /// It is, or may be, the application's.
    Yes,
    /// It is Coldstream's: to the application it is not open.
    No,
    /// It is the application's, and closing it must tell of a delayed write that failed.
    Failed(coldstream_io::Errno),
}

impl Books {
    /// What is known of a descriptor.
    #[inline]
    pub(crate) fn entry(&self, descriptor: i32) -> Option<Entry> {
        self.descriptors.get(descriptor)
    }

    /// The table behind a descriptor of the application.
    #[inline]
    pub(crate) fn table(&self, descriptor: i32) -> Option<Table> {
        match self.descriptors.get(descriptor)? {
            Entry::Table(table) => Some(table),
            Entry::Private(_) => None,
        }
    }

    /// Whether this process may write into the books: a `vfork` child may not.
    pub(crate) fn are_ours(&self) -> bool {
        self.process_id.load(Ordering::Relaxed) == process::process_id()
    }

    /// Whether they are this process's also before its first table. A forked child's, which are empty,
    /// are not before that.
    pub(crate) fn are_ours_or_empty(&self) -> bool {
        let owner = match self.process_id.load(Ordering::Relaxed) {
            0 => MAKER.load(Ordering::Relaxed),
            owner => owner,
        };
        owner == process::process_id()
    }

    /// Opens the books with the first table of this process; whether they are open.
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
        let limit = process::descriptor_limit();
        let most = (limit / DESCRIPTORS_SHARE).min(LOWEST_DESCRIPTOR_MAX);
        let lowest = (limit - most).min(LOWEST_DESCRIPTOR_MAX);
        self.lowest_descriptor
            .store(lowest as i32, Ordering::Relaxed);
        if limit >= DESCRIPTORS_MIN {
            self.private_descriptors_max
                .store(most as u32, Ordering::Relaxed);
        }
        let config = &settings.config;
        let configured = self.scanner.configure(scan::Settings {
            window_bytes: config.window_bytes,
            windows_in_flight: config.windows_in_flight,
            memory_bytes: config.memory_bytes,
        });
        if config.handover || config.eviction {
            self.heat.open(config.heat_bytes, memory::limit_bytes());
        }
        self.pacing.open(config);
        let namespace = report::own_namespace();
        self.namespace.store(namespace.0, Ordering::Relaxed);
        let mut page = self.page_memory.lock();
        *page = report::create_page(settings, namespace);
        if let (Ok(()), Some(page)) = (configured, &*page) {
            // Stays where it is, and is never changed again: may be read without the lock.
            self.page
                .store(std::ptr::from_ref(page).cast_mut(), Ordering::Release);
            self.state.store(STATE_OPEN, Ordering::Release);
            keeper::start(self, config);
            eviction::start(self, config);
            true
        } else {
            self.state.store(STATE_FAILED, Ordering::Release);
            false
        }
    }

    /// The status page; `None` before the first table.
    pub(crate) fn page(&self) -> Option<&PageView<'static>> {
        // SAFETY: null, or a value within these books that does not change any more.
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

    /// Enters a descriptor that `open` returned for `path`.
    ///
    /// # Safety
    /// `path` must be a NUL-terminated string (the kernel has just read it as one).
    pub(crate) unsafe fn note_open(
        &'static self,
        descriptor: i32,
        path: *const c_char,
        flags: i32,
    ) {
        // What the books say of this number is over, whoever closed it.
        if self.descriptors.get(descriptor).is_some() {
            self.note_gone(descriptor);
        }
        let Some(settings) = settings::get() else {
            return;
        };
        // SAFETY: passed on.
        let path = unsafe { CStr::from_ptr(path) };
        let kind = settings.config.profile.kind_of_file(path.to_bytes());
        if self.staging.any() {
            self.note_other_opening(descriptor, kind, flags);
        }
        if kind == FileKind::Untracked || flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
            return;
        }
        let Some(_inside) = Inside::enter() else {
            return;
        };
        if !self.ensure_open(settings) || !self.are_ours() {
            return;
        }
        let Ok(stamp) = file::stamp(descriptor) else {
            return;
        };
        if !stamp.is_regular() {
            return;
        }
        let writable = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let Some(slot) = self.inodes.attach(&stamp, writable) else {
            self.count(Counter::FallbackStreamLimit, 1);
            return;
        };
        if let Some(inode) = self.inodes.get(slot) {
            if flags & libc::O_TRUNC != 0 {
                inode.note_change();
            }
            if thread::is_background_reader() {
                inode.note_made_in_background();
            }
        }
        let mut table = Table {
            slot,
            kind,
            writable,
            servable: !writable && flags & libc::O_DIRECT == 0,
            watched: false,
            advice: libc::POSIX_FADV_NORMAL as u8,
        };
        if writable {
            self.begin_stage(settings, table, descriptor, flags, &stamp);
        }
        // After it was counted by `attach`: see `begin_stage`.
        fence(Ordering::SeqCst);
        table.watched = self
            .inodes
            .get(slot)
            .is_some_and(|inode| inode.stage().is_some());
        self.enter(descriptor, table);
        self.count(Counter::TrackedFilesOpened, 1);
        if writable {
            thread::note_table_opened_for_writing(kind, descriptor);
            if thread::is_background_reader() {
                self.note_new_table(kind, descriptor, &stamp);
            }
        } else {
            self.begin_readahead(table, descriptor);
            self.hand_over_after_open(table, descriptor);
        }
    }

    /// A file was opened while others are staged: if it is one of them, the new descriptor must
    /// see everything; and one that can write, or whose reads are not followed, must go on to.
    fn note_other_opening(&self, descriptor: i32, kind: FileKind, flags: i32) {
        let Ok(stamp) = file::stamp(descriptor) else {
            return;
        };
        let follows = kind != FileKind::Untracked
            && flags & libc::O_ACCMODE == libc::O_RDONLY
            && flags & (libc::O_TRUNC | libc::O_PATH) == 0;
        let for_good = (!follows).then_some(Counter::DemotedDescriptor);
        let truncated = flags & libc::O_TRUNC != 0 && flags & libc::O_PATH == 0;
        self.settle_identity(stamp.device, stamp.inode, for_good, truncated);
    }

    /// A descriptor that nobody follows was opened while tables are staged; whether its file was
    /// `emptied` by that.
    pub(crate) fn note_unfollowed(&self, descriptor: i32, emptied: bool) {
        let flags = if emptied { libc::O_TRUNC } else { 0 };
        self.note_other_opening(descriptor, FileKind::Untracked, flags);
    }

    /// Puts a table whose descriptor has been counted into the descriptor table.
    fn enter(&self, descriptor: i32, table: Table) {
        let entered = self.descriptors.put(descriptor, Entry::Table(table));
        if entered.is_ok()
            && let Some(inode) = self.inodes.get(table.slot)
        {
            inode.note_descriptor(descriptor);
        }
        match entered {
            Ok(None) => {}
            Ok(Some(before)) => self.settle(before),
            Err(()) => self.settle(Entry::Table(table)),
        }
    }

    /// The application has said how it will read a table.
    pub(crate) fn remember_advice(&self, descriptor: i32, table: Table) {
        // Unless it is another one's by now.
        if let Some(Entry::Table(present)) = self.descriptors.get(descriptor)
            && present.slot == table.slot
        {
            let _ = self.descriptors.put(descriptor, Entry::Table(table));
        }
    }

    /// Calls `visit` for every descriptor that something is known of.
    pub(crate) fn each_descriptor(&self, visit: impl FnMut(i32, Entry)) {
        self.descriptors.each_in(0, u32::MAX, visit);
    }

    /// `duplicate` is a new descriptor of what `descriptor` is of; the kernel has closed what
    /// it was before.
    pub(crate) fn note_duplicate(&self, descriptor: i32, duplicate: i32) {
        if descriptor == duplicate {
            return;
        }
        let table = self.table(descriptor);
        if table.is_none() && self.descriptors.get(duplicate).is_none() {
            return;
        }
        let Some(_inside) = Inside::enter() else {
            return;
        };
        if !self.are_ours() {
            return;
        }
        if let Some(before) = self.descriptors.take(duplicate) {
            self.settle(before);
        }
        if let Some(table) = table {
            self.inodes.attach_again(table.slot, table.writable);
            self.enter(duplicate, table);
        }
    }

    /// The application is about to close a descriptor. The books come first: the number can be
    /// another thread's the moment the kernel has closed it.
    #[inline]
    pub(crate) fn before_close(&self, descriptor: i32) -> Visible {
        match self.descriptors.get(descriptor) {
            None => Visible::Yes,
            Some(entry) => self.before_close_of(descriptor, entry),
        }
    }

    #[cold]
    fn before_close_of(&self, descriptor: i32, entry: Entry) -> Visible {
        if !self.are_ours() {
            return Visible::Yes;
        }
        match entry {
            Entry::Private(_) => Visible::No,
            Entry::Table(table) => {
                let _errno = errno::ErrnoGuard::new();
                self.end_sending(table, descriptor);
                let ended = match (table.writable, Inside::enter()) {
                    (true, Some(_inside)) => {
                        let ended = self.end_stage_of(table, descriptor);
                        self.note_written(descriptor);
                        self.forget_heat_before_close(table, descriptor);
                        self.hand_over_before_close(table, descriptor);
                        ended
                    }
                    _ => Ok(()),
                };
                thread::note_closed(descriptor);
                self.note_gone(descriptor);
                match ended {
                    Ok(()) => Visible::Yes,
                    Err(errno) => Visible::Failed(errno),
                }
            }
        }
    }

    /// Takes a descriptor out of the books.
    fn note_gone(&self, descriptor: i32) {
        // Inside a signal handler that interrupted our own work the locks cannot be taken: the
        // count of the inode then stays too high, which costs a slot and nothing else.
        let inside = Inside::enter();
        if self.are_ours()
            && let Some(entry) = self.descriptors.take(descriptor)
            && inside.is_some()
        {
            self.settle(entry);
        }
    }

    /// Counts off an entry that has been taken out.
    fn settle(&self, entry: Entry) {
        if let Entry::Table(table) = entry {
            self.inodes.detach(table.slot, table.writable, || {
                // A stage that is left lost its descriptor unseen.
                let _ = self.give_up_stage(table.slot, Counter::DemotedDescriptor);
                self.scanner.close(table.slot, self);
                self.note_memory();
            });
        }
    }

    /// The application is about to take every number from `first` to `last` (by `dup2` or
    /// `close_range`): gives up what Coldstream has there.
    ///
    /// # Errors
    /// That of a delayed write, the first one's: what of it is not in the kernel by now is lost.
    pub(crate) fn before_range_is_taken(
        &self,
        first: u32,
        last: u32,
        close: bool,
    ) -> Result<(), Errno> {
        self.end_sendings(first, last);
        let mut all = Ok(());
        if self.state.load(Ordering::Acquire) != STATE_OPEN || !self.are_ours() {
            return all;
        }
        self.descriptors.each_in(first, last, |descriptor, entry| {
            match entry {
                Entry::Private(slot) => self.give_up_private(slot),
                Entry::Table(table) => {
                    if let Some(_inside) = Inside::enter() {
                        let ended = self.end_stage_of(table, descriptor);
                        all = all.and(ended);
                    }
                    if close {
                        thread::note_closed(descriptor);
                        self.note_gone(descriptor);
                    }
                }
            };
        });
        all
    }

    /// Gives up what an inode has private descriptors for. A stage that cannot be brought to the kernel
    /// keeps its own.
    fn give_up_private(&self, slot: u32) {
        if let Some(_inside) = Inside::enter() {
            self.scanner.close(slot, self);
            let _ = self.give_up_stage(slot, Counter::DemotedRoom);
        }
    }

    /// The application has run out of descriptors (`EMFILE`): gives all of Coldstream's own up,
    /// and says whether there were any, so that the call is worth another try.
    #[cold]
    pub(crate) fn make_room(&self) -> bool {
        let any = self.private_descriptors.load(Ordering::Relaxed) > 0 && self.are_ours();
        if any {
            self.descriptors.each_in(0, u32::MAX, |_, entry| {
                if let Entry::Private(slot) = entry {
                    self.give_up_private(slot);
                }
            });
        }
        any
    }

    /// Gives every window and every private descriptor of a reader up. Needs no thread-local
    /// storage.
    pub(crate) fn close_all_windows(&self) {
        self.descriptors.each_in(0, u32::MAX, |_, entry| {
            if let Entry::Private(slot) = entry {
                self.scanner.close(slot, self);
            }
        });
        self.note_memory();
    }

    /// Gives the pages of window memory that nobody uses to the system.
    pub(crate) fn give_free_memory_back(&self) {
        self.scanner.pool().give_free_to_system();
    }

    /// The content of the file behind a descriptor changed, or is about to.
    #[inline]
    pub(crate) fn note_change(&self, descriptor: i32) {
        if let Some(table) = self.table(descriptor)
            && let Some(inode) = self.inodes.get(table.slot)
        {
            inode.note_change();
        }
    }

    /// A record lock is about to be taken through a descriptor. POSIX drops a process's locks on
    /// a file when it closes any descriptor of it: Coldstream's are closed before, and none is
    /// opened as long as the file is in the books.
    pub(crate) fn before_lock(&self, descriptor: i32) {
        if let Some(table) = self.table(descriptor)
            && self.are_ours()
            && let Some(inode) = self.inodes.get(table.slot)
        {
            inode.note_locked();
            if let Some(_inside) = Inside::enter() {
                self.scanner.close(table.slot, self);
                let _ = self.give_up_stage(table.slot, Counter::DemotedRoom);
            }
        }
    }

    /// Whether a descriptor is Coldstream's own: to the application it is not open.
    #[inline]
    pub(crate) fn is_private(&self, descriptor: i32) -> bool {
        matches!(self.descriptors.get(descriptor), Some(Entry::Private(_)))
    }

    /// A descriptor has been mapped.
    pub(crate) fn note_mapping(&self, descriptor: i32, protection: i32, flags: i32) {
        let Some(table) = self.table(descriptor) else {
            return;
        };
        let Some(inode) = self.inodes.get(table.slot) else {
            return;
        };
        inode.note_read_unseen();
        // A mapping of a descriptor that can write may be made writable later, by mprotect.
        if flags & libc::MAP_TYPE != libc::MAP_PRIVATE
            && (table.writable || protection & libc::PROT_WRITE != 0)
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
                Counter::SentBytes,
            ];
            if work.iter().any(|counter| page.get(*counter) > 0) {
                self.note_memory();
                report::log_summary(settings, page);
            }
            report::remove_page(PidNamespace(self.namespace.load(Ordering::Relaxed)));
        }
    }
}

impl Host for Books {
    fn count(&self, event: Event, amount: u64) {
        match event {
            Event::WindowRead(method) => {
                self.count(Counter::WindowsRead, 1);
                if matches!(method, Method::Direct(_)) {
                    self.count(Counter::DeviceBytesDirect, amount);
                }
                self.note_memory();
            }
            Event::WindowWaited => self.count(Counter::WindowsWaited, amount),
            Event::Wasted => self.count(Counter::ReadAheadWastedBytes, amount),
            Event::AsynchronousUnavailable => self.count(Counter::AioUnavailable, amount),
        }
    }

    fn may_open(&self) -> bool {
        self.private_descriptors.load(Ordering::Relaxed)
            < self.private_descriptors_max.load(Ordering::Relaxed)
    }

    fn opened(&self, descriptor: i32, slot: u32) {
        self.private_descriptors.fetch_add(1, Ordering::Relaxed);
        // If there is no room for it in the table it is simply not hidden.
        let _ = self.descriptors.put(descriptor, Entry::Private(slot));
    }

    fn closing(&self, descriptor: i32) {
        self.private_descriptors.fetch_sub(1, Ordering::Relaxed);
        if let Some(Entry::Private(_)) = self.descriptors.get(descriptor) {
            self.descriptors.take(descriptor);
        }
    }

    fn lowest_descriptor(&self) -> i32 {
        self.lowest_descriptor.load(Ordering::Relaxed)
    }
}
