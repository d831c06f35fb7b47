//! The handover: before the application sees a table that one of its background threads has
//! written, what was hot in the tables that it was made of is warm in it.
//!
//! It happens in the background thread, inside the call that comes before the table is published:
//! the `close` of RocksDB's and LevelDB's writers; with Cassandra the `open` by which its compaction
//! opens the table to be read, early parts too. 4.1 opens a table once and reads all further parts of
//! it by the same descriptor: there it is the `mmap` of what has been added to the index. On any
//! doubt there is no handover, and no harm: at worst pages are read that nobody needs.

mod cassandra;
mod files;
pub(crate) mod lineage;
mod rocksdb;

use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::core::host_memory;
use crate::core::inode_map;
use crate::handover::lineage::{Input, Output, Work};
use crate::heat::Present;
use crate::reads;
use crate::runtime::Runtime;
use crate::settings::{self, Settings};
use crate::thread::{self, Inside};
use coldstream_control::{Counter, Mechanism};
use coldstream_handover::{Limits, Page, Piece, Plan};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::private::OpenError;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::process;
use coldstream_io::warm::{self, Warmed};
use coldstream_policy::FileKind;
use coldstream_policy::heat::TOUCH;
use coldstream_sstable::Error;
use files::TableFile;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// A page of an input is hot if it has been read once, lately, at least.
const HEAT_MIN: u8 = TOUCH;
/// Pages of an output are worth warming with a quarter of that: where the keys of a hot page lie
/// apart in the output, and only one of them was read, four pages are warmed for its sake at most.
const SHARE_MIN: f32 = HEAT_MIN as f32 / 4.0;
/// Of the memory that the process may have, one part in so many at most is warmed at once.
const MEMORY_SHARE: u64 = 8;
/// Who looks for the places of hot pages looks whether it is over after so many.
const HOT_PLACES_A_LOOK: u32 = 64;
/// Nothing is warmed while all tasks stand still for want of memory for more than this, in percent.
const PRESSURE_MAX: f32 = 10.0;

/// A cold input is not looked at for so many times as long as it took to find that it is cold.
const COLD_REST_TIMES: i128 = 50;

/// Why there is no handover.
enum Refused {
    /// A table that the index readers do not know.
    Declined,
    /// A damaged table, or one that cannot be read.
    Failed,
    /// The file is another one by now, or gone.
    Gone,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Unsupported(_) => Self::Declined,
            Error::Malformed { .. } | Error::Io(_) => Self::Failed,
        }
    }
}

impl From<OpenError> for Refused {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Identity | OpenError::OpenFailed => Self::Gone,
            OpenError::DescriptorLimit => Self::Failed,
        }
    }
}

/// One handover.
struct Handover<'b> {
    runtime: &'b Runtime,
    settings: &'b Settings,
    present: Present,
    started_ns: i128,
    end: End<'b>,
    /// How many pages may still be warmed, once that was asked.
    pages_left: Cell<Option<usize>>,
    /// Slot and file of the output.
    slot: u32,
    descriptor: i32,
    stamp: FileStamp,
}

impl Runtime {
    /// Whether anything is ever handed over in this process: heat may be kept for eviction alone.
    pub(crate) fn hands_over(&self) -> bool {
        settings::get().is_some_and(|settings| settings.config.handover)
            && self.heat.present().is_some()
    }

    /// Whether it is at present: it may be switched off.
    pub(crate) fn hands_over_now(&self) -> bool {
        self.hands_over() && self.switches.is_on(Mechanism::Handover)
    }

    /// A background thread reads a table that is served.
    pub(crate) fn note_input(&self, descriptor: i32, stamp: &FileStamp, offset: u64) {
        if self.hands_over() {
            let thread = process::thread_id();
            self.lineage.note_read(thread, descriptor, stamp, offset);
        }
    }

    /// A background thread has opened a new table for writing.
    pub(crate) fn note_new_table(&self, kind: FileKind, descriptor: i32, stamp: &FileStamp) {
        if !self.hands_over() {
            return;
        }
        let thread = process::thread_id();
        match kind {
            FileKind::CassandraData => self.lineage.note_output(thread, descriptor, stamp),
            FileKind::RocksDbTable => self.lineage.note_begun(thread, descriptor, stamp),
            _ => {}
        }
    }

