//! One handover: its inputs and its output, the search for what is hot, and the warming. Common to all engines.
//!
//! It ends for one of these reasons:
//!
//! | reason | where | counter |
//! |---|---|---|
//! | all of it is done | | |
//! | its time is over, or handovers are switched off | `deadlines.rs` | `handover_cut_short` |
//! | its share of the processor is taken | `spending.rs` | `handover_put_off`, `handover_pages_left_out` |
//! | memory or the settings allow no more pages | `pages_left.rs` | `handover_pages_left_out`, `handover_short_of_memory` |
//! | a file cannot be read | `refused.rs` | `handover_declined`, `handover_failed` and others |

use super::budget::{LastHandover, ProcessorShare};
use super::deadlines::{self, Deadline, Deadlines};
use super::lineage::{self, Input};
use super::means::Means;
use super::pages_left::PagesLeft;
use super::refused::Refused;
use super::spending::Spending;
use super::sstable_file::SsTableFile;
use super::warming_time::WarmingTime;
use crate::core::{Core, inode_map};
use crate::heat::Present;
use crate::settings::Settings;
use crate::writes::StagedFiles;
use coldstream_control::{Counter, Mechanism};
use coldstream_handover::{Heirs, Limits, Page, Piece, Plan, SHARE_MIN};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::sys::file::FileStamp;
use coldstream_io::warm::{self, WarmResult};
use coldstream_policy::Config;
use coldstream_policy::heat::TOUCH;
use std::cell::Cell;
use std::ffi::CStr;

/// The deadline is checked every 64 hot pages.
const HOT_PAGES_A_CHECK: u32 = 64;
/// A cold input is not looked at again for 50 times as long as it took to find that it is cold.
const COLD_REST_TIMES: i128 = 50;

/// Limits of one handover, beside the configured ones; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Bytes that are warmed.
    pub bytes_max: u64,
    /// The time that it takes.
    pub milliseconds_max: u64,
}

impl Bounds {
    /// The most bytes that are warmed before the publication.
    fn bytes_max(&self, config: &Config) -> u64 {
        match self.bytes_max {
            0 => config.handover_bytes,
            own => own.min(config.handover_bytes),
        }
    }

    /// The most time that it takes.
    fn milliseconds_max(&self, config: &Config) -> u64 {
        let configured = u64::from(config.handover_milliseconds);
        match self.milliseconds_max {
            0 => configured,
            own => own.min(configured),
        }
    }
}

/// What a handover did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Pages of the output whose keys were hot in the inputs.
    pub hot_pages: u64,
    /// Pages that were read into the page cache.
    pub warmed_pages: u64,
    /// How long it took.
    pub ns: u64,
}

/// What was hot and could not be warmed.
pub(super) struct LeftCold {
    pub(super) plan: Plan,
    /// From this page on the plan's pages are cold: the time was over. So is what the plan left out.
    pub(super) from_page: u64,
}

/// One handover.
pub(super) struct Transfer<'b> {
    pub(super) core: &'b Core,
    pub(super) writes: &'b StagedFiles,
    settings: &'b Settings,
    pub(super) present: Present,
    warming_time: &'b WarmingTime,
    pub(super) deadlines: Deadlines<'b>,
    pub(super) spending: Spending,
    pages_left: PagesLeft<'b>,
    /// Whether only what was read twice is hot.
    pub(super) is_frugal: bool,
    /// Reads of older SSTables may have been made before any was counted. `None` once enough was counted.
    pub(super) counted_since_ns: Option<i128>,
    pub(super) done: Cell<Done>,
    /// `None` if all of it is warm.
    pub(super) left_cold: Cell<Option<LeftCold>>,
    pub(super) output: OutputFile,
}

/// The file that gets the heat.
pub(super) struct OutputFile {
    pub(super) slot: u32,
    pub(super) descriptor: i32,
    pub(super) stamp: FileStamp,
}

