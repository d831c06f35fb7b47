//! The handover warms a new SSTable before the application reads from it. It warms the pages of the keys
//! that were hot in the inputs.
//!
//! It runs in the background thread that wrote the SSTable, inside the last call before the publication:
//!
//! - RocksDB and LevelDB: the writer's `close`, also of a blob file;
//! - Cassandra 5.0 and 6.0: the `open` by which the compaction opens the file for reading, also for early
//!   parts;
//! - Cassandra 4.1: the `mmap` of the new part of the index. 4.1 opens a file once, and reads all further
//!   parts by the same descriptor.
//!
//! In any doubt there is no handover. A wrong one does no harm: it reads pages that no reader needs.

mod blobs;
mod budget;
mod cassandra;
mod deadlines;
mod explicit;
mod lineage;
mod mapped;
mod means;
mod pages_left;
mod recall;
mod refused;
mod remainder;
mod rocksdb;
mod spending;
mod sstable_file;
mod transfer;
mod warming_time;

use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::core::{Core, fuse, inode_map};
use crate::heat::{HeatMap, Present};
use crate::settings::{self, Settings};
use crate::thread::{self, Inside, READS_A_SAMPLE_OF_ALL};
use crate::writes::{HandoverState, Reach};
use budget::{SHARE_BEHIND, SHARE_OF_MAPPED};
use coldstream_control::{Counter, Mechanism};
use coldstream_io::Errno;
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::lock::FutexLock;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::process;
use coldstream_io::warm::RANGE_BYTES_MAX;
use coldstream_policy::usefulness::{Totals, Usefulness};
use coldstream_policy::{FileKind, Role};
pub use explicit::{Inputs, Mapped, Way};
use explicit::{finished_output, given, push};
use lineage::{Lineage, Output, Work};
pub use means::Means;
use refused::Refused;
use remainder::{Remainder, Unfinished};
use std::cell::Cell;
use std::ffi::CString;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
pub use transfer::{Bounds, Done};
use transfer::{LeftCold, OutputFile, Transfer, least_heat};
use warming_time::WarmingTime;

/// All-zero memory knows no input.
#[repr(C)]
pub struct Handover {
    lineage: Lineage,
    warming_time: WarmingTime,
    remainder: Remainder,
    usefulness: FutexLock<Usefulness>,
    /// What it said last.
    is_frugal: AtomicBool,
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

    /// A background thread reads these bytes of an SSTable that is served.
    pub fn record_input(
        &self,
        core: &Core,
        heat: &HeatMap,
        (kind, descriptor): (FileKind, i32),
        stamp: &FileStamp,
        read: Range<u64>,
    ) {
        // The records of a blob file are its inputs.
        if kind == FileKind::RocksDbBlob || Self::state(core, heat) == HandoverState::Never {
            return;
        }
        let thread = process::thread_id();
        let skipped = (self.lineage).record_read(thread, descriptor, stamp, read);
        if let Some(skipped) = skipped
            && matches!(kind, FileKind::RocksDbSsTable | FileKind::LevelDbSsTable)
            && let Some(present) = heat.present()
        {
            let (key, length_bytes) = (inode_map::key_of(stamp), skipped.end - skipped.start);
            core.count(Counter::HandoverBlockCacheBytes, length_bytes);
            (present.heat).raise(key, skipped.start, length_bytes, present.epoch);
        }
    }

    /// A background thread has opened a new SSTable for writing.
    pub fn record_output(
        &self,
        core: &Core,
        heat: &HeatMap,
        kind: FileKind,
        descriptor: i32,
        stamp: &FileStamp,
    ) {
        if Self::state(core, heat) == HandoverState::Never {
            return;
        }
        let thread = process::thread_id();
        match kind {
            FileKind::CassandraData => self.lineage.record_output(thread, descriptor, stamp),
            FileKind::RocksDbSsTable => self.lineage.record_started(thread, descriptor, stamp),
            FileKind::RocksDbBlob => self.lineage.record_blob_output(thread, stamp),
            // LevelDB maps its SSTables: its inputs are seen by their mappings.
            FileKind::LevelDbSsTable | FileKind::Untracked => {}
        }
    }

