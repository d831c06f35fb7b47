//! Which tables are treated, and how.

use super::{StagedFile, WriteMode};
use crate::core::descriptor_map::TrackedFile;
use crate::core::host_memory;
use crate::reads;
use crate::report;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::thread;
use coldstream_control::{Counter, Mechanism};
use coldstream_io::alignment::Alignment;
use coldstream_io::lock::FutexGuard;
use coldstream_io::pool::WindowMemory;
use coldstream_io::private::PrivateDescriptor;
use coldstream_io::probe;
use coldstream_io::sys::file::{self, FileStamp};
use coldstream_io::sys::process;
use coldstream_policy::{FileKind, IoMode, IoModeSetting, direct_writes_corrupt};
use std::sync::atomic::{Ordering, fence};

/// Flags of an opening that asks for what a staged table cannot give.
const UNSUPPORTED_FLAGS: i32 = libc::O_APPEND
    | libc::O_DIRECT
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_NONBLOCK
    | O_TMPFILE_BIT;
/// `O_TMPFILE` without the `O_DIRECTORY` that it includes.
const O_TMPFILE_BIT: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

impl Runtime {
    /// A table was opened for writing: takes it in if it is a background thread's new file that
    /// nobody else has open.
    pub(crate) fn take_in(
        &self,
        settings: &Settings,
        tracked: TrackedFile,
        descriptor: i32,
        flags: i32,
        stamp: &FileStamp,
    ) {
        let config = &settings.config;
        let is_new = flags & libc::O_CREAT != 0
            && flags & (libc::O_TRUNC | libc::O_EXCL) != 0
            && stamp.size_bytes == 0;
        if !is_new
            || flags & UNSUPPORTED_FLAGS != 0
            || !thread::role().is_background_writer(config.bypass_flush)
            || self.staging.is_closed()
            || !self.switches.is_on(Mechanism::Writes)
            || reads::is_broken()
        {
            return;
        }
        let Some(inode) = self.inodes.get(tracked.slot) else {
            return;
        };
        if !inode.is_alone() || inode.is_locked() {
            return;
        }
        if config.writes == IoModeSetting::Auto
            && thread::reads_what_is_cached()
            && !self.is_better_handed_over()
        {
            self.count(Counter::KeptCached, 1);
            return;
        }
        let io_mode = self.io_mode_of_writes(settings, descriptor, stamp.device);
        let mut mode = match io_mode {
            IoMode::Buffered => return,
            IoMode::DontCache => WriteMode::DontCache,
            IoMode::DropBehind => WriteMode::DropBehind,
            IoMode::Direct if config.visible.may_stage(tracked.kind) => WriteMode::WriteBehind,
            IoMode::Direct => WriteMode::WriteThrough,
        };
        let Some((number, mut staged)) = self.free_slot() else {
            self.count(Counter::FallbackWriteMemory, 1);
            return;
        };
        let mut memory = WindowMemory::default();
        let mut direct = PrivateDescriptor::default();
        if io_mode == IoMode::Direct {
            match self.direct_means(config.staging_bytes, tracked.slot, descriptor, stamp) {
                Some((taken, opened)) => (memory, direct) = (taken, opened),
                None => {
                    self.count(Counter::FallbackWriteMemory, 1);
                    mode = WriteMode::DropBehind;
                }
            }
        }
        *staged = StagedFile {
            owner: tracked.slot + 1,
            number,
            descriptor,
            mode,
            stamp: *stamp,
            alignment: alignment_of(descriptor),
            buffers: [memory, WindowMemory::default()],
            direct,
            chunks: (tracked.kind == FileKind::CassandraData && self.hands_over())
                .then(Box::default),
            ..StagedFile::default()
        };
        if let Some(its_inode) = self.staging.inodes.get(number) {
            its_inode.store(stamp.inode, Ordering::Release);
        }
        self.staging.count.fetch_add(1, Ordering::AcqRel);
        inode.set_staged_slot(Some(number));
        // Whoever opens the file meanwhile counts itself first and looks for the stage then, and who
        // ends the process says so first and looks for stages then: one of the two sees the other.
        fence(Ordering::SeqCst);
        if !inode.is_alone() || self.staging.is_closed() {
            self.release(&mut staged);
            return;
        }
        self.count(Counter::StagedFiles, 1);
        self.note_memory();
        if self.first_to_say_how_is_written() {
            report::log_writes(settings, staged.io_mode());
        }
    }

    /// Whether a table made of cached ones is best written around the page cache and what was hot
    /// handed over to it: where keeping all of it would evict something else.
    fn is_better_handed_over(&self) -> bool {
        self.hands_over_now() && !host_memory::has_room()
    }

    fn free_slot(&self) -> Option<(usize, FutexGuard<'_, StagedFile>)> {
        self.staging
            .files
            .iter()
            .enumerate()
            .find_map(|(number, place)| {
                let staged = place.try_lock()?;
                (staged.owner == 0).then_some((number, staged))
            })
    }

    /// A staging buffer and a direct descriptor, or neither.
    fn direct_means(
        &self,
        staging_bytes: usize,
        slot: u32,
        descriptor: i32,
        stamp: &FileStamp,
    ) -> Option<(WindowMemory, PrivateDescriptor)> {
        let memory = self.scanner.pool().take(staging_bytes)?;
        let flags = libc::O_WRONLY | libc::O_DIRECT;
        match PrivateDescriptor::open(descriptor, flags, stamp, slot, self) {
            Ok(direct) if direct.number().is_some() => Some((memory, direct)),
            _ => {
                self.scanner.pool().give_back(memory);
                None
            }
        }
    }

    fn io_mode_of_writes(&self, settings: &Settings, descriptor: i32, device: u64) -> IoMode {
        let writes = settings.config.writes;
        let trusted = file::filesystem_type(descriptor).is_ok_and(probe::is_trusted);
        if !trusted {
            return IoMode::Buffered;
        }
        let alignment = alignment_of(descriptor);
        let direct = alignment.is_some() && !self.staging.is_direct_disabled(device);
        // What a filesystem makes of RWF_DONTCACHE the first write shows.
        let io_mode = writes.choose_for_writes(direct, true);
        if io_mode == IoMode::Direct {
            let (release, version) = process::kernel();
            if direct_writes_corrupt(&release, &version) {
                self.count(Counter::FallbackWriteKernel, 1);
                return writes.choose_for_writes(false, true);
            }
        }
        io_mode
    }
}

/// What direct writes must be aligned to; `None` where the filesystem refuses them.
fn alignment_of(descriptor: i32) -> Option<Alignment> {
    Alignment::of_reported(file::direct_alignment(descriptor).unwrap_or(None))
}