impl<'b> Transfer<'b> {
    /// Begins a handover, and its time limit. `switched_off` is false.
    pub(super) fn begin(
        means: Means<'b>,
        (present, settings): (Present, &'b Settings),
        warming_time: &'b WarmingTime,
        output: OutputFile,
        bounds: Bounds,
        switched_off: &'b Cell<bool>,
    ) -> Self {
        let (core, config) = (means.core, &settings.config);
        Self {
            core,
            writes: means.writes,
            settings,
            present,
            warming_time,
            deadlines: Deadlines::begin(core, switched_off, bounds.milliseconds_max(config)),
            spending: Spending::begin(),
            pages_left: PagesLeft::within(core, bounds.bytes_max(config)),
            is_frugal: false,
            counted_since_ns: means.heat.counted_since_ns(),
            done: Cell::new(Done::default()),
            left_cold: Cell::new(None),
            output,
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.settings.config
    }

    /// The number under which the output's heat is kept.
    pub(super) fn key(&self) -> u64 {
        inode_map::key_of(&self.output.stamp)
    }

    /// Opens the output once more, by a descriptor of our own.
    pub(super) fn open_output(&self) -> Result<SsTableFile<'b>, Refused> {
        let OutputFile {
            slot,
            descriptor,
            stamp,
        } = &self.output;
        let end_ns = self.deadlines.end_ns();
        Ok(SsTableFile::reopen(
            self.core,
            *descriptor,
            stamp,
            *slot,
            end_ns,
        )?)
    }

    /// Opens a file by its path, for the time that the handover may take.
    pub(super) fn open_file(&self, path: &CStr) -> Result<SsTableFile<'b>, Refused> {
        let file = SsTableFile::open(self.core, path, self.output.slot, self.deadlines.end_ns())?;
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
        let end = self.deadlines.of_search();
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
                is_over.set(end.is_reached());
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
        let started_ns = self.deadlines.started_ns();
        let is_its_turn = self.spending.limit(started_ns, last, share);
        let is_put_off = u64::from(!is_its_turn);
        self.core.count(Counter::HandoverPutOff, is_put_off);
        is_its_turn
    }

    /// The end of this handover, and the time of its search.
    pub(super) fn ended(&self) -> LastHandover {
        let time_ns = self.deadlines.taken_ns();
        let ended_ns = self.deadlines.started_ns() + time_ns;
        self.spending.ended(ended_ns, time_ns)
    }

    /// Whether a guess at what is hot has taken its part of the time: half of the search's, by the clock and by the budget.
    pub(super) fn is_recall_over(&self) -> bool {
        self.spending.is_half_of_search_gone() || self.deadlines.of_recall().is_reached()
    }

    /// Whether any page of an input is hot. A cold input is examined again only after a rest. So the check
    /// stays cheap for large inputs.
    pub(super) fn is_hot(&self, input: &Input) -> bool {
        self.recall(input);
        let Present { heat, epoch } = self.present;
        let now_ns = deadlines::now_ns();
        if now_ns < input.cold_until_ns.get() {
            return false;
        }
        let (key, size_bytes) = (inode_map::key_of(&input.stamp), input.stamp.size_bytes);
        let is_hot = heat.any_hot(key, size_bytes, epoch);
        if !is_hot {
            let end_ns = deadlines::now_ns();
            let rest_ns = (end_ns - now_ns) * COLD_REST_TIMES;
            input.cold_until_ns.set(end_ns + rest_ns);
        }
        is_hot
    }

    /// Whether the search is over.
    pub(super) fn is_search_over(&self) -> bool {
        self.deadlines.of_search().is_reached()
    }

    /// Counts the reason for no handover, of the output or of one input. Returns whether to forget the input.
    pub(super) fn count_refused(&self, refused: &Refused) -> bool {
        if let Some(counter) = refused.counter() {
            self.core.count(counter, 1);
        }
        if let Refused::Declined(what) = refused {
            self.record_declined(what);
        }
        matches!(refused, Refused::Gone)
    }