    /// A background thread has read these bytes of a blob file.
    pub fn record_blob_read(
        &self,
        means: Means<'_>,
        tracked: TrackedFile,
        offset: u64,
        bytes: &[u8],
    ) {
        let Some((key, present)) = key_and_heat(means, tracked) else {
            return;
        };
        let least = least_heat(self.is_frugal.load(Ordering::Relaxed));
        let heat = |offset| present.of_hot(key, offset, least);
        (self.lineage).record_blob_read(process::thread_id(), key, offset, bytes, heat);
    }

    /// A background thread has written these bytes to the end of a blob file.
    pub fn record_blob_written(&self, means: Means<'_>, tracked: TrackedFile, bytes: &[u8]) {
        if let Some((key, _)) = key_and_heat(means, tracked) {
            (self.lineage).record_blob_written(process::thread_id(), key, bytes);
        }
    }

    /// The application is about to close an SSTable or a blob file that it has written.
    #[cold]
    pub fn before_close(
        &self,
        means: Means<'_>,
        tracked: TrackedFile,
        descriptor: i32,
    ) -> TookPlace {
        match tracked.kind {
            FileKind::RocksDbSsTable | FileKind::LevelDbSsTable => {
                let has_mapped = means.mapped.is_heat_known(means.core, tracked.kind)
                    && thread::is_background_reader();
                if has_mapped && Self::state(means.core, means.heat) != HandoverState::Never {
                    self.lineage.know_thread(process::thread_id());
                }
                let is_cached = means.writes.find(means.core, descriptor).is_none();
                self.run(means, tracked, descriptor, |transfer, work| {
                    match (has_mapped, is_cached) {
                        (true, true) => transfer.to_cached_blocks(means.mapped, work),
                        _ => transfer.to_blocks(work),
                    }
                })
            }
            FileKind::RocksDbBlob => self.run(means, tracked, descriptor, |transfer, work| {
                transfer.to_records(work)
            }),
            FileKind::CassandraData => {
                forget_heat_of_others(means.heat, descriptor);
                TookPlace::No
            }
            FileKind::Untracked => TookPlace::No,
        }
    }

    /// The application has opened an SSTable for reading.
    pub fn after_open(&self, means: Means<'_>, tracked: TrackedFile, descriptor: i32) -> TookPlace {
        match tracked.kind {
            FileKind::CassandraData if thread::is_background_reader() => {
                self.run(means, tracked, descriptor, |transfer, work| {
                    transfer.to_partitions(work)
                })
            }
            // The files of the other engines get their heat when they are closed.
            FileKind::CassandraData
            | FileKind::RocksDbSsTable
            | FileKind::RocksDbBlob
            | FileKind::LevelDbSsTable
            | FileKind::Untracked => TookPlace::No,
        }
    }

    /// The application has mapped a file that is no SSTable. It may be the index of an SSTable that the
    /// calling thread's compaction writes.
    pub fn after_mapping(&self, means: Means<'_>, descriptor: i32) -> TookPlace {
        let core = means.core;
        if !thread::is_background_reader() || !Self::is_possible(means) {
            return TookPlace::No;
        }
        let _errno = ErrnoGuard::new();
        let Some((tracked, output)) = self.output_of_index(core, descriptor) else {
            return TookPlace::No;
        };
        // Otherwise the handover would miss staged bytes.
        let identity = (output.stamp.device, output.stamp.inode);
        let _ = (means.writes).drain_identity(core, identity, Reach::Sees);
        match Inside::enter() {
            Some(_inside) => self.run(means, tracked, output.descriptor, |transfer, work| {
                transfer.to_partitions(work)
            }),
            None => TookPlace::No,
        }
    }

    /// The SSTable, among those that the calling thread writes, whose index is behind `descriptor`.
    fn output_of_index(&self, core: &Core, descriptor: i32) -> Option<(TrackedFile, Output)> {
        let _inside = Inside::enter()?;
        let outputs = self.lineage.outputs(process::thread_id());
        if outputs.is_empty() {
            return None;
        }
        let index = lineage::path_of(descriptor)?;
        outputs.into_iter().find_map(|output| {
            let tracked = core.tracked(output.descriptor)?;
            let data = lineage::path_of(output.descriptor)?;
            let is_its_index = file::is_same_inode(output.descriptor, &output.stamp)
                && cassandra::is_index_of(&index, &data);
            is_its_index.then_some((tracked, output))
        })
    }

