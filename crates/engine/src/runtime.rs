//! The owner of all mechanisms: their state, their start and their teardown.
//!
//! The state lies in one region of memory, which is all zeros at the start. The kernel zeroes it again in a
//! forked child (`MADV_WIPEONFORK`). So a child has no state and no held lock. It starts with the first
//! SSTable that it opens. A `vfork` child shares the memory and must not write to it
//! ([`crate::core::owner`]).

use crate::background::Background;
use crate::control_thread::{self, ApplySwitches};
use crate::core::Core;
use crate::core::descriptor_map::KnownDescriptor;
use crate::core::host_memory;
use crate::core::owner::Owner;
use crate::eviction::Eviction;
use crate::handover::{Handover, Means};
use crate::heat::HeatMap;
use crate::mapped::MappedSsTables;
use crate::priority::Threads;
use crate::reads::Reads;
use crate::sending::Sendings;
use crate::settings::Settings;
use crate::thread::{Inside, Slot};
use crate::writes::{Flushes, StagedFiles};
use crate::{eviction, readahead, report, thread};
use coldstream_control::{Counter, Mechanism, Mechanisms, Outcome};
use coldstream_io::Errno;
use coldstream_io::credentials;
use coldstream_io::lock::FutexLock;
use coldstream_io::mapping::{OnFork, map_for_life};
use coldstream_io::sys::thread as own_thread;
use coldstream_io::sys::unlocked;
use coldstream_policy::{Config, Role};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Everything that Coldstream knows of this process; all-zero memory is a valid, empty one.
#[repr(C)]
pub struct Runtime {
    /// What all mechanisms use.
    pub core: Core,
    starting: FutexLock<()>,
    state: AtomicU32,
    /// What the foreground reads.
    pub heat: HeatMap,
    /// Mapped SSTables.
    pub mapped: MappedSsTables,
    /// Background reads.
    pub reads: Reads,
    /// Background writes.
    pub writes: StagedFiles,
    /// What memtable flushes write.
    pub flushes: Flushes,
    /// Background `sendfile`.
    pub sending: Sendings,
    /// The handover.
    pub handover: Handover,
    /// Pacing, and the guard of priority.
    pub background: Background,
    /// Eviction.
    pub eviction: Eviction,
    /// Priorities of background threads.
    pub priority: Threads,
    /// When descriptors were last looked at because of a deletion ([`process::coarse_milliseconds`]).
    ///
    /// [`process::coarse_milliseconds`]: coldstream_io::sys::process::coarse_milliseconds
    pub(crate) swept_milliseconds: AtomicU32,
}

const STATE_EMPTY: u32 = 0;
const STATE_STARTED: u32 = 1;
const STATE_FAILED: u32 = 2;

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());

/// Makes the runtime.
///
/// # Errors
/// On a kernel without `MADV_WIPEONFORK` (before 4.14), or without address space: nothing is ever tracked
/// then.
pub fn create() -> Result<(), Errno> {
    let memory = map_for_life(size_of::<Runtime>(), OnFork::Wipe)?;
    unlocked::prepare();
    // First: a thread whose role is looked up before it has a slot would never get one.
    thread::set_role_listener(register_role);
    RUNTIME.store(memory.cast(), Ordering::Release);
    if let Some(runtime) = get() {
        runtime.core.owner.set_maker();
    }
    Ok(())
}

/// The runtime; `None` before the constructor, or if Coldstream is off.
#[inline]
pub fn get() -> Option<&'static Runtime> {
    let runtime = RUNTIME.load(Ordering::Acquire);
    // SAFETY: null, or a zeroed mapping of this type that lives as long as the process;
    // all-zero memory is a valid, empty runtime.
    unsafe { runtime.as_ref() }
}

/// What is known of a descriptor, and the runtime that knows it: three loads, two if nothing is.
#[inline]
pub fn known(descriptor: i32) -> Option<(&'static Runtime, KnownDescriptor)> {
    let runtime = get()?;
    Some((runtime, runtime.core.descriptors.known(descriptor)?))
}

/// To be called before a call whose child may share this memory (`vfork`, `clone`).
pub fn before_sharing() {
    Owner::before_sharing(get().map(|runtime| &runtime.core.owner));
}

/// The calling thread's role was looked up.
fn register_role(role: Role, slot: Slot) -> Slot {
    get().map_or(slot, |runtime| {
        runtime.priority.register(&runtime.core, role, slot)
    })
}

impl Runtime {
    /// Whether this process has tracked a file.
    pub fn is_started(&self) -> bool {
        self.state.load(Ordering::Acquire) == STATE_STARTED
    }

