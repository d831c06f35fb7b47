//! One process that is followed: its files and its heat.

use crate::catalogue::{Catalogue, is_out_of_descriptors};
use crate::dropping::{self, WRITTEN_PIECE_PAGES};
use crate::due_outputs::{Due, DueOutputs};
use crate::event::{Event, FileId, What};
use crate::file_state::Output;
use crate::held_inputs::HeldInputs;
use crate::large_reads::LargeReads;
use crate::look::{Interval, LOOK, REST_LOOKS};
use crate::model::Model;
use crate::origin::{Origin, Recognition, Roles};
use crate::status::Status;
use crate::warming::{self, HeatNow, Warmed};
use coldstream_control::{Counter, Mechanism, Mechanisms};
use coldstream_handover::MEMORY_SHARE;
use coldstream_host::process::ProcessHandle;
use coldstream_host::{block_device, process};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::sys::process::descriptor_limit;
use coldstream_policy::FileKind;
use coldstream_policy::heat::{Epochs, Heat, Touched};
use coldstream_sstable::Error;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// What a writer wrote last is left alone: it is filled further. 1 MiB.
const WRITER_LAG_PAGES: u64 = 256;
/// Whether inputs were deleted is asked at each so many looks: there may be hundreds.
const DELETED_LOOKS: u64 = 5;
/// Most inputs that are held, as far as the limit of descriptors allows. Of the others the last output may find some
/// deleted.
const HELD_MAX: u64 = 1024;
/// Descriptors for everything else.
const OTHER_DESCRIPTORS: u64 = 32;
/// Memory of heat: enough for 14 GiB of SSTables that are read.
const HEAT_BYTES: usize = 4 << 20;
/// Most that is warmed at once, beside the handover's share of the memory.
const WARM_BYTES_MAX: u64 = 256 << 20;

/// A process that is followed.
#[derive(Debug)]
pub struct Attached {
    handle: ProcessHandle,
    status: Status,
    recognition: Recognition,
    roles: Roles,
    model: Model,
    catalogue: Catalogue,
    /// Files that are no SSTables, or not listed yet.
    unknown: HashSet<FileId>,
    heat: Vec<AtomicU64>,
    epochs: Epochs,
    large_reads: LargeReads,
    warm_pages_max: usize,
    /// As many as the memory of the database has.
    pages_in_epoch: u64,
    /// The last look at which an SSTable appeared.
    new_at: Option<u64>,
    /// Inputs of compactions that go on.
    held: HeldInputs,
    /// When it is asked whether they were deleted.
    deletions: Interval,
    /// Outputs whose hot pages are to be warmed.
    due: DueOutputs,
    started_at: Instant,
    /// When that is done which is due once a second.
    second: Interval,
}

impl Attached {
    /// Looks into a process. Needs the right to do so; nothing after needs it.
    ///
    /// # Errors
    /// The kernel's; `NotFound` if the process has ended, or has no SSTable open.
    pub fn new(pid: u32) -> io::Result<Self> {
        let handle = ProcessHandle::open(pid)?;
        let started = process::started(pid).ok_or(io::ErrorKind::NotFound)?;
        let mounts = coldstream_host::mounts::read();
        let limit = coldstream_host::cgroup::memory_limit(pid, &mounts);
        let memory = limit
            .map(|limit| limit.limit_bytes)
            .or_else(coldstream_io::sys::process::machine_memory_bytes);
        let warm_bytes = (memory.unwrap_or(0) / MEMORY_SHARE).min(WARM_BYTES_MAX);
        let pages_in_epoch = memory.map_or(u64::MAX, |bytes| (bytes / PAGE_BYTES).max(1));
        let catalogue = Catalogue::of_process(pid)?;
        Ok(Self {
            handle,
            status: Status::new(pid, started),
            recognition: Recognition::Names,
            roles: Roles::default(),
            model: Model::default(),
            catalogue,
            unknown: HashSet::new(),
            heat: (0..HEAT_BYTES / 8).map(|_| AtomicU64::new(0)).collect(),
            epochs: Epochs::default(),
            large_reads: LargeReads::default(),
            warm_pages_max: (warm_bytes / PAGE_BYTES) as usize,
            pages_in_epoch,
            new_at: None,
            held: HeldInputs::new(held_max()),
            deletions: Interval::of(DELETED_LOOKS),
            due: DueOutputs::default(),
            started_at: Instant::now(),
            second: Interval::default(),
        })
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.status.pid()
    }