    /// Has what the transfer left cold warmed after the publication.
    fn leave_remainder(&self, transfer: &Transfer<'_>, last_input: Option<(CString, FileStamp)>) {
        if let Some(LeftCold { plan, from_page }) = transfer.left_cold.take()
            && let Some((input_path, input_stamp)) = last_input
            && let Some(path) = lineage::path_of(transfer.output.descriptor)
        {
            let unfinished = Unfinished {
                output: (&path, transfer.output.stamp),
                input: (&input_path, input_stamp),
                slot: transfer.output.slot,
                in_flight: transfer.config().handover_in_flight,
            };
            let warmed_bytes = transfer.done.get().warmed_pages * PAGE_BYTES;
            let mut room_bytes = (transfer.config().handover_bytes).saturating_sub(warmed_bytes);
            let fits = |range: &Range<u64>| {
                let room = room_bytes.checked_sub(range.end - range.start);
                room_bytes = room.unwrap_or(0);
                room.is_some()
            };
            let ranges = plan.remainder(from_page, RANGE_BYTES_MAX as u64);
            (self.remainder).leave(transfer.core, &unfinished, ranges.take_while(fits));
        }
    }

    /// Gives memory back to the system that `mlockall` has made resident.
    pub fn give_untouched_back(&self) {
        self.remainder.give_untouched_back();
    }

    /// As [`coldstream_io::writers::Writers::wake_followers`].
    pub fn wake_follower(&self) -> bool {
        self.remainder.wake_follower()
    }

    /// Hands over to the file behind `descriptor` at once. Does nothing where handovers are off.
    ///
    /// # Errors
    /// `ENOMEM`; the kernel's, of the inputs or the output.
    pub fn hand_over<I: Iterator<Item = Mapped>>(
        &self,
        means: Means<'_>,
        (tracked, descriptor): (TrackedFile, i32),
        inputs: Inputs<'_>,
        way: Way<I>,
        bounds: Bounds,
    ) -> Result<Done, Errno> {
        let core = means.core;
        let Some(kept) = Self::kept_now(means) else {
            return Ok(Done::default());
        };
        let _errno = ErrnoGuard::new();
        let stamp = file::stamp(descriptor)?;
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
            bounds,
            &switched_off,
        );
        transfer.is_frugal = self.is_frugal(core, means.heat);
        let started_ns = process::monotonic_ns();
        let thread = process::thread_id();
        let mut work = match inputs {
            Inputs::Given(descriptors) => given(thread, descriptors)?,
            Inputs::OfThread => self.lineage.take(thread).unwrap_or(Work::none(thread)),
        };
        if tracked.kind == FileKind::CassandraData {
            push(&mut work.outputs, finished_output(&stamp, descriptor))?;
        }
        let attempt = core.protect(|| match way {
            Way::Mapping(mapping) => transfer.to_mapped(&work, mapping),
            Way::Indexes if tracked.kind == FileKind::CassandraData => {
                transfer.to_partitions(&mut work)
            }
            Way::Indexes => transfer.to_blocks(&mut work),
        });
        if matches!(inputs, Inputs::OfThread) {
            work.outputs.retain(|it| !it.stamp.same_inode(&stamp));
            work.last_handover = transfer.ended();
            self.lineage.give_back(work);
        }
        if let Some(Err(refused)) = &attempt {
            transfer.count_refused(refused);
        }
        core.publish_memory();
        Ok(Done {
            ns: process::monotonic_ns().saturating_sub(started_ns),
            ..transfer.done.get()
        })
    }

    /// Whether handovers are to be frugal: most of what those before have warmed was of no use. Without a page nothing
    /// is counted, and none is.
    fn is_frugal(&self, core: &Core, heat: &HeatMap) -> bool {
        // Another thread judges just now: what was judged last is right as well.
        if let (Some(page), Some(mut usefulness)) = (core.page(), self.usefulness.try_lock()) {
            let (pages, epoch_pages) = heat.clock();
            let (sampled, missed) = page.sampled_reads();
            let all = |samples: u64| samples.saturating_mul(u64::from(READS_A_SAMPLE_OF_ALL));
            let totals = Totals {
                warmed: page.get(Counter::HandoverRangesWarmed),
                hit: page.get(Counter::HandoverRangesHit),
                reads: all(sampled),
                missed: all(missed),
                pages,
            };
            let is_frugal = usefulness.judge(totals, epoch_pages);
            self.is_frugal.store(is_frugal, Ordering::Relaxed);
        }
        self.is_frugal.load(Ordering::Relaxed)
    }

    /// Whether this process has handovers just now.
    fn is_possible(means: Means<'_>) -> bool {
        Self::state(means.core, means.heat) == HandoverState::On
            && !fuse::is_blown()
            && means.core.owner.is_this_process()
    }

    /// Heat and settings, if this process has handovers just now.
    fn kept_now(means: Means<'_>) -> Option<(Present, &'static Settings)> {
        let kept = means.heat.present().zip(settings::get());
        kept.filter(|_| Self::is_possible(means))
    }

    fn run(
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
        transfer.is_frugal = self.is_frugal(core, means.heat);
        // The handover removes what it is done with.
        let last_input = lineage.last_input();
        let attempt = core.protect(|| work(&transfer, &mut lineage));
        lineage.last_handover = transfer.ended();
        self.leave_remainder(&transfer, last_input);
        self.lineage.give_back(lineage);
        if let Some(Err(refused)) = attempt {
            transfer.count_refused(&refused);
        }
        core.publish_memory();
        TookPlace::Yes
    }
}