    /// The application is about to close a table that it has written.
    #[cold]
    pub(crate) fn hand_over_before_close(&self, tracked: TrackedFile, descriptor: i32) {
        if matches!(
            tracked.kind,
            FileKind::RocksDbTable | FileKind::LevelDbTable
        ) {
            self.hand_over(tracked, descriptor, |handover, work| {
                handover.to_blocks(work)
            });
        }
    }

    /// The application is about to close a table that it has written: where nothing is handed over to
    /// it, what is hot under its number is another file's, which is gone.
    pub(crate) fn forget_heat_before_close(&self, tracked: TrackedFile, descriptor: i32) {
        // What compactions write has the heat of its parts by now, or gets it when it is opened.
        if tracked.kind == FileKind::CassandraData
            && !thread::is_background_reader()
            && let Some(present) = self.heat.present()
            && let Ok(stamp) = file::stamp(descriptor)
        {
            let bytes = 0..stamp.size_bytes;
            present.heat.forget(inode_map::key_of(&stamp), bytes);
        }
    }

    /// The application has opened a table to read it.
    pub(crate) fn hand_over_after_open(&self, tracked: TrackedFile, descriptor: i32) {
        if tracked.kind == FileKind::CassandraData && thread::is_background_reader() {
            self.hand_over(tracked, descriptor, |handover, work| {
                handover.to_partitions(work)
            });
        }
    }

    /// The application has mapped a file that is not a table: it may be the index of one that one of
    /// the calling thread's compactions writes.
    pub(crate) fn hand_over_after_mapping(&self, descriptor: i32) {
        if !self.hands_over_now() || !thread::is_background_reader() || !self.are_ours() {
            return;
        }
        let _errno = ErrnoGuard::new();
        let Some((tracked, output)) = self.output_of_index(descriptor) else {
            return;
        };
        // What is staged would be left out.
        self.drain_identity(output.stamp.device, output.stamp.inode, None, false);
        if let Some(_inside) = Inside::enter() {
            self.hand_over(tracked, output.descriptor, |handover, work| {
                handover.to_partitions(work)
            });
        }
    }

    /// The table, among those that the calling thread writes, whose index is behind `descriptor`.
    fn output_of_index(&self, descriptor: i32) -> Option<(TrackedFile, Output)> {
        let _inside = Inside::enter()?;
        let outputs = self.lineage.outputs(process::thread_id());
        if outputs.is_empty() {
            return None;
        }
        let index = lineage::path_of(descriptor)?;
        outputs.into_iter().find_map(|output| {
            let tracked = self.tracked(output.descriptor)?;
            let data = lineage::path_of(output.descriptor)?;
            let is_its_index = file::is_still(output.descriptor, &output.stamp)
                && cassandra::is_index_of(&index, &data);
            is_its_index.then_some((tracked, output))
        })
    }

    fn hand_over(
        &self,
        tracked: TrackedFile,
        descriptor: i32,
        work: impl FnOnce(&Handover<'_>, &mut Work) -> Result<(), Refused>,
    ) {
        let (Some(present), Some(settings)) = (self.heat.present(), settings::get()) else {
            return;
        };
        if !self.hands_over_now() || reads::is_broken() || !self.are_ours() {
            return;
        }
        let _errno = ErrnoGuard::new();
        let Ok(stamp) = file::stamp(descriptor) else {
            return;
        };
        if self.inodes.is_locked(&stamp) {
            return;
        }
        let handover = Handover {
            runtime: self,
            settings,
            present,
            started_ns: process::clock_ns(libc::CLOCK_MONOTONIC),
            end: End {
                runtime: self,
                switched_off: Rc::default(),
            },
            pages_left: Cell::new(None),
            slot: tracked.slot,
            descriptor,
            stamp,
        };
        let Some(mut lineage) = self.lineage.take(process::thread_id()) else {
            // Nothing is known of this thread: what is hot under this number is another file's.
            if tracked.kind != FileKind::CassandraData {
                present.heat.forget(handover.key(), 0..stamp.size_bytes);
            }
            return;
        };
        let attempt = catch_unwind(AssertUnwindSafe(|| work(&handover, &mut lineage)));
        self.lineage.give_back(lineage);
        self.note_busy();
        match attempt {
            Ok(Ok(())) => {}
            Ok(Err(refused)) => {
                handover.note_refused(&refused);
            }
            Err(_) => reads::note_panic(self),
        }
        self.note_memory();
    }
}

/// When a handover is over.
#[derive(Clone)]
struct End<'b> {
    runtime: &'b Runtime,
    /// It was seen to be: switched on again, this handover stays over.
    switched_off: Rc<Cell<bool>>,
}