    /// Its status page, once that is made.
    #[must_use]
    pub fn page(&self) -> Option<&Path> {
        self.status.page()
    }

    /// Number of SSTables in its directories.
    #[must_use]
    pub fn sstable_count(&self) -> usize {
        self.catalogue.count()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }

    /// How compactions are known from now on. By names, unless this is called.
    pub fn recognise(&mut self, recognition: Recognition) {
        self.recognition = recognition;
        if recognition == Recognition::Advice {
            self.status.follow_reads_only();
            self.note_readahead();
        }
    }

    /// The readahead of the devices. It may be changed at any time.
    fn note_readahead(&mut self) {
        for device in self.catalogue.devices() {
            let kib = block_device::read_ahead_kib_of_files(device);
            if let Some(pages) = kib.and_then(|kib| u32::try_from(kib * 1024 / PAGE_BYTES).ok()) {
                self.model.set_usual_readahead(device, pages);
            }
        }
    }

    /// Another process lowers priorities ([`crate::priorities`]), as the status page says.
    pub fn announce_priorities(&mut self) {
        self.status.announce_priorities();
    }

    /// What works in this process.
    #[must_use]
    pub fn mechanisms(&self) -> Mechanisms {
        self.status.mechanisms()
    }

    /// Makes the status page, as the user of the process.
    ///
    /// # Errors
    /// The page cannot be made. The work goes on without it.
    pub fn publish(&mut self) -> io::Result<()> {
        let window_bytes = WRITER_LAG_PAGES * PAGE_BYTES;
        self.status.publish(window_bytes, HEAT_BYTES as u64)?;
        self.status
            .count(Counter::TrackedFilesOpened, self.catalogue.count() as u64);
        Ok(())
    }

    /// Counts the looks for which there was no processor: it runs when one is idle.
    pub fn catch_up(&mut self) {
        let due = self.started_at.elapsed().as_nanos() / LOOK.as_nanos();
        let late = due.saturating_sub(u128::from(self.model.look()));
        self.model
            .skip_looks(late.min(u128::from(REST_LOOKS)) as u64);
    }

    /// Takes an event in.
    pub fn record(&mut self, event: &Event) {
        let role = self.roles.of(&event.name);
        let origin = Origin::of(event, role, self.recognition);
        let origin = self.model.record(event, origin);
        if event.what == What::Read && self.large_reads.note_whether_continued(event) {
            return;
        }
        match (origin, event.what) {
            (Origin::Foreground, What::Read) => self.record_heat(event),
            (Origin::Background, What::Added) if self.model.is_written_by(event) => {
                self.status
                    .count(Counter::WriteBytes, event.pages * PAGE_BYTES);
                self.status.follow_outputs();
            }
            (Origin::Background, What::Read) => {
                self.status.count(Counter::BackgroundReads, 1);
                self.status
                    .count(Counter::BackgroundBytes, event.pages * PAGE_BYTES);
            }
            _ => {}
        }
    }

    fn record_heat(&self, event: &Event) {
        let Some(HeatNow { heat, epoch }) = self.heat_now() else {
            return;
        };
        // Where in its last page a read ends is not known. A block of another read may begin there.
        let pages = event.pages.saturating_sub(1).max(1);
        self.epochs.record_pages(pages);
        let (offset, length) = (event.page * PAGE_BYTES, pages * PAGE_BYTES);
        match heat.touch(event.file.key(), offset, length, epoch) {
            Touched::FirstSinceWarmed => self.status.count(Counter::HandoverRangesHit, 1),
            Touched::Displaced => self.status.count(Counter::HeatDisplaced, 1),
            Touched::Plain => {}
        }
    }

