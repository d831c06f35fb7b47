//! One handover: its limits, its inputs and its output, and the warming. Common to all engines.

use super::budget::{Budget, LastHandover, ProcessorShare, SHARE_BEHIND, Taken};
use super::lineage::{self, Input};
use super::sstable_file::SsTableFile;
use super::warming_time::WarmingTime;
use crate::core::{Core, host_memory, inode_map};
use crate::heat::Present;
use crate::settings::Settings;
use crate::writes::StagedFiles;
use coldstream_control::{Counter, Mechanism};
use coldstream_handover::{KEPT_MIN, Limits, MEMORY_SHARE, Page, Piece, Plan, SHARE_MIN};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::private::OpenError;
use coldstream_io::sys::file::FileStamp;
use coldstream_io::sys::process;
use coldstream_io::warm::{self, WarmResult};
use coldstream_policy::Config;
use coldstream_policy::heat::{Origin, TOUCH};
use coldstream_sstable::Error;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::TryReserveError;
use std::ffi::CStr;
use std::io;

const _: () = assert!(coldstream_handover::rocksdb::READ_HEAT == TOUCH as f32);
/// The deadline is checked every 64 hot pages.
const HOT_PAGES_A_CHECK: u32 = 64;
/// Nothing is warmed while memory stalls all tasks for more than this, in percent.
pub(super) const PRESSURE_MAX: f32 = 10.0;

/// A cold input is not looked at again for 50 times as long as it took to find that it is cold.
const COLD_REST_TIMES: i128 = 50;

/// Why there is no handover.
pub(super) enum Refused {
    /// An SSTable that the index readers do not know, and what they do not know about it.
    Declined(Cow<'static, str>),
    /// A damaged SSTable, or one that cannot be read.
    Failed,
    /// The file was replaced or deleted, or given up before its end was written: a database is closed in a compaction.
    Gone,
    /// There is no memory for it.
    OutOfMemory,
    /// The process may open no more files. [`SsTableFile`] has counted that.
    NoDescriptor,
    /// It took longer than a handover may: a block of many MiB on a slow device.
    OutOfTime,
}

impl From<TryReserveError> for Refused {
    fn from(_: TryReserveError) -> Self {
        Self::OutOfMemory
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::Unsupported(what) => Self::Declined(Cow::Owned(what)),
            Error::Unfinished => Self::Gone,
            Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Self::OutOfTime,
            Error::Malformed { .. } | Error::Io(_) => Self::Failed,
            Error::OutOfMemory => Self::OutOfMemory,
        }
    }
}

impl From<OpenError> for Refused {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Identity | OpenError::OpenFailed => Self::Gone,
            OpenError::DescriptorLimit => Self::NoDescriptor,
        }
    }
}

/// Limits of one handover, beside the configured ones; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Bytes that are warmed.
    pub bytes_max: u64,
    /// The time that it takes.
    pub milliseconds_max: u64,
}

/// One handover.
pub(super) struct Transfer<'b> {
    pub(super) core: &'b Core,
    pub(super) writes: &'b StagedFiles,
    settings: &'b Settings,
    pub(super) present: Present,
    warming_time: &'b WarmingTime,
    started_ns: i128,
    /// The thread's processor time at the start.
    started_processor_ns: i128,
    /// What the handover may take where a share is in force.
    budget: Budget,
    /// Whether one is. Otherwise only the configured limit counts.
    is_limited: bool,
    /// The caller's own limits; 0 is none.
    pub(super) bounds: Bounds,
    /// Whether only what was read twice is hot.
    pub(super) is_frugal: bool,
    /// Reads of older SSTables may have been made before any was counted. `None` once enough was counted.
    pub(super) counted_since_ns: Option<i128>,
    /// What was hot, and what was warmed, in pages.
    pub(super) done: Cell<(u64, u64)>,
    /// What was hot, and the page from which on it is cold because the time was over; `None` if all of it is warm.
    pub(super) remainder: Cell<Option<(Plan, u64)>>,
    /// The processor time of looking for pages of before this process. It is no part of the search's: it comes once.
    pub(super) recall_ns: Cell<i128>,
    /// The processor time of the search, once that has ended.
    search_ns: Cell<Option<i128>>,
    end: End<'b>,
    /// How many pages may still be warmed; `None` before that is known.
    pages_left: Cell<Option<usize>>,
    /// Slot, descriptor and file of the output.
    pub(super) slot: u32,
    pub(super) descriptor: i32,
    pub(super) stamp: FileStamp,
}