impl End<'_> {
    /// Whether it has had its time, or was switched off meanwhile.
    fn is_reached(&self, end_ns: i128) -> bool {
        if !self.runtime.hands_over_now() {
            self.switched_off.set(true);
        }
        self.switched_off.get() || process::clock_ns(libc::CLOCK_MONOTONIC) >= end_ns
    }
}

impl<'b> Handover<'b> {
    /// The number under which the output's heat is kept.
    fn key(&self) -> u64 {
        inode_map::key_of(&self.stamp)
    }

    /// A descriptor of our own of the output.
    fn output(&self) -> Result<TableFile<'b>, Refused> {
        Ok(TableFile::reopen(
            self.runtime,
            self.descriptor,
            &self.stamp,
            self.slot,
        )?)
    }

    /// An input's file, if it still is what was read, and may be closed again.
    fn open_input(&self, input: &Input) -> Result<TableFile<'b>, Refused> {
        if self.runtime.inodes.is_locked(&input.stamp) {
            return Err(Refused::Gone);
        }
        let file = TableFile::open(self.runtime, &input.path, self.slot)?;
        if input.stamp.same_inode(file.stamp()) {
            Ok(file)
        } else {
            Err(Refused::Gone)
        }
    }

    /// The heat at an offset of an input; 0 unless it is hot, and of everything once the search is
    /// over.
    fn heat_of(&self, input: &Input) -> impl Fn(u64) -> u8 + use<'b> {
        let Present { heat, epoch } = self.present;
        let key = inode_map::key_of(&input.stamp);
        let (end, end_ns) = (self.end.clone(), self.search_end_ns());
        let asked = Cell::new(0_u32);
        let is_over = Cell::new(false);
        move |offset| {
            let heat = heat.of(key, offset, epoch);
            if heat < HEAT_MIN {
                return 0;
            }
            asked.set(asked.get().wrapping_add(1));
            if asked.get().is_multiple_of(HOT_PLACES_A_LOOK) {
                is_over.set(end.is_reached(end_ns));
            }
            if is_over.get() { 0 } else { heat }
        }
    }

    /// How long the handover may take.
    fn time_ns(&self) -> i128 {
        i128::from(self.settings.config.handover_milliseconds) * 1_000_000
    }

    /// When places are looked for no longer: what has been found is to be warmed, too.
    fn search_end_ns(&self) -> i128 {
        self.started_ns + self.time_ns() / 2
    }

    /// Whether any page of an input is hot. Of one that was cold this is asked again after so long
    /// only that the asking takes no time to speak of, however large it is.
    fn is_hot(&self, input: &Input) -> bool {
        let Present { heat, epoch } = self.present;
        let now_ns = process::clock_ns(libc::CLOCK_MONOTONIC);
        if now_ns < input.cold_until_ns.get() {
            return false;
        }
        let (key, size_bytes) = (inode_map::key_of(&input.stamp), input.stamp.size_bytes);
        let is_hot = heat.any(key, size_bytes, HEAT_MIN, epoch);
        if !is_hot {
            let end_ns = process::clock_ns(libc::CLOCK_MONOTONIC);
            let rest_ns = (end_ns - now_ns) * COLD_REST_TIMES;
            input.cold_until_ns.set(end_ns + rest_ns);
        }
        is_hot
    }

    /// Whether places are to be looked for no longer.
    fn is_search_over(&self) -> bool {
        self.end.is_reached(self.search_end_ns())
    }

    /// Counts why there is no handover, or none of an input; whether the input is to be forgotten.
    fn note_refused(&self, refused: &Refused) -> bool {
        match refused {
            Refused::Declined => self.runtime.count(Counter::HandoverDeclined, 1),
            Refused::Failed => self.runtime.count(Counter::HandoverFailed, 1),
            Refused::Gone => {}
        }
        matches!(refused, Refused::Gone)
    }

    /// Warms the hot ones among `pieces` of the output, below `end` of the file, and notes their
    /// heat.
    fn finish(&self, output: &TableFile<'_>, pieces: &[Piece], end: u64) {
        let runtime = self.runtime;
        let is_search_cut_short = self.is_search_over();
        let hot = |piece: &&Piece| {
            let behind = piece.offset.checked_add(piece.length);
            piece.heat >= SHARE_MIN && behind.is_some_and(|behind| behind <= end)
        };
        let limits = Limits {
            heat_min: SHARE_MIN,
            pages_max: self.pages_left(),
        };
        let plan = Plan::choose(pieces.iter().filter(hot).copied(), limits);
        runtime.count(Counter::HandoverSsTables, 1);
        runtime.count(
            Counter::HandoverPagesHot,
            (plan.pages.len() + plan.left_out) as u64,
        );
        runtime.count(Counter::HandoverPagesLeftOut, plan.left_out as u64);
        let warmed = self.warm(output, &plan, self.started_ns + self.time_ns());
        let warmed_to = warmed.cut_short_at.unwrap_or(u64::MAX) / PAGE_BYTES;
        let is_warm = |page: &&Page| page.number < warmed_to;
        // A window behind the writer would drop what is hot at the end of a part.
        if let Some(last) = plan.pages.iter().rfind(is_warm) {
            runtime.keep_cached(self.slot, (last.number + 1) * PAGE_BYTES);
        }
        let is_cut_short = is_search_cut_short || warmed.cut_short_at.is_some();
        runtime.count(Counter::HandoverCutShort, u64::from(is_cut_short));
        let Present { heat, epoch } = self.present;
        let mut places = 0;
        for page in hottest_of_each_page(pieces) {
            let planned = plan
                .pages
                .binary_search_by_key(&page.number, |it| it.number);
            let was_warmed = planned.is_ok() && is_warm(&&page);
            places += u64::from(was_warmed);
            let (offset, warmth) = (page.number * PAGE_BYTES, page.heat.min(254.0) as u8);
            heat.put(self.key(), offset, warmth, was_warmed, epoch);
        }
        runtime.count(Counter::HandoverRangesWarmed, places);
        self.note_delay();
    }

    /// Brings pages of the output into the page cache.
    fn warm(&self, output: &TableFile<'_>, plan: &Plan, end_ns: i128) -> Warmed {
        let is_over = || self.end.is_reached(end_ns);
        let ranges = plan.ranges(warm::RANGE_BYTES_MAX as u64);
        let in_flight = self.settings.config.handover_in_flight;
        let warmed = warm::warm(output.number(), ranges, in_flight, is_over);
        self.runtime
            .count(Counter::HandoverPagesWarmed, warmed.pages);
        let pages = usize::try_from(warmed.pages).unwrap_or(usize::MAX);
        let left = self.pages_left().saturating_sub(pages);
        self.pages_left.set(Some(left));
        warmed
    }

    /// How many pages may still be warmed.
    fn pages_left(&self) -> usize {
        let left = self.pages_left.get().unwrap_or_else(|| self.pages_max());
        self.pages_left.set(Some(left));
        left
    }

    /// How many pages may be warmed.
    fn pages_max(&self) -> usize {
        let share = host_memory::limit_bytes() / MEMORY_SHARE;
        let bytes = share.min(self.settings.config.handover_bytes);
        if host_memory::pressure().is_some_and(|pressure| pressure > PRESSURE_MAX) {
            self.runtime.count(Counter::HandoverShortOfMemory, 1);
            return 0;
        }
        (bytes / 4096) as usize
    }

    /// The application's thread was held up so long.
    fn note_delay(&self) {
        let taken_ns = process::clock_ns(libc::CLOCK_MONOTONIC) - self.started_ns;
        let taken_ns = u64::try_from(taken_ns).unwrap_or(0);
        self.runtime.count(Counter::HandoverNanoseconds, taken_ns);
        self.runtime.count(Counter::of_handover_delay(taken_ns), 1);
    }
}

/// The pages in which pieces of any heat to speak of begin, each with its hottest one's: one that is
/// colder must not hide it.
fn hottest_of_each_page(pieces: &[Piece]) -> Vec<Page> {
    let limits = Limits {
        heat_min: 2.0,
        pages_max: usize::MAX,
    };
    let beginnings = pieces.iter().map(|piece| Piece {
        length: 1,
        ..*piece
    });
    Plan::choose(beginnings, limits).pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_piece_of_a_page_counts() {
        let piece = |offset, heat| Piece {
            offset,
            length: 2000,
            heat,
        };
        let pieces = [
            piece(4096, 187.0),
            piece(6000, 12.0),
            piece(9000, 1.0),
            piece(0, 3.0),
            piece(100, 9.0),
        ];
        let hottest = hottest_of_each_page(&pieces).into_iter();
        let pages: Vec<_> = hottest.map(|page| (page.number, page.heat)).collect();
        assert_eq!(pages, [(0, 9.0), (1, 187.0)]);
    }
}
