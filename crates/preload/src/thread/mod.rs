//! What the calling thread is. Names are followed through the naming calls; a thread that was
//! named by another one finds out at its next read of a table.

use crate::core::errno::ErrnoGuard;
use crate::priority::Slot;
use crate::runtime::{self, Runtime};
use crate::settings;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::append::Operation;
use coldstream_io::sys::process;
use coldstream_policy::scan::Sequences;
use coldstream_policy::{FileKind, Role};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

/// Moves on whenever a thread named another one: every thread then looks its own name up again.
/// Starts above the zero of a thread that has never looked.
static NAMES_EPOCH: AtomicU32 = AtomicU32::new(1);

/// Instead of the place of a thread whose priority is being changed, by itself.
const SLOT_IN_USE: Slot = Slot::MAX;

struct State {
    /// Epoch of the names at which `role` was looked up; 0 is never.
    epoch: Cell<u32>,
    role: Cell<u8>,
    /// Of this thread's priority, if it has had a role.
    slot: Cell<Slot>,
    /// Bytes of tables that were lately delivered to this thread, and how many of them had been
    /// in the page cache.
    served_bytes: Cell<u64>,
    cached_bytes: Cell<u64>,
    /// Descriptor of the table that makes this thread a writer of tables; -1 is none.
    written_table: Cell<i32>,
    /// Pages that foreground reads of tables have read, and nobody has been told of yet.
    foreground_pages: Cell<u32>,
    /// Foreground reads from one that may be timed to the next, and how many of them are left.
    reads_between: Cell<u32>,
    reads_left: Cell<u32>,
    /// So many reads may all be timed.
    reads_to_time: Cell<u32>,
    /// Bytes that were read in the background since a table was last opened for writing.
    read_for_writing: Cell<u64>,
    sequences: Sequences,
    inside: Cell<bool>,
}

// Without a destructor and with a constant initialiser: neither registers with libc nor
// allocates, and may be used at any time of a thread's life.
thread_local! {
    static STATE: State = const {
        State {
            epoch: Cell::new(0),
            role: Cell::new(Role::Foreground as u8),
            slot: Cell::new(0),
            served_bytes: Cell::new(0),
            cached_bytes: Cell::new(0),
            written_table: Cell::new(-1),
            foreground_pages: Cell::new(0),
            reads_between: Cell::new(TIMED_EVERY),
            reads_left: Cell::new(TIMED_EVERY),
            reads_to_time: Cell::new(0),
            read_for_writing: Cell::new(0),
            sequences: Sequences::none(),
            inside: Cell::new(false),
        }
    };
}

impl State {
    #[inline]
    fn role(&self) -> Role {
        if self.epoch.get() != NAMES_EPOCH.load(Ordering::Relaxed) {
            look_up(self);
        }
        Role::from_u8(self.role.get())
    }

    #[inline]
    fn is_background_reader(&self) -> bool {
        self.role().is_background_reader() || self.written_table.get() >= 0
    }

    /// Counts a foreground read of a table, of so many bytes; whether it may be timed.
    #[inline]
    fn count_foreground_read(&self, length_bytes: u64) -> bool {
        let pages = (length_bytes / PAGE_BYTES).clamp(1, READ_PAGES_MAX) as u32;
        let pages_before = self.foreground_pages.get();
        self.foreground_pages.set(pages_before.wrapping_add(pages));
        let left = self.reads_left.get().wrapping_sub(1);
        self.reads_left.set(left);
        left == 0
    }
}

/// Whether reads of tables by the calling thread are background reads.
#[inline]
pub(crate) fn is_background_reader() -> bool {
    STATE.with(State::is_background_reader)
}

/// What the calling thread is.
pub(crate) fn role() -> Role {
    STATE.with(State::role)
}

/// Who makes a call that reads a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Background,
    Foreground {
        /// The read belongs to a scan.
        in_scan: bool,
        /// It is the turn of [`take_foreground_pages`], and the read may be timed.
        in_turn: bool,
    },
}

/// The calling thread reads a table. `scans` is told what of it should be read ahead; of a background
/// read nothing is noted.
// One visit for all that a thread knows of itself: finding it takes longer than what is done there.
#[inline]
pub(crate) fn note_read(
    descriptor: i32,
    operation: Operation,
    scans: impl FnOnce(Range<u64>),
) -> Caller {
    STATE.with(|state| {
        if state.is_background_reader() {
            return Caller::Background;
        }
        let Operation::ReadAt { start, end } = operation else {
            return Caller::Foreground {
                in_scan: false,
                in_turn: false,
            };
        };
        let (ahead, in_scan) = state.sequences.note(descriptor, start, end - start);
        if let Some(ahead) = ahead {
            scans(ahead);
        }
        Caller::Foreground {
            in_scan,
            in_turn: state.count_foreground_read(end - start),
        }
    })
}

