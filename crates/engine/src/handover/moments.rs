//! The moment of a handover, by engine: the last call before the publication.

use super::cassandra;
use super::deleted_heat::forget_heat_of_others;
use super::lineage::{self, Output};
use super::means::Means;
use super::mechanism::{Handover, TookPlace};
use crate::core::Core;
use crate::core::descriptor_map::TrackedFile;
use crate::core::errno::ErrnoGuard;
use crate::thread::{self, Inside};
use crate::writes::{HandoverState, Reach};
use coldstream_io::sys::file;
use coldstream_io::sys::process;
use coldstream_policy::FileKind;

impl Handover {
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
}
