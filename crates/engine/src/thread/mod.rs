//! What Coldstream knows of the calling thread. One file an owner: role, re-entrancy, samples, writer.
//!
//! Every function is about the calling thread, unless it says otherwise.

mod inside;
mod processor;
mod role;
mod samples;
mod writer;

pub use inside::Inside;
pub use role::{SLOT_IN_USE, Slot, forget_all_roles};

use crate::settings;
use coldstream_io::append::Operation;
use coldstream_io::sys::process;
use coldstream_policy::background::ProcessorTime;
use coldstream_policy::scan::{Ahead, Need, Sequences};
use coldstream_policy::{FileKind, Role};
use processor::Processor;
use role::KnownRole;
pub use samples::READS_A_SAMPLE_OF_ALL;
use samples::{Samples, Turn};
use std::cell::Cell;
use std::sync::OnceLock;
pub use writer::OwnTable;
use writer::Writer;

/// A function that gets each role that is looked up, and the thread's slot. It returns the thread's new slot.
pub type RoleListener = fn(Role, Slot) -> Slot;

/// A foreground thread that writes a new SSTable reads another in the background from so many reads in sequence on.
/// The engine reads the inputs of a compaction in sequence. A request that the thread answers between hardly does.
const READS_IN_SEQUENCE_MIN: u32 = 2;

static ROLE_LISTENER: OnceLock<RoleListener> = OnceLock::new();

/// One visit finds all of it: finding it takes longer than what is done there.
struct State {
    role: KnownRole,
    /// The role that the program has told; without one, the thread's name tells.
    declared: Cell<Option<Role>>,
    writer: Writer,
    samples: Samples,
    sequences: Sequences,
    processor: Processor,
}

// Without a destructor and with a constant initialiser: neither registers with libc nor
// allocates, and may be used at any time of a thread's life.
thread_local! {
    static STATE: State = const {
        State {
            role: KnownRole::none(),
            declared: Cell::new(None),
            writer: Writer::none(),
            samples: Samples::none(),
            sequences: Sequences::none(),
            processor: Processor::none(),
        }
    };
}

impl State {
    #[inline]
    fn role(&self) -> Role {
        if self.role.is_stale() {
            self.look_role_up();
        }
        self.role.get()
    }

    #[cold]
    fn look_role_up(&self) {
        let find = || match (self.declared.get(), settings::get()) {
            (Some(role), _) => role,
            (None, Some(settings)) => {
                (settings.config.profile).role_of_thread(&process::thread_name())
            }
            (None, None) => Role::Foreground,
        };
        let keep_slot: RoleListener = |_, slot| slot;
        let listener = ROLE_LISTENER.get().copied().unwrap_or(keep_slot);
        self.role.look_up(find, listener);
    }

    fn declare(&self, role: Role) {
        if self.declared.replace(Some(role)) != Some(role) {
            self.look_role_up();
        }
    }

    #[inline]
    fn is_background_reader(&self) -> bool {
        self.role().is_background_reader() || self.writer.is_background()
    }

    /// A read of a foreground thread that writes a new SSTable in the same directory.
    #[cold]
    fn record_read_of_compaction(&self, descriptor: i32, offset: u64, length_bytes: u64) -> Caller {
        let reads = self.sequences.count(descriptor, offset, length_bytes);
        if reads >= READS_IN_SEQUENCE_MIN {
            return Caller::Background;
        }
        // Its first read of a file, or a request's: both count half.
        Caller::Foreground {
            in_scan: true,
            is_sample: false,
        }
    }
}

/// From now on `listener` gets each role that is looked up. Only the first listener counts.
pub fn set_role_listener(listener: RoleListener) {
    let _ = ROLE_LISTENER.set(listener);
}

/// The thread's role.
pub fn role() -> Role {
    STATE.with(State::role)
}

/// The program says what the thread does from now on. Its name does not count any more.
#[inline]
pub fn declare_role(role: Role) {
    STATE.with(|state| state.declare(role));
}

/// Whether reads of SSTables by this thread are background reads.
#[inline]
pub fn is_background_reader() -> bool {
    STATE.with(State::is_background_reader)
}

/// The thread got another name, so its role is out of date. If `look_up` returns true, the role is looked up
/// at once. Otherwise the thread would keep its former priority until it reads an SSTable again.
pub fn forget_role(look_up: impl FnOnce(Slot) -> bool) {
    STATE.with(|state| {
        state.role.forget();
        if look_up(state.role.slot()) {
            state.look_role_up();
        }
    });
}

/// The thread's slot in [`crate::priority`].
pub fn priority_slot() -> Slot {
    STATE.with(|state| state.role.slot())
}

/// Runs `work` with the thread's slot marked as in use, while the slot's lock is held. `work` may create a
/// thread (an allocator's hook does) or read an SSTable: these must not take that lock again.
pub fn with_slot_in_use<T>(work: impl FnOnce() -> T) -> T {
    STATE.with(|state| {
        let slot = state.role.slot();
        state.role.set_slot(SLOT_IN_USE);
        let result = work();
        state.role.set_slot(slot);
        result
    })
}

/// The caller of a read of an SSTable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A background thread.
    Background,
    /// Any other thread.
    Foreground {
        /// The read belongs to a scan.
        in_scan: bool,
        /// It is the turn of [`take_sample_turn`], and the read may be timed.
        is_sample: bool,
    },
}