/// The file that gets the heat.
pub(super) struct OutputFile {
    pub(super) slot: u32,
    pub(super) descriptor: i32,
    pub(super) stamp: FileStamp,
}

/// The end of a handover.
#[derive(Clone)]
struct End<'b> {
    core: &'b Core,
    /// The handover was switched off. This one stays over, even if it is switched on again.
    switched_off: &'b Cell<bool>,
}

impl End<'_> {
    /// Whether its time is over, or it was switched off meanwhile.
    fn is_reached(&self, end_ns: i128) -> bool {
        if !self.core.is_on(Mechanism::Handover) {
            self.switched_off.set(true);
        }
        self.switched_off.get() || process::clock_ns(libc::CLOCK_MONOTONIC) >= end_ns
    }
}

impl<'b> Transfer<'b> {
    /// Begins a handover, and its time limit. `switched_off` is false.
    pub(super) fn begin(
        core: &'b Core,
        writes: &'b StagedFiles,
        settings: &'b Settings,
        present: Present,
        warming_time: &'b WarmingTime,
        output: OutputFile,
        switched_off: &'b Cell<bool>,
    ) -> Self {
        Self {
            core,
            writes,
            settings,
            present,
            warming_time,
            started_ns: process::clock_ns(libc::CLOCK_MONOTONIC),
            started_processor_ns: processor_ns(),
            budget: Budget::default(),
            is_limited: false,
            bounds: Bounds::default(),
            is_frugal: false,
            counted_since_ns: None,
            done: Cell::new((0, 0)),
            remainder: Cell::new(None),
            recall_ns: Cell::new(0),
            search_ns: Cell::new(None),
            end: End { core, switched_off },
            pages_left: Cell::new(None),
            slot: output.slot,
            descriptor: output.descriptor,
            stamp: output.stamp,
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.settings.config
    }

    /// The number under which the output's heat is kept.
    pub(super) fn key(&self) -> u64 {
        inode_map::key_of(&self.stamp)
    }

    /// Opens the output once more, by a descriptor of our own.
    pub(super) fn output(&self) -> Result<SsTableFile<'b>, Refused> {
        Ok(SsTableFile::reopen(
            self.core,
            self.descriptor,
            &self.stamp,
            self.slot,
            self.end_ns(),
        )?)
    }