    /// Remembers the output's directory, and why it gets no handover, on the status page.
    fn record_declined(&self, what: &str) {
        if let Some(page) = self.core.page()
            && let Some(path) = lineage::path_of(self.output.descriptor)
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
            pages_max: self.affordable(self.spending.left_ns()),
        };
        let plan = Plan::choose(pieces.iter().filter(hot).copied(), limits)?;
        let heirs = Heirs::of(&plan, pieces)?;
        core.count(Counter::HandoverSsTables, 1);
        core.count(Counter::HandoversFrugal, u64::from(self.is_frugal));
        core.count(Counter::HandoverPagesHot, plan.hot_pages());
        core.count(Counter::HandoverPagesLeftOut, plan.left_out.len() as u64);
        let warmed = self.warm(
            output,
            &plan,
            self.deadlines.of_warming(self.spending.time_ns()),
        )?;
        let warmed_to = warmed.cut_short_at.unwrap_or(u64::MAX) / PAGE_BYTES;
        let is_warm = |page: &&Page| page.number < warmed_to;
        // Otherwise a drop-behind writer would drop the warm pages at the end of a part.
        if let Some(last) = plan.pages.iter().rfind(is_warm) {
            self.writes
                .keep_cached(core, self.output.slot, (last.number + 1) * PAGE_BYTES);
        }
        self.done.set(Done {
            hot_pages: plan.hot_pages(),
            warmed_pages: warmed.pages,
            ns: 0,
        });
        let is_cut_short = is_search_cut_short || warmed.cut_short_at.is_some();
        core.count(Counter::HandoverCutShort, u64::from(is_cut_short));
        let Present { heat, epoch } = self.present;
        let ranges = heirs.record(heat, self.key(), epoch, warmed_to);
        core.count(Counter::HandoverRangesWarmed, ranges);
        self.record_delay();
        if !plan.is_whole(warmed_to) && self.may_go_on_later() {
            let left_cold = LeftCold {
                plan,
                from_page: warmed_to,
            };
            self.left_cold.set(Some(left_cold));
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
        end: Deadline<'_>,
    ) -> Result<WarmResult, Refused> {
        let is_over = || end.is_reached();
        let ranges = plan.ranges(warm::RANGE_BYTES_MAX as u64);
        let in_flight = self.settings.config.handover_in_flight;
        let searched_ns = self.spending.end_search();
        let warmed = warm::warm(output.number(), ranges, in_flight, is_over)?;
        let taken_ns = self.spending.taken_ns() - searched_ns;
        self.warming_time.record(warmed.pages, taken_ns);
        self.core.count(Counter::HandoverPagesWarmed, warmed.pages);
        self.pages_left.take(warmed.pages);
        Ok(warmed)
    }

    /// How many pages the search may still read ahead.
    pub(super) fn pages_left_to_search(&self) -> usize {
        self.affordable(self.spending.left_to_search_ns())
    }

    /// How many pages may still be warmed, in this processor time if it is limited.
    fn affordable(&self, left_ns: Option<i128>) -> usize {
        let pages = left_ns.map_or(usize::MAX, |ns| self.warming_time.pages_in(ns));
        self.pages_left.get().min(pages)
    }

    /// Counts how long the application's thread was delayed.
    fn record_delay(&self) {
        let taken_ns = u64::try_from(self.deadlines.taken_ns()).unwrap_or(0);
        self.core.count(Counter::HandoverNanoseconds, taken_ns);
        self.core.count(Counter::of_handover_delay(taken_ns), 1);
    }
}

/// The least heat of a hot page (`policy/heat.rs: is_hot`) that a handover moves: 1 is no bound. [`Transfer::is_hot`]
/// does not apply it: an input may be examined in vain.
pub(super) fn least_heat(is_frugal: bool) -> u8 {
    if is_frugal { 2 * TOUCH } else { 1 }
}