/// The thread reads an SSTable. `read_ahead` gets what a scan needs, and returns who reads ahead of it. A background
/// read is not recorded. `is_beside` says whether the SSTable is in the directory of one that the thread writes.
#[inline]
pub fn record_read(
    descriptor: i32,
    operation: Operation,
    read_ahead: impl FnOnce(Need) -> Ahead,
    is_beside: impl FnOnce(OwnTable) -> bool,
) -> Caller {
    STATE.with(|state| {
        if state.is_background_reader() {
            return Caller::Background;
        }
        let Operation::ReadAt { start, end } = operation else {
            return Caller::Foreground {
                in_scan: false,
                is_sample: false,
            };
        };
        if let Some(own) = state.writer.own_table()
            && is_beside(own)
        {
            return state.record_read_of_compaction(descriptor, start, end - start);
        }
        let in_scan = (state.sequences).record(descriptor, start, end - start, read_ahead);
        Caller::Foreground {
            in_scan,
            is_sample: state.samples.count_read(end - start),
        }
    })
}

/// The program says that the thread reads in the foreground. Returns whether the read belongs to a scan, and whether
/// it is the turn of [`take_sample_turn`]. `descriptor` stands for the file.
#[inline]
pub fn record_foreground_read(descriptor: i32, offset: u64, length_bytes: u64) -> (bool, bool) {
    STATE.with(|state| {
        if state.declared.get() != Some(Role::Foreground) {
            state.declare(Role::Foreground);
        }
        let in_scan = (state.sequences).record(descriptor, offset, length_bytes, |_| Ahead::Own);
        (in_scan, state.samples.count_read(length_bytes))
    })
}

/// The thread makes a plain read. `read_ahead` is as for [`record_read`]. Returns whether the read belongs to a scan.
pub fn record_sequence(
    descriptor: i32,
    offset: u64,
    length_bytes: u64,
    read_ahead: impl FnOnce(Need) -> Ahead,
) -> bool {
    STATE.with(|state| (state.sequences).record(descriptor, offset, length_bytes, read_ahead))
}

/// Processor time of the thread since the last look, if it is time for a look, and the reads of its role are
/// background reads. `now_ns` is a time of [`process::monotonic_ns`].
pub fn look_at_processor(now_ns: u64) -> Option<ProcessorTime> {
    STATE.with(|state| {
        let is_background = state.role().is_background_reader();
        is_background.then(|| state.processor.look(now_ns, process::thread_usage))?
    })
}

/// Ends the turn of a sample.
pub fn take_sample_turn() -> Turn {
    STATE.with(|state| state.samples.take_turn())
}

/// The read that was timed came from the device: the next ones are timed, too.
pub fn time_next_reads() {
    STATE.with(|state| state.samples.time_next_reads());
}

/// A background read was served: `cached_bytes` of its bytes came out of the page cache.
pub fn record_served(bytes: u64, cached_bytes: u64) {
    STATE.with(|state| state.writer.record_served(bytes, cached_bytes));
}

/// Whether most of what the thread lately read of SSTables had been in the page cache.
pub fn reads_what_is_cached() -> bool {
    STATE.with(|state| state.writer.reads_what_is_cached())
}

/// The thread has read bytes of SSTables in the background.
pub fn record_background_read(bytes: u64) {
    STATE.with(|state| state.writer.record_read(bytes));
}

/// Whether the thread writes what it reads, and so does not flush.
pub fn writes_what_it_read() -> bool {
    STATE.with(|state| match state.declared.get() {
        // The program tells flushes from compactions itself.
        Some(role) => matches!(role, Role::Compaction | Role::Streaming),
        None => state.writer.writes_what_it_read(state.role()),
    })
}

/// The thread opened an SSTable for writing: with some engines that makes it a background thread.
pub fn record_writing(kind: FileKind, descriptor: i32) {
    let role = settings::get().map(|settings| settings.config.profile.role_of_sstable_writer(kind));
    STATE.with(|state| state.writer.open(descriptor, kind, role));
}

/// The thread has made a new file of RocksDB, with this slot in the inode map. In the foreground that may be a
/// compaction.
pub fn record_new_file(kind: FileKind, descriptor: i32, slot: u32) {
    STATE.with(|state| {
        if state.role() != Role::Foreground {
            return;
        }
        match kind {
            FileKind::RocksDbSsTable => state.writer.open_own_table(descriptor, slot),
            FileKind::RocksDbBlob => state.writer.open_own_blob(descriptor),
            FileKind::LevelDbSsTable | FileKind::CassandraData | FileKind::Untracked => {}
        }
    });
}

/// Whether the thread is in the foreground, and compacts into this file.
pub fn compacts_into(descriptor: i32) -> bool {
    STATE.with(|state| state.writer.compacts_into(descriptor))
}

/// Whether the thread is in the foreground, and reads this descriptor for a compaction. `is_beside` is as for
/// [`record_read`].
pub fn compacts_from(descriptor: i32, is_beside: impl FnOnce(OwnTable) -> bool) -> bool {
    STATE.with(|state| {
        (state.writer.own_table()).is_some_and(is_beside)
            && state.sequences.reads_of(descriptor) >= READS_IN_SEQUENCE_MIN
    })
}

/// The thread is about to close a descriptor.
pub fn record_close(descriptor: i32) {
    STATE.with(|state| state.writer.close(descriptor));
}

/// A number that no other living thread has, and that never changes.
pub fn own_number() -> usize {
    STATE.with(|state| std::ptr::from_ref(state) as usize)
}