    /// What a handover uses.
    pub(crate) fn means(&self) -> Means<'_> {
        Means {
            core: &self.core,
            heat: &self.heat,
            writes: &self.writes,
            mapped: &self.mapped,
        }
    }

    /// Starts all mechanisms with the first tracked file of this process. Returns whether they are started.
    pub fn start(&'static self, settings: &Settings) -> bool {
        match self.state.load(Ordering::Acquire) {
            STATE_STARTED => return true,
            STATE_FAILED => return false,
            _ => {}
        }
        let _starting = self.starting.lock();
        if self.state.load(Ordering::Acquire) != STATE_EMPTY {
            return self.is_started();
        }
        self.core.owner.set_process();
        credentials::forget();
        if unlocked::is_any_memory_locked() {
            // Perhaps by a call that was not seen: `syscall(2)`, or a symbol looked up in libc itself.
            self.unlock_memory();
        }
        let config = &settings.config;
        let opened = self.core.open(settings);
        if config.handover || config.eviction {
            self.heat
                .open(config.heat_bytes, host_memory::limit_bytes());
        }
        self.background.open(config);
        // Without windows there is no engine, and no page that says so.
        let has_page = opened.is_ok() && self.core.status.create(settings);
        self.core.remove_predecessors();
        if has_page {
            self.core.status.publish();
            self.state.store(STATE_STARTED, Ordering::Release);
            self.start_threads(config);
            true
        } else {
            self.state.store(STATE_FAILED, Ordering::Release);
            false
        }
    }

    /// Makes the threads of the library's own, after everything that they use.
    fn start_threads(&'static self, config: &Config) {
        let address = std::ptr::from_ref(self) as usize;
        if let Some(page) = self.core.page() {
            control_thread::announce(page, config);
            // SAFETY: the address is the runtime's, which lives as long as the process; the function needs
            // no thread-local storage.
            if unsafe { own_thread::start(run_control_thread, address) }.is_err() {
                control_thread::announce_none(page);
            }
        }
        if config.eviction {
            // SAFETY: as above.
            let started = unsafe { own_thread::start(run_eviction, address) };
            if started.is_err() {
                self.core.count(Counter::EvictionRefused, 1);
            }
        }
    }

    /// Whether the library has threads of its own in this process.
    pub fn has_helpers(&self) -> bool {
        self.is_started() && self.core.owner.is_this_process()
    }

    /// The calling thread has changed the credentials of the process. Libc does not know the library's own threads:
    /// they follow by themselves, a moment later.
    pub fn credentials_changed(&self) {
        credentials::tell();
        self.wake_helpers();
        self.core.wake_control_thread();
    }

    /// The application has locked its mappings. `is_resident`: they have become resident.
    #[cold]
    pub fn memory_locked(&self, is_resident: bool) {
        if is_resident
            && self.core.owner.is_this_process_or_nobody()
            && let Some(_inside) = Inside::enter()
        {
            self.unlock_memory();
        } else {
            unlocked::unlock_all();
        }
    }

    /// Unlocks reservations, and gives back what was never used of them.
    fn unlock_memory(&self) {
        unlocked::unlock_all();
        // SAFETY: the runtime lies in such a mapping.
        unsafe { self.core.give_untouched_back() };
        self.heat.give_untouched_back();
        self.handover.give_untouched_back();
    }

    /// The process ends: drains what is staged, and says what was done.
    pub fn end(&self, settings: &Settings) {
        self.writes.close_for_good(&self.core);
        if let Some(page) = self.core.page()
            && self.core.owner.is_this_process()
        {
            let work = [
                Counter::BackgroundReads,
                Counter::StagedFiles,
                Counter::SendfileBytes,
            ];
            if work.iter().any(|counter| page.get(*counter) > 0) {
                self.core.publish_memory();
                report::log_summary(settings, page);
            }
            self.core.remove_page();
        }
    }
}

/// # Safety
/// `runtime` must be the address of the runtime, which lives as long as the process.
unsafe extern "C" fn run_control_thread(runtime: usize) -> ! {
    // SAFETY: passed on.
    let runtime = unsafe { &*(runtime as *const Runtime) };
    control_thread::run(
        &runtime.core,
        &runtime.priority,
        &runtime.background,
        runtime,
    )
}

/// # Safety
/// As for [`run_control_thread`].
unsafe extern "C" fn run_eviction(runtime: usize) -> ! {
    // SAFETY: passed on.
    let runtime = unsafe { &*(runtime as *const Runtime) };
    eviction::run(&runtime.core, &runtime.heat, &runtime.eviction)
}

/// In the order in which the mechanisms depend on each other. Called by the control thread: needs no
/// thread-local storage.
impl ApplySwitches for Runtime {
    fn apply_switches(&self, before: Mechanisms, off: Mechanisms) -> Outcome {
        let mut outcome = Outcome::Done;
        if off.contains(Mechanism::Pacing) {
            // First: threads that wait may hold up what is to be done next.
            self.background.release_brake(&self.core);
        }
        if off.contains(Mechanism::Writes) && !self.writes.fall_back_all(&self.core) {
            outcome = Outcome::WriteFailed;
        }
        if off.contains(Mechanism::Eviction) != before.contains(Mechanism::Eviction) {
            self.eviction.switched();
        }
        if off.contains(Mechanism::Readahead) != before.contains(Mechanism::Readahead) {
            readahead::switch(&self.core);
            self.mapped.switched(&self.core);
        }
        if off.contains(Mechanism::Reads) {
            self.core.close_all_windows();
        }
        if !off.is_empty() {
            self.core.give_free_memory_back();
        }
        outcome
    }

    fn wake_helpers(&self) -> bool {
        self.eviction.wake();
        // Both: `||` would stop at the first.
        self.writes.wake_followers() | self.handover.wake_follower()
    }

    fn look_at_mapped(&self) -> bool {
        self.mapped.look(&self.core, &self.heat)
    }

    fn is_mapping_cassandra(&self) -> bool {
        self.mapped.is_mapping_cassandra()
    }
}
