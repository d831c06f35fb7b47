//! Which new SSTables are staged, and in which mode.

use super::staged_file::{StagedFile, StagedFiles, WriteMode};
use crate::core::Core;
use crate::core::descriptor_map::TrackedFile;
use crate::core::fuse;
use crate::core::heap;
use crate::core::host_memory;
use crate::core::inode_map::Inode;
use crate::report;

use crate::reads::reason_counter;
use crate::settings::Settings;
use crate::thread;
use coldstream_control::{Counter, Mechanism};
use coldstream_handover::cassandra::ChunkLog;
use coldstream_io::alignment::Alignment;
use coldstream_io::lock::FutexGuard;
use coldstream_io::pool::WindowMemory;
use coldstream_io::private::PrivateDescriptor;
use coldstream_io::probe;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::process;
use coldstream_policy::{FileKind, IoMode, IoModeSetting, Role, direct_writes_corrupt};
use std::sync::atomic::{Ordering, fence};

/// Flags of an opening that asks for what a staged file cannot give.
const UNSUPPORTED_FLAGS: i32 = libc::O_APPEND
    | libc::O_DIRECT
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_NONBLOCK
    | O_TMPFILE_BIT;
/// `O_TMPFILE` without the `O_DIRECTORY` that it includes.
const O_TMPFILE_BIT: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Whether a new file's heat is carried over from its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverState {
    /// Never in this process.
    Never,
    /// Not at present.
    SwitchedOff,
    /// It is.
    On,
}

/// An SSTable that was opened for writing.
pub struct Opening<'a> {
    /// The settings of the process.
    pub settings: &'a Settings,
    /// The file, as it is tracked.
    pub tracked: TrackedFile,
    /// The descriptor by which it is written.
    pub descriptor: i32,
    /// The flags of its opening.
    pub flags: i32,
    /// Its stamp.
    pub stamp: &'a FileStamp,
    /// Whether it may get a handover.
    pub handover: HandoverState,
    /// What is written to it goes around the page cache. A compaction's does, whatever the role of its thread is.
    pub goes_around: bool,
    /// The process is a node of Cassandra that reads its data files by mappings.
    pub is_mapping_cassandra: bool,
}

impl Opening<'_> {
    /// Whether it is a new, empty file, opened for what a staged file can give. Whose thread opened it is
    /// another question.
    pub fn is_new(&self) -> bool {
        self.flags & libc::O_CREAT != 0
            && self.flags & (libc::O_TRUNC | libc::O_EXCL) != 0
            && self.stamp.size_bytes == 0
            && self.flags & UNSUPPORTED_FLAGS == 0
    }

    /// Whether to leave the file in the page cache.
    ///
    /// - Its inputs are there too. With the handover on, there must also be free memory. Otherwise the whole file would
    ///   evict other pages.
    /// - There is no handover for it. Around the page cache it would arrive cold (p99 of Cassandra 4.1: 56 ms, not 15).
    fn is_best_cached(&self) -> bool {
        self.settings.config.writes == IoModeSetting::Auto
            && (self.has_unknown_heat()
                || thread::reads_what_is_cached()
                    && (self.handover != HandoverState::On || host_memory::has_room()))
    }

    /// Whether a compaction writes it from data files of Cassandra whose reads are not seen. Where RocksDB and LevelDB
    /// map, their outputs lose nothing.
    fn has_unknown_heat(&self) -> bool {
        self.is_mapping_cassandra
            && self.tracked.kind == FileKind::CassandraData
            && thread::role() == Role::Compaction
    }
}

impl StagedFiles {
    /// Takes in an SSTable that was opened for writing, if it is a background thread's new file that
    /// nobody else has open.
    pub fn take_in(&self, core: &Core, opening: &Opening<'_>) {
        let config = &opening.settings.config;
        if !opening.is_new()
            || !opening.goes_around
            || self.is_closed()
            || !core.is_on(Mechanism::Writes)
            || fuse::is_blown()
        {
            return;
        }
        let Some(inode) = core.inodes.get(opening.tracked.slot) else {
            return;
        };
        if opening.is_best_cached() {
            core.count(Counter::KeptCached, 1);
            return;
        }
        let io_mode = self.io_mode_of_writes(core, opening);
        let mode = match io_mode {
            IoMode::Buffered => return,
            IoMode::DontCache => WriteMode::DontCache,
            IoMode::DropBehind => WriteMode::DropBehind,
            IoMode::Direct
                if config.visible.may_stage(opening.tracked.kind) && self.has_drainer(core) =>
            {
                WriteMode::WriteBehind
            }
            IoMode::Direct => WriteMode::WriteThrough,
        };
        if !inode.is_alone() || inode.is_locked() {
            core.count(Counter::FallbackWriteShared, 1);
            return;
        }
        match self.free_slot() {
            Some((number, staged)) => self.fill(core, opening, inode, number, staged, mode),
            // The writes of this file stay plain.
            None => core.count(Counter::FallbackWriteMemory, 1),
        }
    }