    /// Opens a file by its path, for the time that the handover may take.
    pub(super) fn open_file(&self, path: &CStr) -> Result<SsTableFile<'b>, Refused> {
        let file = SsTableFile::open(self.core, path, self.slot, self.end_ns())?;
        Ok(file)
    }

    /// Opens an input's file, if its path still names the same inode, and if closing it drops no lock.
    pub(super) fn open_input(&self, input: &Input) -> Result<SsTableFile<'b>, Refused> {
        if self.core.inodes.is_locked(&input.stamp) {
            return Err(Refused::Gone);
        }
        let file = self.open_file(&input.path)?;
        if input.stamp.same_inode(file.stamp()) {
            Ok(file)
        } else {
            Err(Refused::Gone)
        }
    }

    /// The heat at an offset of an input; 0 unless it is hot, and 0 everywhere once the search is over.
    pub(super) fn heat_of(&self, input: &Input) -> impl Fn(u64) -> u8 + use<'b> {
        self.recall(input);
        let present = self.present;
        let key = inode_map::key_of(&input.stamp);
        let (end, end_ns) = (self.end.clone(), self.search_end_ns());
        let asked = Cell::new(0_u32);
        let is_over = Cell::new(false);
        let least = least_heat(self.is_frugal);
        move |offset| {
            let heat = present.of_hot(key, offset, least);
            if heat == 0 {
                return 0;
            }
            asked.set(asked.get().wrapping_add(1));
            if asked.get().is_multiple_of(HOT_PAGES_A_CHECK) {
                is_over.set(end.is_reached(end_ns));
            }
            if is_over.get() { 0 } else { heat }
        }
    }

    /// Limits the processor time to a `share` of the time that passes, if there is one. `last` was the thread's last
    /// handover. Returns false if its search took more than this one's may take. Then it is the turn of a later output.
    pub(super) fn limit_time(
        &mut self,
        last: &LastHandover,
        share: Option<ProcessorShare>,
    ) -> bool {
        self.budget = Budget::since(self.started_ns, last, share.unwrap_or(SHARE_BEHIND));
        self.is_limited = share.is_some();
        let is_put_off = self.is_limited && !self.budget.is_enough_after(last);
        self.core
            .count(Counter::HandoverPutOff, u64::from(is_put_off));
        !is_put_off
    }

    /// The end of this handover, and the time of its search.
    pub(super) fn ended(&self) -> LastHandover {
        let ended_ns = process::clock_ns(libc::CLOCK_MONOTONIC);
        let processor_ns = self.spent_ns();
        let taken = Taken {
            search_ns: self.search_ns.get().unwrap_or(processor_ns) - self.recall_ns.get(),
            processor_ns,
            time_ns: ended_ns - self.started_ns,
        };
        LastHandover::new(ended_ns, &taken, &self.budget)
    }

    /// The budget, if it limits the handover.
    fn limit(&self) -> Option<&Budget> {
        self.is_limited.then_some(&self.budget)
    }

    /// The processor time that the handover has taken.
    pub(super) fn spent_ns(&self) -> i128 {
        processor_ns() - self.started_processor_ns
    }

    /// The end of warming.
    fn warming_end_ns(&self) -> i128 {
        let time_ns = self.time_ns();
        let own_ns = self.limit().map_or(time_ns, Budget::time_ns);
        self.started_ns + own_ns.min(time_ns)
    }

    /// The end of all.
    fn end_ns(&self) -> i128 {
        self.started_ns + self.time_ns()
    }

    /// How long the handover may take.
    fn time_ns(&self) -> i128 {
        let configured = u64::from(self.settings.config.handover_milliseconds);
        let milliseconds = match self.bounds.milliseconds_max {
            0 => configured,
            own => own.min(configured),
        };
        i128::from(milliseconds) * 1_000_000
    }

    /// The time at which the search ends. The other half of the limit is for warming.
    pub(super) fn search_end_ns(&self) -> i128 {
        self.started_ns + self.time_ns() / 2
    }

    /// Whether a guess at what is hot has taken its part of the time: half of the search's, by the clock and by the budget.
    pub(super) fn is_recall_over(&self) -> bool {
        let is_spent =
            (self.limit()).is_some_and(|budget| 2 * self.spent_ns() > budget.search_ns());
        is_spent || self.end.is_reached(self.started_ns + self.time_ns() / 4)
    }

    /// Whether any page of an input is hot. A cold input is examined again only after a rest. So the check
    /// stays cheap for large inputs.
    pub(super) fn is_hot(&self, input: &Input) -> bool {
        self.recall(input);
        let Present { heat, epoch } = self.present;
        let now_ns = process::clock_ns(libc::CLOCK_MONOTONIC);
        if now_ns < input.cold_until_ns.get() {
            return false;
        }
        let (key, size_bytes) = (inode_map::key_of(&input.stamp), input.stamp.size_bytes);
        let is_hot = heat.any_hot(key, size_bytes, epoch);
        if !is_hot {
            let end_ns = process::clock_ns(libc::CLOCK_MONOTONIC);
            let rest_ns = (end_ns - now_ns) * COLD_REST_TIMES;
            input.cold_until_ns.set(end_ns + rest_ns);
        }
        is_hot
    }

    /// Whether the search is over.
    pub(super) fn is_search_over(&self) -> bool {
        self.end.is_reached(self.search_end_ns())
    }

    /// Counts the reason for no handover, of the output or of one input. Returns whether to forget the input.
    pub(super) fn count_refused(&self, refused: &Refused) -> bool {
        match refused {
            Refused::Declined(what) => {
                self.core.count(Counter::HandoverDeclined, 1);
                self.record_declined(what);
            }
            Refused::Failed => self.core.count(Counter::HandoverFailed, 1),
            Refused::OutOfMemory => self.core.count(Counter::HandoverShortOfMemory, 1),
            Refused::OutOfTime => self.core.count(Counter::HandoverCutShort, 1),
            Refused::Gone | Refused::NoDescriptor => {}
        }
        matches!(refused, Refused::Gone)
    }

    /// Remembers the output's directory, and why it gets no handover, on the status page.
    fn record_declined(&self, what: &str) {
        if let Some(page) = self.core.page()
            && let Some(path) = lineage::path_of(self.descriptor)
        {
            let path = path.to_bytes();
            let name_at = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            page.record_declined(path.get(..name_at).unwrap_or_default(), what.as_bytes());
        }
    }

    /// Warms the hot ones among `pieces` of the output, below `end` of the file, and records their heat.
    pub(super) fn finish(
        &self,
        output: &SsTableFile<'_>,
        pieces: &[Piece],
        end: u64,
    ) -> Result<(), Refused> {
        let core = self.core;
        let is_search_cut_short = self.is_search_over();
        let hot = |piece: &&Piece| {
            let behind = piece.offset.checked_add(piece.length);
            piece.is_worth_warming(SHARE_MIN) && behind.is_some_and(|behind| behind <= end)
        };
        let limits = Limits {
            heat_min: SHARE_MIN,
            pages_max: self.pages_left_of(Budget::processor_ns),
        };
        let plan = Plan::choose(pieces.iter().filter(hot).copied(), limits)?;
        let beginnings = Plan::beginnings(pieces, KEPT_MIN)?;
        core.count(Counter::HandoverSsTables, 1);
        core.count(Counter::HandoversFrugal, u64::from(self.is_frugal));
        core.count(Counter::HandoverPagesHot, plan.hot_pages());
        core.count(Counter::HandoverPagesLeftOut, plan.left_out.len() as u64);
        let warmed = self.warm(output, &plan, self.warming_end_ns())?;
        let warmed_to = warmed.cut_short_at.unwrap_or(u64::MAX) / PAGE_BYTES;
        let is_warm = |page: &&Page| page.number < warmed_to;
        // Otherwise a drop-behind writer would drop the warm pages at the end of a part.
        if let Some(last) = plan.pages.iter().rfind(is_warm) {
            self.writes
                .keep_cached(core, self.slot, (last.number + 1) * PAGE_BYTES);
        }
        self.done.set((plan.hot_pages(), warmed.pages));
        let is_cut_short = is_search_cut_short || warmed.cut_short_at.is_some();
        core.count(Counter::HandoverCutShort, u64::from(is_cut_short));
        let Present { heat, epoch } = self.present;
        let mut ranges = 0;
        for page in beginnings {
            let was_warmed = plan.contains(page.number) && is_warm(&&page);
            ranges += u64::from(was_warmed);
            let (offset, warmth) = (page.number * PAGE_BYTES, page.heat.min(254.0) as u8);
            let origin = if was_warmed {
                Origin::Warmed
            } else {
                Origin::Estimated
            };
            heat.set(self.key(), offset, warmth, origin, epoch);
        }
        core.count(Counter::HandoverRangesWarmed, ranges);
        self.record_delay();
        if !plan.is_whole(warmed_to) && self.may_go_on_later() {
            self.remainder.set(Some((plan, warmed_to)));
        }
        Ok(())
    }

    /// Whether what is left cold now may be warmed after the publication: not where that has proved to be of little use. It
    /// may also while compactions are behind, as none of them waits for it.
    fn may_go_on_later(&self) -> bool {
        !self.is_frugal && self.core.is_on(Mechanism::Handover)
    }

    /// Brings pages of the output into the page cache.
    pub(super) fn warm(
        &self,
        output: &SsTableFile<'_>,
        plan: &Plan,
        end_ns: i128,
    ) -> Result<WarmResult, Refused> {
        let is_over = || self.end.is_reached(end_ns);
        let ranges = plan.ranges(warm::RANGE_BYTES_MAX as u64);
        let in_flight = self.settings.config.handover_in_flight;
        let searched_ns = self.spent_ns();
        self.search_ns.set(Some(searched_ns));
        let warmed = warm::warm(output.number(), ranges, in_flight, is_over)?;
        let taken_ns = self.spent_ns() - searched_ns;
        self.warming_time.record(warmed.pages, taken_ns);
        self.core.count(Counter::HandoverPagesWarmed, warmed.pages);
        let pages = usize::try_from(warmed.pages).unwrap_or(usize::MAX);
        let left = self.pages_left().saturating_sub(pages);
        self.pages_left.set(Some(left));
        Ok(warmed)
    }

    /// How many pages the search may still read ahead.
    pub(super) fn pages_left_to_search(&self) -> usize {
        self.pages_left_of(Budget::search_ns)
    }

    /// How many pages may still be warmed within a part of the budget.
    fn pages_left_of(&self, part_ns: impl FnOnce(&Budget) -> i128) -> usize {
        let affordable = self.limit().map_or(usize::MAX, |budget| {
            (self.warming_time).pages_in(part_ns(budget) - self.spent_ns())
        });
        self.pages_left().min(affordable)
    }

    /// How many pages memory and settings still allow to warm.
    fn pages_left(&self) -> usize {
        let left = self.pages_left.get().unwrap_or_else(|| self.pages_max());
        self.pages_left.set(Some(left));
        left
    }

    /// How many pages memory and settings allow to warm.
    fn pages_max(&self) -> usize {
        let share = host_memory::limit_bytes() / MEMORY_SHARE;
        let own = match self.bounds.bytes_max {
            0 => u64::MAX,
            own => own,
        };
        let bytes = share.min(self.settings.config.handover_bytes).min(own);
        if host_memory::pressure().is_some_and(|pressure| pressure > PRESSURE_MAX) {
            self.core.count(Counter::HandoverShortOfMemory, 1);
            return 0;
        }
        (bytes / PAGE_BYTES) as usize
    }

    /// Counts how long the application's thread was delayed.
    fn record_delay(&self) {
        let taken_ns = process::clock_ns(libc::CLOCK_MONOTONIC) - self.started_ns;
        let taken_ns = u64::try_from(taken_ns).unwrap_or(0);
        self.core.count(Counter::HandoverNanoseconds, taken_ns);
        self.core.count(Counter::of_handover_delay(taken_ns), 1);
    }
}

/// The least heat of a hot page (`policy/heat.rs: is_hot`) that a handover moves: 1 is no bound. [`Transfer::is_hot`]
/// does not apply it: an input may be examined in vain.
pub(super) fn least_heat(is_frugal: bool) -> u8 {
    if is_frugal { 2 * TOUCH } else { 1 }
}

/// The calling thread's processor time so far.
fn processor_ns() -> i128 {
    process::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}