    fn heat_now(&self) -> Option<HeatNow<'_>> {
        Some(HeatNow {
            heat: Heat::new(&self.heat)?,
            epoch: self.epochs.now(self.pages_in_epoch),
        })
    }

    /// So many events were lost, of this process or of another.
    pub fn forget_pages(&mut self, lost: u64) {
        self.status.count(Counter::AttachEventsLost, lost);
        self.model.forget_pages();
    }

    /// Begins a look. Returns the files with something to drop.
    pub fn begin_look(&mut self) -> Vec<FileId> {
        self.status.answer();
        self.look_for_outputs();
        self.hold_inputs();
        self.model.files_to_look_at()
    }

    /// Drops what is due of a file.
    pub fn act_on(&mut self, id: FileId) {
        match self.kind(id) {
            Known::SsTable(kind) => self.act_on_sstable(id, kind),
            Known::Other => {
                self.unknown.insert(id);
                self.model.forget(id);
            }
            Known::NotYet => {}
        }
    }

    /// Ends a look.
    pub fn end_look(&mut self) {
        self.model.end_look();
        let left = self.model.take_left();
        self.status.count(Counter::BytesBuffered, left * PAGE_BYTES);
        // A number may be given out again, to an SSTable.
        if self.second.take_turn(self.model.look()) {
            self.unknown.clear();
            if self.recognition == Recognition::Advice {
                self.note_readahead();
            }
        }
    }

    fn look_for_outputs(&mut self) {
        if self.model.waits_for_sign() {
            self.catalogue.list();
        }
        let Some(age) = self.catalogue.take_youngest() else {
            return;
        };
        let looks = u64::try_from(age.as_nanos() / LOOK.as_nanos()).unwrap_or(u64::MAX);
        let appeared = self.model.look().checked_sub(looks);
        self.new_at = self.new_at.max(appeared);
    }

    /// Holds the inputs of compactions open: the last output is published just before they are deleted.
    fn hold_inputs(&mut self) {
        self.held.keep_known(|id| self.model.is_known(id));
        if self.deletions.take_turn(self.model.look()) {
            self.let_deleted_go();
        }
        let inputs = self.model.all_inputs();
        let new: HashSet<FileId> = inputs.filter(|id| self.held.file(*id).is_none()).collect();
        for id in new {
            self.hold(id);
        }
    }

    /// Forgets deleted inputs, and their heat: their numbers may be given out again.
    fn let_deleted_go(&mut self) {
        // Deleting a file changes its directory. There may be hundreds to ask.
        if !self.catalogue.take_change() && !self.held.has_deleted() {
            return;
        }
        let look = self.model.look();
        let wanted = self.model.wanted_inputs(self.due.writers());
        let catalogue = &self.catalogue;
        // It may have another name, in a snapshot.
        let is_deleted = |id: FileId, file: &File| {
            file.metadata().is_ok_and(|found| found.nlink() == 0) || catalogue.kind(id).is_none()
        };
        for (id, file) in self.held.expire(look, &wanted, is_deleted) {
            self.forget_heat(id, &file);
            self.model.forget_input(id);
            self.model.forget(id);
        }
    }

    /// Holds an input, if it is an SSTable that is there.
    fn hold(&mut self, id: FileId) {
        if self.held.has_room() {
            match self.catalogue.open_with_kind(id) {
                Ok((file, kind)) => {
                    self.held.hold(id, file, kind);
                    return;
                }
                Err(error) if is_out_of_descriptors(&error) => {
                    self.status.count(Counter::FallbackDescriptorLimit, 1);
                    return;
                }
                // It is gone, or counted where its heat is asked for.
                Err(_) => {}
            }
        } else if self.catalogue.kind(id).is_some() && self.held.refuse(id) {
            self.status.count(Counter::AttachInputsNotHeld, 1);
        }
        let is_gone = |catalogue: &Catalogue| catalogue.kind(id).is_none();
        if is_gone(&self.catalogue) && self.catalogue.list() && is_gone(&self.catalogue) {
            self.unknown.insert(id);
        }
        if self.unknown.contains(&id) {
            self.model.forget_input(id);
        }
    }

    fn forget_heat(&self, id: FileId, file: &File) {
        if let Some(now) = self.heat_now() {
            let size = file.metadata().map_or(0, |found| found.len());
            now.heat.forget(id.key(), 0..size);
        }
    }

    /// Opens an SSTable for a moment, though it may be deleted. Counts an error unless it is `NotFound`: then it is gone.
    fn open(&self, id: FileId) -> io::Result<File> {
        let opened = match self.held.file(id) {
            Some(file) => file.try_clone(),
            None => self.catalogue.open(id),
        };
        opened.inspect_err(|error| match error.kind() {
            _ if is_out_of_descriptors(error) => {
                self.status.count(Counter::FallbackDescriptorLimit, 1)
            }
            io::ErrorKind::NotFound => {}
            _ => self.status.count(Counter::HandoverFailed, 1),
        })
    }

    fn kind(&mut self, id: FileId) -> Known {
        if self.unknown.contains(&id) {
            return Known::Other;
        }
        let held = self.held.kind(id);
        if let Some(kind) = held.or_else(|| self.catalogue.kind(id)) {
            return Known::SsTable(kind);
        }
        if !self.catalogue.list() {
            return Known::NotYet;
        }
        match self.catalogue.kind(id) {
            Some(kind) => Known::SsTable(kind),
            None => Known::Other,
        }
    }

    fn act_on_sstable(&mut self, id: FileId, kind: FileKind) {
        let look = self.model.look();
        let state = self.model.file(id);
        if !state.is_some_and(|it| it.take_turn(look) && it.has_to_do(look)) {
            return;
        }
        let file = match self.open(id) {
            Ok(file) => file,
            // The next look may have one.
            Err(error) if is_out_of_descriptors(&error) => return,
            Err(_) => {
                self.model.forget(id);
                return;
            }
        };
        let Some(state) = self.model.file(id) else {
            return;
        };
        match state.output {
            Output::Grows(worker) if state.rests(look) || is_complete(&file, kind) => {
                state.finish(worker, look);
                self.finish(id, &file, worker, kind);
            }
            Output::Grows(_) => {
                let end = state.written_end.saturating_sub(WRITER_LAG_PAGES);
                state.mark_done(0..end / WRITTEN_PIECE_PAGES * WRITTEN_PIECE_PAGES);
                self.drop_written(id, &file);
            }
            Output::Finished { worker, .. } => {
                state.try_again();
                self.finish(id, &file, worker, kind);
            }
            Output::HandedOver | Output::No => self.drop_read(id, &file),
        }
    }

    /// Drops a finished output. Its hot pages are warmed later: one page keeps the whole of a large folio.
    fn finish(&mut self, id: FileId, file: &File, writer: u32, kind: FileKind) {
        let is_written = self.drop_written(id, file);
        let look = self.model.look();
        if let Some(state) = self.model.file(id)
            && state.try_to_finish(is_written, look)
        {
            let stayed = state.hand_over();
            self.status
                .count(Counter::WriteBytesBuffered, stayed * PAGE_BYTES);
            // Of a file that had this number before.
            self.forget_heat(id, file);
            if self.due.push(Due { id, writer, kind }) {
                self.status.count(Counter::HandoverCutShort, 1);
            }
        }
    }

    fn drop_read(&mut self, id: FileId, file: &File) {
        let look = self.model.look();
        let is_on = self.status.is_on(Mechanism::Reads);
        if let Some(state) = self.model.file(id) {
            let dropped = dropping::drop_read(state, file, look, self.new_at, is_on);
            self.status
                .count(Counter::BytesDropBehind, dropped * PAGE_BYTES);
        }
    }

    /// Returns whether all of what was written is on the device.
    fn drop_written(&mut self, id: FileId, file: &File) -> bool {
        let look = self.model.look();
        let is_on = self.status.is_on(Mechanism::Writes);
        let Some(state) = self.model.file(id) else {
            return true;
        };
        let found = dropping::drop_written(state, file, look, is_on);
        self.status
            .count(Counter::WriteBytesDropBehind, found.dropped * PAGE_BYTES);
        self.status
            .count(Counter::WriteBytesBuffered, found.stayed * PAGE_BYTES);
        found.is_written
    }

    /// Warms the hot pages of one finished output. It may take two seconds. Returns whether there was one.
    pub fn hand_over_next(&mut self) -> bool {
        let Some(due) = self.due.pop() else {
            return false;
        };
        match self.hand_over(&due) {
            Err(error) if is_out_of_descriptors(&error) => {
                // The next look may have one.
                self.due.put_back(due);
                false
            }
            Ok(()) | Err(_) => true,
        }
    }

    /// Does nothing where that is switched off. An output that cannot be opened is an error, and counted.
    fn hand_over(&mut self, due: &Due) -> io::Result<()> {
        if !self.status.is_on(Mechanism::Handover) || due.kind == FileKind::CassandraData {
            return Ok(());
        }
        let file = self.open(due.id)?;
        let mut inputs = self.model.take_inputs(due.writer);
        let open = |id| self.open(id);
        let refuse = |error: &Error| self.count_refused(error);
        let pages_max = self.warm_pages_max;
        let warmed = self
            .heat_now()
            .map(|now| warming::warm(due.id, &file, &mut inputs, &open, now, pages_max, &refuse));
        self.model.give_inputs_back(due.writer, inputs);
        if let Some(warmed) = warmed {
            self.count_warmed(&warmed);
        }
        Ok(())
    }

    fn count_warmed(&self, warmed: &Result<Warmed, Error>) {
        match warmed {
            Ok(warmed) => {
                self.status
                    .count(Counter::HandoverSsTables, u64::from(warmed.pages_hot > 0));
                self.status
                    .count(Counter::HandoverPagesHot, warmed.pages_hot);
                self.status
                    .count(Counter::HandoverPagesLeftOut, warmed.pages_left_out);
                self.status
                    .count(Counter::HandoverCutShort, u64::from(warmed.is_cut_short));
                self.status
                    .count(Counter::HandoverPagesWarmed, warmed.pages_warmed);
                self.status
                    .count(Counter::HandoverRangesWarmed, warmed.ranges_warmed);
            }
            Err(error) => self.count_refused(error),
        }
    }

    /// Counts the reason for no handover, to an output or from an input.
    fn count_refused(&self, error: &Error) {
        let counter = match error {
            // It was given up, or its writer has only rested: then it is finished later.
            Error::Unfinished => return,
            Error::Unsupported(_) => Counter::HandoverDeclined,
            Error::OutOfMemory => Counter::HandoverShortOfMemory,
            Error::Malformed { .. } | Error::Io(_) => Counter::HandoverFailed,
        };
        self.status.count(counter, 1);
    }
}