    /// Makes `staged`, a free entry with this number, the opened file's.
    fn fill(
        &self,
        core: &Core,
        opening: &Opening<'_>,
        inode: &Inode,
        number: usize,
        mut staged: FutexGuard<'_, StagedFile>,
        mut mode: WriteMode,
    ) {
        let mut memory = WindowMemory::default();
        let mut direct = PrivateDescriptor::default();
        if matches!(mode, WriteMode::WriteBehind | WriteMode::WriteThrough) {
            match direct_means(core, opening) {
                Ok((taken, opened)) => (memory, direct) = (taken, opened),
                Err(reason) => {
                    core.count(reason, 1);
                    mode = WriteMode::DropBehind;
                }
            }
        }
        let keeps_chunk_log = opening.tracked.kind == FileKind::CassandraData
            && opening.handover != HandoverState::Never;
        *staged = StagedFile {
            owner: opening.tracked.slot + 1,
            number,
            descriptor: opening.descriptor,
            mode,
            stamp: *opening.stamp,
            alignment: alignment_of(opening.descriptor),
            buffers: [memory, WindowMemory::default()],
            direct,
            // Without memory for it there are no early parts of a handover.
            chunks: (keeps_chunk_log.then(ChunkLog::default)).and_then(heap::boxed),
            ..StagedFile::default()
        };
        let identity = (opening.stamp.device, opening.stamp.inode);
        self.views.enter(number, identity, opening.descriptor);
        self.count.fetch_add(1, Ordering::AcqRel);
        inode.set_staged_slot(Some(number));
        // A thread that opens the file now first counts its descriptor, and then looks for a staged file. A
        // thread that ends the process first closes the list, and then looks for staged files. Here it is
        // the other way round. So at least one of two threads sees the other.
        fence(Ordering::SeqCst);
        let is_alone = inode.is_alone();
        if !is_alone || self.is_closed() {
            self.release(core, &mut staged);
            core.count(Counter::FallbackWriteShared, u64::from(!is_alone));
            return;
        }
        core.count(Counter::StagedFiles, 1);
        core.publish_memory();
        let io_mode = staged.io_mode();
        // The log may be on a slow device.
        drop(staged);
        report::log_writes(opening.settings, io_mode, &core.status);
    }

    fn free_slot(&self) -> Option<(usize, FutexGuard<'_, StagedFile>)> {
        self.files.iter().enumerate().find_map(|(number, file)| {
            let staged = file.try_lock()?;
            (staged.owner == 0).then_some((number, staged))
        })
    }

    /// The I/O mode of a new file. One that is less than was wished is counted.
    fn io_mode_of_writes(&self, core: &Core, opening: &Opening<'_>) -> IoMode {
        let writes = opening.settings.config.writes;
        if writes == IoModeSetting::Fixed(IoMode::Buffered) {
            return IoMode::Buffered;
        }
        let filesystem = file::filesystem(opening.descriptor).ok();
        let trusted = filesystem.filter(|found| probe::is_trusted(found.filesystem_type));
        let Some(filesystem) = trusted else {
            core.count(Counter::FallbackFilesystem, 1);
            return IoMode::Buffered;
        };
        if filesystem.is_synchronous || file::is_synchronous(opening.descriptor) == Ok(true) {
            // As with `O_SYNC`: the bytes must be on the device when `write` returns.
            return IoMode::Buffered;
        }
        let alignment = alignment_of(opening.descriptor);
        let direct = alignment.is_some() && !self.is_direct_disabled(opening.stamp.device);
        // The first write shows what a filesystem makes of RWF_DONTCACHE.
        let io_mode = writes.choose_for_writes(direct, true);
        if io_mode == IoMode::Direct {
            let (release, version) = process::kernel();
            if direct_writes_corrupt(&release, &version) {
                core.count(Counter::FallbackWriteKernel, 1);
                return writes.choose_for_writes(false, true);
            }
        }
        core.count(
            Counter::FallbackFilesystem,
            u64::from(io_mode == IoMode::Buffered),
        );
        io_mode
    }
}

/// A staging buffer and a direct descriptor, or the reason to count.
fn direct_means(
    core: &Core,
    opening: &Opening<'_>,
) -> Result<(WindowMemory, PrivateDescriptor), Counter> {
    let pool = core.scanner.pool();
    let memory =
        (pool.take(opening.settings.config.staging_bytes)).ok_or(Counter::FallbackWriteMemory)?;
    let flags = libc::O_WRONLY | libc::O_DIRECT;
    let slot = opening.tracked.slot;
    match PrivateDescriptor::open(opening.descriptor, flags, opening.stamp, slot, core) {
        Ok(direct) => Ok((memory, direct)),
        Err(error) => {
            pool.give_back(memory);
            Err(reason_counter(error.into()))
        }
    }
}

/// The alignment of direct writes; `None` where the filesystem refuses them.
fn alignment_of(descriptor: i32) -> Option<Alignment> {
    Alignment::of_reported(file::direct_alignment(descriptor).unwrap_or(None))
}