#[cold]
fn look_up(state: &State) {
    // Epoch first: a name that is set meanwhile makes this look-up stale, not lost.
    state.epoch.set(NAMES_EPOCH.load(Ordering::Relaxed));
    let role = match settings::get() {
        Some(settings) => settings
            .config
            .profile
            .role_of_thread(&process::thread_name()),
        None => Role::Foreground,
    };
    state.role.set(role as u8);
    let slot = state.slot.get();
    if slot == SLOT_IN_USE {
        // Nobody is told now: the next read does it.
        state.epoch.set(0);
        return;
    }
    if (role != Role::Foreground || slot != 0)
        && let Some(runtime) = runtime::get()
    {
        state.slot.set(runtime.note_role(role, slot));
    }
}

/// Runs `work`, which makes a thread, with the priority that the calling thread had before it got
/// one of ours.
#[inline]
pub(crate) fn with_former_priority<T>(work: impl FnOnce() -> T) -> T {
    STATE.with(|state| match (state.slot.get(), runtime::get()) {
        (0 | SLOT_IN_USE, _) | (_, None) => work(),
        (slot, Some(runtime)) => {
            // Whatever makes a thread within `work`, an allocator's hook for instance, finds the
            // former priority, and must not lock what is locked; nor must a read of a table.
            state.slot.set(SLOT_IN_USE);
            let result = runtime.with_former_priority(slot, work);
            state.slot.set(slot);
            result
        }
    })
}

/// The I/O priority that the calling thread had when it was last seen to, as the kernel has it; 0 is
/// none of its own.
pub(crate) fn io_priority() -> i32 {
    let slot = STATE.with(|state| state.slot.get());
    runtime::get().map_or(0, |runtime| runtime.threads.io_priority(slot))
}

/// The calling thread got a name.
pub(crate) fn note_own_name() {
    STATE.with(|state| {
        state.epoch.set(0);
        // Nobody knows when it touches a table again, and until then it would keep what its former
        // role gets.
        if state.slot.get() != 0 && runtime::get().is_some_and(Runtime::are_ours) {
            let _errno = ErrnoGuard::new();
            look_up(state);
        }
    });
}

/// Another thread got a name, or every thread shall say once more who it is. Needs no thread-local
/// storage.
pub(crate) fn note_other_name() {
    if NAMES_EPOCH.fetch_add(1, Ordering::Relaxed) == u32::MAX {
        // Zero means "never looked up".
        NAMES_EPOCH.fetch_add(1, Ordering::Relaxed);
    }
}

/// "Lately" is so many bytes ago.
const LATELY_BYTES: u64 = 16 << 20;

/// A background read was delivered, so many bytes of it out of the page cache.
pub(crate) fn note_served(bytes: u64, cached_bytes: u64) {
    STATE.with(|state| {
        let (mut served, mut cached) = (state.served_bytes.get(), state.cached_bytes.get());
        if served > LATELY_BYTES {
            served /= 2;
            cached /= 2;
        }
        state.served_bytes.set(served + bytes);
        state.cached_bytes.set(cached + cached_bytes);
    });
}

/// Whether most of what this thread lately read of tables had been in the page cache. However little
/// it was: RocksDB opens its first output when it has read a block of each input.
pub(crate) fn reads_what_is_cached() -> bool {
    STATE.with(|state| state.cached_bytes.get() * 2 > state.served_bytes.get())
}

/// Pages that foreground reads have read are told of in lots of so many: others read the count.
const PAGES_IN_A_LOT: u32 = 256;
/// One read counts as so many at most, which is what [`coldstream_policy::heat`] counts of it.
const READ_PAGES_MAX: u64 = 4096;

/// One in so many foreground reads may be timed: a clock costs as much as all else that is done
/// for a read.
const TIMED_EVERY: u32 = 16;
/// So many are after one that turned out to come from the device, beside whose time a clock's is
/// nothing.
const TIMED_AFTER: u32 = 4;

/// A number of pages that is to be told of: what foreground reads have read.
pub(crate) fn take_foreground_pages() -> Option<u64> {
    STATE.with(|state| {
        let pages = state.foreground_pages.get();
        let is_a_lot = pages >= PAGES_IN_A_LOT;
        state.foreground_pages.set(if is_a_lot { 0 } else { pages });
        let to_time = state.reads_to_time.get().saturating_sub(1);
        time_next(state, to_time);
        is_a_lot.then_some(u64::from(pages))
    })
}

/// The read that was timed came from the device.
pub(crate) fn time_next_reads() {
    STATE.with(|state| time_next(state, TIMED_AFTER));
}