/// What a file is, as far as its directory was listed.
enum Known {
    SsTable(FileKind),
    Other,
    /// The directory was listed a short time ago. The next listing tells.
    NotYet,
}

fn held_max() -> usize {
    let limit = descriptor_limit();
    // Another process may be followed, too.
    (limit.saturating_sub(OTHER_DESCRIPTORS) / 2).min(HELD_MAX) as usize
}

/// Whether an output is finished. Of Cassandra's only its rest tells.
fn is_complete(file: &File, kind: FileKind) -> bool {
    kind != FileKind::CassandraData && warming::is_finished(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process as one that is followed, and its SSTables.
    fn following_itself(scene: &Path, count: u64) -> (Attached, Vec<FileId>, Vec<File>) {
        let files: Vec<File> = (0..count)
            .map(|number| File::create(scene.join(format!("{number:06}.sst"))).unwrap())
            .collect();
        let id = |file: &File| {
            let found = file.metadata().unwrap();
            FileId {
                device: found.dev(),
                inode: found.ino(),
            }
        };
        let ids = files.iter().map(id).collect();
        let mut attached = Attached::new(std::process::id()).unwrap();
        attached.status.publish(1, 1).unwrap();
        (attached, ids, files)
    }

    #[test]
    fn an_input_for_which_there_is_no_room_is_counted_once() {
        let scene = tempfile::tempdir().unwrap();
        let (mut attached, ids, _files) = following_itself(scene.path(), 3);
        attached.held = HeldInputs::new(1);
        let counted = |attached: &Attached| attached.status.counted(Counter::AttachInputsNotHeld);
        attached.hold(ids[0]);
        assert_eq!(counted(&attached), 0);
        for _ in 0..3 {
            attached.hold(ids[1]);
            attached.hold(ids[2]);
        }
        assert_eq!(counted(&attached), 2);
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let scene = tempfile::tempdir().unwrap();
        let (attached, ..) = following_itself(scene.path(), 1);
        attached.count_refused(&Error::Io(io::ErrorKind::Other.into()));
        attached.count_refused(&Error::Unfinished);
        assert_eq!(attached.status.counted(Counter::HandoverFailed), 1);
    }
}
