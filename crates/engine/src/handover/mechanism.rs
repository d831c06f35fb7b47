//! What all handovers have in common: the state that they share, whether there is one now, and how it runs.

use super::budget::{SHARE_BEHIND, SHARE_OF_MAPPED};
use super::deleted_heat::forget_heat;
use super::frugality::Frugality;
use super::lineage::{Lineage, Work};
use super::means::Means;
use super::refused::Refused;
use super::remainder::Remainder;
use super::transfer::{Bounds, OutputFile, Transfer};
use super::warming_time::WarmingTime;
use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::core::{Core, fuse};
use crate::heat::{HeatMap, Present};
use crate::settings::{self, Settings};
use crate::writes::HandoverState;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::sys::file;
use coldstream_io::sys::process;
use coldstream_policy::FileKind;
use std::cell::Cell;

/// All-zero memory knows no input.
#[repr(C)]
pub struct Handover {
    pub(super) lineage: Lineage,
    pub(super) warming_time: WarmingTime,
    pub(super) remainder: Remainder,
    pub(super) frugality: Frugality,
}

/// Whether a handover took place, and so delayed the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TookPlace {
    /// It did.
    Yes,
    /// It did not.
    No,
}

impl Handover {
    /// Whether this process has handovers at all, and at present. Heat alone does not tell: it may be kept
    /// for eviction only.
    pub fn state(core: &Core, heat: &HeatMap) -> HandoverState {
        let is_configured = settings::get().is_some_and(|settings| settings.config.handover);
        if !is_configured || heat.present().is_none() {
            HandoverState::Never
        } else if core.is_on(Mechanism::Handover) {
            HandoverState::On
        } else {
            HandoverState::SwitchedOff
        }
    }

    /// Whether this process has handovers just now.
    pub(super) fn is_possible(means: Means<'_>) -> bool {
        Self::state(means.core, means.heat) == HandoverState::On
            && !fuse::is_blown()
            && means.core.owner.is_this_process()
    }

    /// Heat and settings, if this process has handovers just now.
    pub(super) fn kept_now(means: Means<'_>) -> Option<(Present, &'static Settings)> {
        let kept = means.heat.present().zip(settings::get());
        kept.filter(|_| Self::is_possible(means))
    }

    /// Hands over to the file behind `descriptor`, by `work`.
    pub(super) fn run(
        &self,
        means: Means<'_>,
        tracked: TrackedFile,
        descriptor: i32,
        work: impl FnOnce(&Transfer<'_>, &mut Work) -> Result<(), Refused>,
    ) -> TookPlace {
        let core = means.core;
        let _errno = ErrnoGuard::new();
        let without = || {
            // The output gets no heat. Heat under this inode number belongs to a deleted file: eviction has it, too, and
            // handovers may be switched on again. A file of Cassandra may be an old SSTable that was opened to be read:
            // the heat is its own.
            if tracked.kind != FileKind::CassandraData && core.owner.is_this_process() {
                forget_heat(means.heat, descriptor);
            }
            TookPlace::No
        };
        let Some(kept) = Self::kept_now(means) else {
            return without();
        };
        let Ok(stamp) = file::stamp(descriptor) else {
            return TookPlace::No;
        };
        let output = OutputFile {
            slot: tracked.slot,
            descriptor,
            stamp,
        };
        let switched_off = Cell::new(false);
        let mut transfer = Transfer::begin(
            means,
            kept,
            &self.warming_time,
            output,
            Bounds::default(),
            &switched_off,
        );
        // Without it this thread has no inputs.
        let Some(mut lineage) = self.lineage.take(process::thread_id()) else {
            return without();
        };
        if core.inodes.is_locked(&stamp) {
            self.lineage.give_back(lineage);
            core.count(Counter::HandoverLocked, 1);
            return without();
        }
        let share = match (core.is_behind(), lineage.mapped.is_empty()) {
            (true, _) => Some(SHARE_BEHIND),
            (false, false) => Some(SHARE_OF_MAPPED),
            (false, true) => None,
        };
        if !transfer.limit_time(&lineage.last_handover, share) {
            self.lineage.give_back(lineage);
            return without();
        }
        transfer.is_frugal = self.frugality.judge(core, means.heat);
        // The handover removes what it is done with.
        let last_input = lineage.last_input();
        let attempt = core.protect(|| work(&transfer, &mut lineage));
        lineage.last_handover = transfer.ended();
        self.remainder.leave_of(&transfer, last_input);
        self.lineage.give_back(lineage);
        if let Some(Err(refused)) = attempt {
            transfer.count_refused(&refused);
        }
        core.publish_memory();
        TookPlace::Yes
    }

    /// Gives memory back to the system that `mlockall` has made resident.
    pub fn give_untouched_back(&self) {
        self.remainder.give_untouched_back();
    }

    /// As [`coldstream_io::writers::Writers::wake_followers`].
    pub fn wake_follower(&self) -> bool {
        self.remainder.wake_follower()
    }
}
