//! One process that is followed: its files, its heat, its status page.

use crate::catalogue::{Catalogue, is_out_of_descriptors};
use crate::dropping::{self, WRITTEN_PIECE_PAGES};
use crate::event::{Event, FileId, What};
use crate::large_reads::LargeReads;
use crate::look::{Interval, LOOK, REST_LOOKS};
use crate::model::{Model, Origin, Output};
use crate::tracer::Recognition;
use crate::warming::{self, HeatNow, Warmed};
use coldstream_control::{
    Answer, Counter, Header, Mechanism, Mechanisms, Outcome, PageView, Switches,
};
use coldstream_handover::MEMORY_SHARE;
use coldstream_host::process::ProcessHandle;
use coldstream_host::{block_device, process, status_page};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::residency;
use coldstream_io::shared::SharedPage;
use coldstream_io::sys::process::futex_wake_shared;
use coldstream_io::sys::sync_file_range;
use coldstream_policy::heat::{Epochs, Heat, Touched};
use coldstream_policy::{FileKind, IoMode, IoModeSetting, Priorities, Profile};
use coldstream_sstable::Error;
use rustix::process::{Resource, getrlimit};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// What a writer wrote last is left alone: it is filled further. 1 MiB.
const WRITER_LAG_PAGES: u64 = 256;
/// Where only advice tells: a compaction makes an SSTable at most so long before it reads an input. Five seconds.
const SIGN_LOOKS: u64 = 5 * REST_LOOKS;
/// A deleted input is held so long, for outputs that were published at once. Half a second.
const HELD_LOOKS: u64 = REST_LOOKS / 2;
/// Longer only for outputs that still need it. Its space is not free meanwhile. Ten seconds.
const HELD_LOOKS_MAX: u64 = 10 * REST_LOOKS;
/// Whether inputs were deleted is asked at each so many looks: there may be hundreds.
const DELETED_LOOKS: u64 = 5;
/// Most inputs that are held, as far as the limit of descriptors allows. Of the others the last output may find some
/// deleted.
const HELD_MAX: u64 = 1024;
/// Descriptors for everything else.
const OTHER_DESCRIPTORS: u64 = 32;
/// Most outputs that wait to be warmed. Their inputs are held meanwhile.
const DUE_MAX: usize = 64;
/// Memory of heat: enough for 14 GiB of SSTables that are read.
const HEAT_BYTES: usize = 4 << 20;
/// Most that is warmed at once, beside the handover's share of the memory.
const WARM_BYTES_MAX: u64 = 256 << 20;
/// The mechanisms that work from outside, where it is known who writes outputs.
const MECHANISMS: [Mechanism; 3] = [Mechanism::Reads, Mechanism::Writes, Mechanism::Handover];

/// A process that is followed.
#[derive(Debug)]
pub struct Attached {
    pid: u32,
    handle: ProcessHandle,
    started: u64,
    recognition: Recognition,
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
    page: Option<(SharedPage, PathBuf)>,
    mechanisms: Mechanisms,
    off: Mechanisms,
    priorities: Priorities,
    /// The last look at which an SSTable appeared.
    new_at: Option<u64>,
    /// Inputs of compactions that go on.
    held: HashMap<FileId, HeldInput>,
    held_max: usize,
    /// When it is asked whether they were deleted.
    deletions: Interval,
    /// Outputs whose hot pages are to be warmed.
    due: VecDeque<Due>,
    started_at: Instant,
    /// When that is done which is due once a second.
    second: Interval,
}

/// An input of a compaction that goes on.
#[derive(Debug)]
struct HeldInput {
    file: File,
    kind: FileKind,
    /// The look at which it was found deleted.
    deleted_at: Option<u64>,
}

