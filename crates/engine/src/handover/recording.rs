//! What background threads read and write: the inputs and outputs of their compactions.

use super::means::Means;
use super::mechanism::Handover;
use super::transfer::least_heat;
use crate::core::descriptor_map::TrackedFile;
use crate::core::{Core, inode_map};
use crate::heat::{HeatMap, Present};
use crate::writes::HandoverState;
use coldstream_control::Counter;
use coldstream_io::sys::file::FileStamp;
use coldstream_io::sys::process;
use coldstream_policy::FileKind;
use std::ops::Range;

impl Handover {
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
        let least = least_heat(self.frugality.last());
        let heat = |offset| present.of_hot(key, offset, least);
        (self.lineage).record_blob_read(process::thread_id(), key, offset, bytes, heat);
    }

    /// A background thread has written these bytes to the end of a blob file.
    pub fn record_blob_written(&self, means: Means<'_>, tracked: TrackedFile, bytes: &[u8]) {
        if let Some((key, _)) = key_and_heat(means, tracked) {
            (self.lineage).record_blob_written(process::thread_id(), key, bytes);
        }
    }
}

/// The number under which a blob file's heat is kept, and the heat. `None` where handovers are off.
fn key_and_heat(means: Means<'_>, tracked: TrackedFile) -> Option<(u64, Present)> {
    let is_possible = Handover::is_possible(means);
    let inode = (means.core.inodes.get(tracked.slot)).filter(|_| is_possible)?;
    Some((inode.key(), means.heat.present()?))
}