fn time_next(state: &State, to_time: u32) {
    let between = if to_time > 0 { 1 } else { TIMED_EVERY };
    state.reads_to_time.set(to_time);
    state.reads_between.set(between);
    state.reads_left.set(between);
}

/// The calling thread has read so many bytes of tables in the background.
pub(crate) fn note_read_for_writing(bytes: u64) {
    STATE.with(|state| {
        let read = &state.read_for_writing;
        read.set(read.get().saturating_add(bytes));
    });
}

/// Whether the calling thread writes what it reads, and so does not flush: it has read tables since
/// it opened the one that it writes.
pub(crate) fn writes_what_it_read() -> bool {
    STATE.with(|state| match state.role() {
        Role::Compaction => state.read_for_writing.get() > 0,
        Role::Streaming => true,
        Role::Foreground | Role::Flush | Role::Validation => false,
    })
}

/// The calling thread reads a table in the background, plainly: what of it should be read ahead.
pub(crate) fn note_sequence(descriptor: i32, offset: u64, length_bytes: u64) -> Option<Range<u64>> {
    let (ahead, _) = STATE.with(|state| state.sequences.note(descriptor, offset, length_bytes));
    ahead
}

/// A number that the calling thread has alone among those that live, and never changes.
pub(crate) fn own_number() -> usize {
    STATE.with(|state| std::ptr::from_ref(state) as usize)
}

/// The calling thread opened a table for writing: with some engines that makes it background.
pub(crate) fn note_table_opened_for_writing(kind: FileKind, descriptor: i32) {
    STATE.with(|state| state.read_for_writing.set(0));
    let role = settings::get().map(|settings| settings.config.profile.role_of_table_writer(kind));
    if role.is_some_and(Role::is_background_reader) {
        STATE.with(|state| state.written_table.set(descriptor));
    }
}

/// A descriptor is being closed by the calling thread.
pub(crate) fn note_closed(descriptor: i32) {
    STATE.with(|state| {
        if state.written_table.get() == descriptor {
            state.written_table.set(-1);
        }
    });
}

/// Marks the calling thread as inside Coldstream's own work, so that a signal handler that
/// reads a table in the middle of it finds no lock to wait for but passes through.
pub(crate) struct Inside(());

impl Inside {
    /// `None` if the thread is inside already.
    pub(crate) fn enter() -> Option<Self> {
        // Lazily: a mark that is made in vain would take the outer one away when it is dropped.
        let entered = STATE.with(|state| (!state.inside.replace(true)).then(|| Self(())));
        // A lock may be taken from here on: a signal must not find it held and the mark unset.
        compiler_fence(Ordering::SeqCst);
        entered
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Every lock has been given back: without the fence the mark could be taken away before.
        compiler_fence(Ordering::SeqCst);
        STATE.with(|state| state.inside.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of the reads that may be timed, of which some come from the device.
    fn timed(reads: u32, is_of_device: impl Fn(u32) -> bool) -> (Vec<u32>, u64) {
        let mut timed = Vec::new();
        let mut told = 0;
        for number in 1..=reads {
            if STATE.with(|state| state.count_foreground_read(4000)) {
                told += take_foreground_pages().unwrap_or(0);
                timed.push(number);
                if is_of_device(number) {
                    time_next_reads();
                }
            }
        }
        (timed, told)
    }

    #[test]
    fn one_read_in_sixteen_is_timed_and_those_behind_one_of_the_device() {
        // A thread of its own has its own counts.
        let work = || {
            let (numbers, told) = timed(512, |_| false);
            assert_eq!(numbers.len(), 32);
            assert!(numbers.iter().all(|number| number % 16 == 0));
            assert_eq!(told, 512, "in lots");
            let (numbers, _) = timed(100, |number| number == 32);
            assert_eq!(numbers, [16, 32, 33, 34, 35, 36, 52, 68, 84, 100]);
            let (numbers, told) = timed(1000, |_| true);
            assert!(numbers.len() > 980, "{}", numbers.len());
            assert!((700..=1100).contains(&told), "{told}");
        };
        std::thread::spawn(work).join().unwrap();
    }

    #[test]
    fn who_reads_while_it_writes_does_not_flush() {
        let work = || {
            assert!(!writes_what_it_read(), "foreground");
            STATE.with(|state| {
                state.epoch.set(NAMES_EPOCH.load(Ordering::Relaxed));
                state.role.set(Role::Compaction as u8);
            });
            assert!(!writes_what_it_read());
            note_read_for_writing(1);
            assert!(writes_what_it_read());
            note_table_opened_for_writing(FileKind::RocksDbTable, 7);
            assert!(!writes_what_it_read(), "its next table");
        };
        std::thread::spawn(work).join().unwrap();
    }
}