/// A finished output.
#[derive(Debug)]
struct Due {
    id: FileId,
    writer: u32,
    kind: FileKind,
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
            pid,
            handle,
            started,
            recognition: Recognition::Names,
            model: Model::default(),
            catalogue,
            unknown: HashSet::new(),
            heat: (0..HEAT_BYTES / 8).map(|_| AtomicU64::new(0)).collect(),
            epochs: Epochs::default(),
            large_reads: LargeReads::default(),
            warm_pages_max: (warm_bytes / PAGE_BYTES) as usize,
            pages_in_epoch,
            page: None,
            mechanisms: Mechanisms::of(&MECHANISMS),
            off: Mechanisms::default(),
            priorities: Priorities::none(),
            new_at: None,
            held: HashMap::new(),
            held_max: held_max(),
            deletions: Interval::of(DELETED_LOOKS),
            due: VecDeque::new(),
            started_at: Instant::now(),
            second: Interval::of(REST_LOOKS),
        })
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its status page, once that is made.
    #[must_use]
    pub fn page(&self) -> Option<&Path> {
        self.page.as_ref().map(|(_, path)| path.as_path())
    }

    /// Number of SSTables in its directories.
    #[must_use]
    pub fn sstables(&self) -> usize {
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
            self.mechanisms = Mechanisms::of(&[Mechanism::Reads]);
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

    /// A thread with the name of a background thread has written, though there was none at the start.
    fn begin_to_follow_outputs(&mut self) {
        self.mechanisms = self.mechanisms.with(Mechanisms::of(&MECHANISMS));
        self.put_switches();
    }

    /// Another process lowers priorities ([`crate::priorities`]), as the status page says.
    pub fn has_priorities(&mut self) {
        self.priorities = Priorities::default();
        self.mechanisms = (self.mechanisms).with(Mechanisms::of(&[Mechanism::Priority]));
    }

    /// What works in this process.
    #[must_use]
    pub fn mechanisms(&self) -> Mechanisms {
        self.mechanisms
    }

    /// Makes the status page, as the user of the process.
    ///
    /// # Errors
    /// The page cannot be made. The work goes on without it.
    pub fn publish(&mut self) -> io::Result<()> {
        let directory = status_page::own_directory().map_err(io::Error::other)?;
        let path = status_page::page_of(self.pid);
        let c_string = |path: &PathBuf| CString::new(path.as_os_str().as_bytes());
        let page = SharedPage::create(&c_string(&directory)?, &c_string(&path)?)
            .map_err(io::Error::other)?;
        let own = std::process::id();
        let own_start = process::started(own).ok_or(io::ErrorKind::NotFound)?;
        let view = PageView::new(page.words()).map_err(io::Error::other)?;
        view.initialise(&Header {
            pid: self.pid,
            start_time_ticks: self.started,
            profile: Profile::Auto,
            configured: IoModeSetting::Fixed(IoMode::DropBehind),
            in_force: Some(IoMode::DropBehind),
            window_bytes: WRITER_LAG_PAGES * PAGE_BYTES,
            windows_in_flight: 1,
            memory_bytes: HEAT_BYTES as u64,
        });
        view.set_keeper(own, own_start);
        self.page = Some((page, path));
        self.put_switches();
        self.count(Counter::TrackedFilesOpened, self.catalogue.count() as u64);
        Ok(())
    }

    fn view(&self) -> Option<PageView<'static>> {
        let (page, _) = self.page.as_ref()?;
        PageView::new(page.words()).ok()
    }

    fn count(&self, counter: Counter, amount: u64) {
        if amount != 0
            && let Some(view) = self.view()
        {
            view.add(counter, amount);
        }
    }

    fn put_switches(&self) {
        if let Some(view) = self.view() {
            view.put_switches(&Switches {
                mechanisms: self.mechanisms,
                off: self.off,
                priorities_bits: self.priorities.to_bits(),
            });
        }
    }

    fn is_on(&self, mechanism: Mechanism) -> bool {
        !self.off.contains(mechanism)
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
        let origin = Origin::of(event, self.recognition);
        let origin = self.model.record(event, origin);
        if event.what == What::Read && self.large_reads.is_continued(event) {
            return;
        }
        match (origin, event.what) {
            (Origin::Foreground, What::Read) => self.record_heat(event),
            (Origin::Background, What::Added) if self.model.is_written_by(event) => {
                self.count(Counter::WriteBytes, event.pages * PAGE_BYTES);
                if !self.mechanisms.contains(Mechanism::Writes) {
                    self.begin_to_follow_outputs();
                }
            }
            (Origin::Background, What::Read) => {
                self.count(Counter::BackgroundReads, 1);
                self.count(Counter::BackgroundBytes, event.pages * PAGE_BYTES);
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
            Touched::FirstSinceWarmed => self.count(Counter::HandoverRangesHit, 1),
            Touched::Displaced => self.count(Counter::HeatDisplaced, 1),
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
        self.count(Counter::AttachEventsLost, lost);
        self.model.forget_pages();
    }

    /// Begins a look. Returns the files with something to drop.
    pub fn begin_look(&mut self) -> Vec<FileId> {
        self.answer();
        self.look_for_outputs();
        self.hold_inputs();
        self.model.files()
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
        let look = self.model.look();
        let asks = self.deletions.take_turn(look);
        let mut ids: HashSet<FileId> = self.model.all_inputs().collect();
        // One that no output needs any more, too: its number may be given out again.
        self.held.retain(|id, _| self.model.is_known(*id));
        ids.extend(self.held.keys());
        let wanted = if asks {
            let due = self.due.iter().map(|due| due.writer);
            self.model.wanted_inputs(due)
        } else {
            HashSet::new()
        };
        for id in ids {
            let Some(held) = self.held.get_mut(&id) else {
                self.hold(id);
                continue;
            };
            if !asks {
                continue;
            }
            // It may have another name, in a snapshot.
            let is_deleted = held.file.metadata().is_ok_and(|found| found.nlink() == 0)
                || self.catalogue.kind(id).is_none();
            if !is_deleted {
                held.deleted_at = None;
                continue;
            }
            let deleted_for = look - *held.deleted_at.get_or_insert(look);
            let held_for = if wanted.contains(&id) {
                HELD_LOOKS_MAX
            } else {
                HELD_LOOKS
            };
            if deleted_for > held_for {
                self.let_go(id);
            }
        }
    }

    /// Holds an input, if it is an SSTable that is there.
    fn hold(&mut self, id: FileId) {
        if self.held.len() < self.held_max {
            match self.catalogue.open_with_kind(id) {
                Ok((file, kind)) => {
                    let deleted_at = None;
                    let held = HeldInput {
                        file,
                        kind,
                        deleted_at,
                    };
                    self.held.insert(id, held);
                    return;
                }
                Err(error) if is_out_of_descriptors(&error) => {
                    self.count(Counter::FallbackDescriptorLimit, 1);
                    return;
                }
                // It is gone, or counted where its heat is asked for.
                Err(_) => {}
            }
        }
        let is_gone = |catalogue: &Catalogue| catalogue.kind(id).is_none();
        if is_gone(&self.catalogue) && self.catalogue.list() && is_gone(&self.catalogue) {
            self.unknown.insert(id);
        }
        if self.unknown.contains(&id) {
            self.model.forget_input(id);
        }
    }

    /// Forgets a deleted input, and its heat: its number may be given out again.
    fn let_go(&mut self, id: FileId) {
        if let Some(held) = self.held.remove(&id) {
            self.forget_heat(id, &held.file);
        }
        self.model.forget_input(id);
        self.model.forget(id);
    }

    fn forget_heat(&self, id: FileId, file: &File) {
        if let Some(now) = self.heat_now() {
            let size = file.metadata().map_or(0, |found| found.len());
            now.heat.forget(id.key(), 0..size);
        }
    }

    /// Opens an SSTable for a moment, though it may be deleted. Counts an error unless it is `NotFound`: then it is gone.
    fn open(&self, id: FileId) -> io::Result<File> {
        let opened = match self.held.get(&id) {
            Some(held) => held.file.try_clone(),
            None => self.catalogue.open(id),
        };
        opened.inspect_err(|error| match error.kind() {
            _ if is_out_of_descriptors(error) => self.count(Counter::FallbackDescriptorLimit, 1),
            io::ErrorKind::NotFound => {}
            _ => self.count(Counter::HandoverFailed, 1),
        })
    }

    fn kind(&mut self, id: FileId) -> Known {
        if self.unknown.contains(&id) {
            return Known::Other;
        }
        let held = self.held.get(&id).map(|held| held.kind);
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
        let pages = self.model.file(id);
        if !pages.is_some_and(|it| it.take_turn(look) && it.has_to_do(look)) {
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
        let Some(pages) = self.model.file(id) else {
            return;
        };
        match pages.output {
            Output::Grows(worker) if pages.rests(look) || is_complete(&file, kind) => {
                pages.finish(worker, look);
                self.finish(id, &file, worker, kind);
            }
            Output::Grows(_) => {
                let end = pages.written_end.saturating_sub(WRITER_LAG_PAGES);
                pages.mark_done(0..end / WRITTEN_PIECE_PAGES * WRITTEN_PIECE_PAGES);
                self.drop_written(id, &file);
            }
            Output::Finished { worker, .. } => {
                pages.try_again();
                self.finish(id, &file, worker, kind);
            }
            Output::HandedOver | Output::No => self.drop_read(id, &file),
        }
    }

    /// Drops a finished output. Its hot pages are warmed later: one page keeps the whole of a large folio.
    fn finish(&mut self, id: FileId, file: &File, writer: u32, kind: FileKind) {
        let is_written = self.drop_written(id, file);
        let look = self.model.look();
        if let Some(pages) = self.model.file(id)
            && pages.try_to_finish(is_written, look)
        {
            let stayed = pages.hand_over();
            self.count(Counter::WriteBytesBuffered, stayed * PAGE_BYTES);
            // Of a file that had this number before.
            self.forget_heat(id, file);
            self.due.push_back(Due { id, writer, kind });
            if self.due.len() > DUE_MAX {
                self.due.pop_front();
                self.count(Counter::HandoverCutShort, 1);
            }
        }
    }

    /// Drops pages that were read. A scan's stay: where only advice tells, an SSTable must have appeared.
    fn drop_read(&mut self, id: FileId, file: &File) {
        let look = self.model.look();
        let is_on = self.is_on(Mechanism::Reads);
        let new_at = self.new_at;
        let Some(pages) = self.model.file(id) else {
            return;
        };
        let rests = pages.rests(look);
        let is_compaction = pages.advised_since.is_none_or(|since| {
            let signs_from = since.saturating_sub(SIGN_LOOKS);
            new_at.is_some_and(|new_at| new_at >= signs_from)
        });
        if !is_compaction {
            if rests {
                pages.release_all();
            }
            return;
        }
        let shall_be_left = pages.shall_be_left(look);
        let mut dropped = 0;
        for range in pages.to_drop(look) {
            if is_on {
                if !shall_be_left && pages.has_stayed(&range, look) {
                    continue;
                }
                let left = dropping::drop_range(file, &range);
                dropped += left.dropped;
                if !shall_be_left {
                    // The rest of a large folio is read later. Then all of it can be named.
                    left.gone.into_iter().for_each(|gone| pages.release(gone));
                    pages.note_stayed(range, look);
                    continue;
                }
            }
            pages.release(range);
        }
        self.count(Counter::BytesDropBehind, dropped * PAGE_BYTES);
    }

    /// Starts writeback of what was written, and drops what is on the device. Returns whether all of it is there.
    fn drop_written(&mut self, id: FileId, file: &File) -> bool {
        let look = self.model.look();
        let is_on = self.is_on(Mechanism::Writes);
        let Some(pages) = self.model.file(id) else {
            return true;
        };
        let (mut dropped, mut stayed, mut is_written) = (0, 0, true);
        for range in pages.to_drop(look).into_iter().flat_map(dropping::pieces) {
            if !is_on {
                stayed += range.end - range.start;
                pages.release(range);
                continue;
            }
            let (offset, length) = dropping::bytes(&range);
            let found = residency::of_range(file, offset, length).ok();
            if found.and_then(|found| found.unwritten_pages) != Some(0) {
                let _ = sync_file_range::start_write_back(file, offset, length);
                is_written = false;
                continue;
            }
            let resident = found.map(|found| found.resident_pages);
            let left = dropping::drop_resident(file, &range, resident);
            dropped += left.dropped;
            left.gone.into_iter().for_each(|gone| pages.release(gone));
            pages.put_off(range);
        }
        self.count(Counter::WriteBytesDropBehind, dropped * PAGE_BYTES);
        self.count(Counter::WriteBytesBuffered, stayed * PAGE_BYTES);
        is_written
    }

    /// Warms the hot pages of one finished output. It may take two seconds. Returns whether there was one.
    pub fn hand_over_next(&mut self) -> bool {
        let Some(due) = self.due.pop_front() else {
            return false;
        };
        match self.hand_over(&due) {
            Err(error) if is_out_of_descriptors(&error) => {
                // The next look may have one.
                self.due.push_front(due);
                false
            }
            Ok(()) | Err(_) => true,
        }
    }

    /// Does nothing where that is switched off. An output that cannot be opened is an error, and counted.
    fn hand_over(&mut self, due: &Due) -> io::Result<()> {
        if !self.is_on(Mechanism::Handover) || due.kind == FileKind::CassandraData {
            return Ok(());
        }
        let file = self.open(due.id)?;
        let mut inputs = self.model.take_inputs(due.writer);
        let open = |id| self.open(id);
        let pages_max = self.warm_pages_max;
        let warmed = self
            .heat_now()
            .map(|now| warming::warm(due.id, &file, &mut inputs, &open, now, pages_max));
        self.model.give_inputs_back(due.writer, inputs);
        if let Some(warmed) = warmed {
            self.count_warmed(&warmed);
        }
        Ok(())
    }

    fn count_warmed(&self, warmed: &Result<Warmed, Error>) {
        match warmed {
            Ok(warmed) => {
                self.count(Counter::HandoverSsTables, u64::from(warmed.pages_hot > 0));
                self.count(Counter::HandoverPagesHot, warmed.pages_hot);
                self.count(Counter::HandoverPagesLeftOut, warmed.pages_left_out);
                self.count(Counter::HandoverCutShort, u64::from(warmed.is_cut_short));
                self.count(Counter::HandoverPagesWarmed, warmed.pages_warmed);
                self.count(Counter::HandoverRangesWarmed, warmed.ranges_warmed);
            }
            // It was given up, or its writer has only rested: then it is finished later.
            Err(Error::Unfinished) => {}
            Err(Error::Unsupported(_)) => self.count(Counter::HandoverDeclined, 1),
            Err(Error::OutOfMemory) => self.count(Counter::HandoverShortOfMemory, 1),
            Err(Error::Malformed { .. } | Error::Io(_)) => self.count(Counter::HandoverFailed, 1),
        }
    }

    /// Answers a request of `coldstream ctl`.
    fn answer(&mut self) {
        let Some(view) = self.view() else {
            return;
        };
        let request = view.request();
        if request.number == view.answer().number {
            return;
        }
        let outcome = match request.checked(self.mechanisms) {
            Some((off, priorities)) => {
                self.off = off;
                if self.mechanisms.contains(Mechanism::Priority) {
                    self.priorities = priorities;
                }
                self.put_switches();
                Outcome::Done
            }
            None => Outcome::Refused,
        };
        view.add(Counter::SwitchRequests, 1);
        view.put_answer(&Answer {
            number: request.number,
            outcome,
        });
        if let Some(answered) = view.answered() {
            futex_wake_shared(answered);
        }
    }
}

/// What a file is, as far as its directory was listed.
enum Known {
    SsTable(FileKind),
    Other,
    /// The directory was listed a short time ago. The next listing tells.
    NotYet,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.page {
            let _ = status_page::remove(path);
        }
    }
}

fn held_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Another process may be followed, too.
    (limit.saturating_sub(OTHER_DESCRIPTORS) / 2).min(HELD_MAX) as usize
}

/// Whether an output is finished. Of Cassandra's only its rest tells.
fn is_complete(file: &File, kind: FileKind) -> bool {
    kind != FileKind::CassandraData && warming::is_finished(file)
}