/// The number under which a blob file's heat is kept, and the heat. `None` where handovers are off.
fn key_and_heat(means: Means<'_>, tracked: TrackedFile) -> Option<(u64, Present)> {
    let is_possible = Handover::is_possible(means);
    let inode = (means.core.inodes.get(tracked.slot)).filter(|_| is_possible)?;
    Some((inode.key(), means.heat.present()?))
}

/// The application is about to close an SSTable of Cassandra that it has written. If it is no output of a compaction,
/// heat under its inode number belongs to a deleted file, and is forgotten.
fn forget_heat_of_others(heat: &HeatMap, descriptor: i32) {
    // Not for outputs of compactions: they have the heat of their parts, or get it when they are opened. What another
    // node sends is none.
    let may_be_output = thread::is_background_reader() && thread::role() != Role::Streaming;
    if !may_be_output {
        forget_heat(heat, descriptor);
    }
}

/// Forgets the heat that is kept under the number of a new file.
fn forget_heat(heat: &HeatMap, descriptor: i32) {
    if let Some(present) = heat.present()
        && let Ok(stamp) = file::stamp(descriptor)
    {
        let bytes = 0..stamp.size_bytes;
        present.heat.forget(inode_map::key_of(&stamp), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldstream_policy::heat::Origin;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_that_no_compaction_wrote_has_no_heat_of_a_deleted_one() {
        // SAFETY: all-zero memory is an empty one.
        let heat: HeatMap = unsafe { std::mem::zeroed() };
        heat.open(1 << 20, 1 << 30);
        let present = heat.present().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 8192]).unwrap();
        let descriptor = file.as_file().as_raw_fd();
        let key = inode_map::key_of(&file::stamp(descriptor).unwrap());
        let is_hot_after_close_by = |role| {
            let Present {
                heat: sketch,
                epoch,
            } = present;
            sketch.set(key, 4096, 200, Origin::Estimated, epoch);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    thread::declare_role(role);
                    forget_heat_of_others(&heat, descriptor);
                });
            });
            present.of_hot(key, 4096, 1) > 0
        };
        assert!(
            is_hot_after_close_by(Role::Compaction),
            "it has the heat of its parts"
        );
        assert!(!is_hot_after_close_by(Role::Streaming));
        assert!(!is_hot_after_close_by(Role::Foreground));
    }
}
