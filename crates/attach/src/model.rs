//! The pages of each SSTable that may be dropped, and the inputs of each compaction. Pure logic.
//!
//! A page may be dropped if a compaction brought it in and is done with it. No other thread may have read it
//! meanwhile. Events before the start are unknown: pages that were cached then are never dropped.

use crate::event::{Call, Event, FileId, What};
use crate::file_state::{FileState, Output};
use crate::origin::Origin;
use crate::trails::{Reader, Trails};
use crate::usual_readahead::UsualReadahead;
use std::collections::{HashMap, HashSet};

/// Most inputs that are remembered of one thread.
const INPUTS_MAX: usize = 64;
/// Most files that are followed at once.
const FILES_MAX: usize = 100_000;

/// All files of one process.
#[derive(Debug, Default)]
pub struct Model {
    files: HashMap<FileId, FileState>,
    inputs: HashMap<u32, Vec<FileId>>,
    trails: Trails,
    look: u64,
    usual_readahead: UsualReadahead,
    /// Pages of files that are forgotten by now, as [`FileState::take_left`] counts them.
    left_pages: u64,
}

impl Model {
    /// The readahead of a device's files without advice. Unless it is known, no descriptor is taken for advised.
    pub fn set_usual_readahead(&mut self, device: u64, pages: u32) {
        self.usual_readahead.set(device, pages);
    }

    /// Takes an event in. Returns whose it was, as far as that is known by now.
    pub fn record(&mut self, event: &Event, origin: Origin) -> Origin {
        let is_foreground = matches!(origin, Origin::Foreground | Origin::Flush | Origin::InOrder);
        if is_foreground {
            // Most events. A file that no compaction has touched has nothing to protect.
            if !matches!(event.what, What::ReadAhead(_))
                && let Some(file) = self.files.get_mut(&event.file)
            {
                file.release(event.range());
            }
            return origin;
        }
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&event.file) {
            return origin;
        }
        if let Origin::Descriptor(descriptor) = origin {
            return self.record_by_descriptor(event, descriptor);
        }
        self.record_by_compaction(event);
        origin
    }

    /// By a descriptor whose advice may tell.
    fn record_by_descriptor(&mut self, event: &Event, descriptor: u32) -> Origin {
        let (look, id, pages) = (self.look, event.file, event.range());
        let file = self.files.entry(id).or_default();
        match event.what {
            What::ReadAhead(window) => {
                let is_advised = self.usual_readahead.is_advised(id.device, window);
                self.trails.note_advice(id, descriptor, is_advised, look);
            }
            What::Added => {
                // The read that follows tells for whom.
                file.release(pages.clone());
                self.trails.add(event.thread, id, pages);
            }
            What::Read => {
                let reader = self.trails.read(event.thread, id, descriptor, &pages, look);
                let Reader::Compaction(added) = reader else {
                    file.release(pages);
                    return match reader {
                        Reader::InOrder => Origin::InOrder,
                        _ => Origin::Foreground,
                    };
                };
                added.into_iter().for_each(|pages| file.bring(pages));
                let since = file.advised_since.filter(|_| !file.rests(look));
                file.advised_since = since.or(Some(look));
                file.read(pages, look);
                return Origin::Background;
            }
        }
        Origin::Descriptor(descriptor)
    }

    /// By a thread with the name of a compaction's.
    fn record_by_compaction(&mut self, event: &Event) {
        let (look, pages) = (self.look, event.range());
        let file = self.files.entry(event.file).or_default();
        match event.what {
            What::ReadAhead(_) => {}
            What::Added => {
                // RocksDB reads ahead by `readahead(2)`.
                let writes = match event.call {
                    Some(call) => matches!(call, Call::Write(_)),
                    None => !file.is_input,
                };
                if writes && file.is_input && !file.is_awaited() {
                    // The number was given out again.
                    self.left_pages += file.take_left();
                    *file = FileState::default();
                }
                file.last_look = look;
                file.bring(pages.clone());
                if writes {
                    if file.written_end == 0 {
                        file.written_from = look;
                    }
                    file.written_end = file.written_end.max(pages.end);
                    file.output = Output::Grows(event.thread);
                }
            }
            What::Read => {
                // Without calls an input that was not cached looks like an output until now.
                if event.call.is_none() && matches!(file.output, Output::Grows(_)) {
                    file.output = Output::No;
                }
                file.read(pages, look);
                self.note_input(event);
            }
        }
    }

    /// Whether these pages came in by a write of a compaction.
    #[must_use]
    pub fn is_written_by(&self, event: &Event) -> bool {
        match event.call {
            Some(call) => matches!(call, Call::Write(_)),
            None => {
                let file = self.files.get(&event.file);
                file.is_some_and(|file| matches!(file.output, Output::Grows(_)))
            }
        }
    }

    fn note_input(&mut self, event: &Event) {
        let inputs = self.inputs.entry(event.thread).or_default();
        // The latest one first: most reads are of it.
        if inputs.last() != Some(&event.file) && !inputs.contains(&event.file) {
            if inputs.len() >= INPUTS_MAX {
                inputs.remove(0);
            }
            inputs.push(event.file);
        }
    }

    /// Events were lost: who used which page is unknown. Nothing that was brought in so far is dropped.
    pub fn forget_pages(&mut self) {
        for file in self.files.values_mut() {
            file.release_all();
        }
        self.trails.forget();
    }

    /// The files with pages that a compaction brought in.
    #[must_use]
    pub fn files_to_look_at(&self) -> Vec<FileId> {
        let files = self.files.iter();
        let with_pages = files.filter(|(_, file)| file.has_brought() || file.is_awaited());
        let mut with_pages: Vec<_> = with_pages
            .map(|(id, file)| (file.written_from, *id))
            .collect();
        // One compaction's outputs in their order: an input that ends within one is not looked at again.
        with_pages.sort_unstable_by_key(|(written_from, _)| *written_from);
        with_pages.into_iter().map(|(_, id)| id).collect()
    }

    /// What is known of a file.
    pub fn file(&mut self, id: FileId) -> Option<&mut FileState> {
        self.files.get_mut(&id)
    }

    /// All inputs of compactions that may go on.
    pub fn all_inputs(&self) -> impl Iterator<Item = FileId> {
        self.inputs.values().flatten().copied()
    }

    /// Whether anything is known of a file.
    #[must_use]
    pub fn is_known(&self, id: FileId) -> bool {
        self.files.contains_key(&id)
    }

    /// Forgets an input.
    pub fn forget_input(&mut self, id: FileId) {
        self.inputs.retain(|_, inputs| {
            inputs.retain(|input| *input != id);
            !inputs.is_empty()
        });
    }

    /// The inputs that an output still needs: it is finished, and not on the device yet. Those of `due` count, too: the
    /// workers whose outputs wait to be warmed.
    #[must_use]
    pub fn wanted_inputs(&self, due: impl Iterator<Item = u32>) -> HashSet<FileId> {
        let unfinished = self.files.values().filter_map(|file| match file.output {
            Output::Finished { worker, .. } => Some(worker),
            _ => None,
        });
        let workers: HashSet<u32> = unfinished.chain(due).collect();
        let inputs = workers.iter().filter_map(|worker| self.inputs.get(worker));
        inputs.flatten().copied().collect()
    }

    /// Takes the inputs of a writer's compaction out.
    pub fn take_inputs(&mut self, writer: u32) -> Vec<FileId> {
        self.inputs.remove(&writer).unwrap_or_default()
    }

    /// Puts inputs back that later outputs may need. A thread without any is forgotten: engines make new ones for
    /// each compaction.
    pub fn give_inputs_back(&mut self, writer: u32, inputs: Vec<FileId>) {
        if !inputs.is_empty() {
            self.inputs.insert(writer, inputs);
        }
    }

    /// Forgets the pages of a file: it is gone, or no SSTable.
    pub fn forget(&mut self, id: FileId) {
        let file = self.files.remove(&id);
        self.left_pages += file.map_or(0, |mut file| file.take_left());
    }

    /// How many pages that compactions brought in by reading stay in the page cache, since this was asked last.
    pub fn take_left(&mut self) -> u64 {
        std::mem::take(&mut self.left_pages)
    }

    /// Looks for which there was no processor. Events of that time were not taken in yet, so nothing has rested.
    pub fn skip_looks(&mut self, looks: u64) {
        self.look += looks;
    }

    /// Ends a look. Files without an event and without pages to drop are forgotten, unless they are inputs.
    pub fn end_look(&mut self) {
        self.look += 1;
        for file in self.files.values_mut() {
            file.end_look();
            self.left_pages += file.take_left();
        }
        let look = self.look;
        self.trails.end_look(look);
        let inputs: HashSet<FileId> = self.all_inputs().collect();
        self.files.retain(|id, file| {
            !(file.is_abandoned(look) && !file.has_brought() && !file.is_awaited())
                || inputs.contains(id)
        });
    }

    /// Whether pages wait for a sign that their reader is a compaction.
    #[must_use]
    pub fn waits_for_sign(&self) -> bool {
        let mut files = self.files.values();
        files.any(|file| file.advised_since.is_some() && file.has_brought())
    }

    /// The number of looks so far.
    #[must_use]
    pub fn look(&self) -> u64 {
        self.look
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_state::ABANDONED_LOOKS;
    use crate::look::REST_LOOKS;
    use crate::origin::Recognition;
    use coldstream_policy::{Profile, Role};
    use std::ops::Range;

    const FILE: FileId = FileId {
        device: 1,
        inode: 2,
    };

    fn event(what: What, name: &str, pages: Range<u64>) -> Event {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Event {
            what,
            process: 1,
            thread: 7,
            name: bytes,
            call: None,
            file: FILE,
            page: pages.start,
            pages: pages.end - pages.start,
        }
    }

    fn record(model: &mut Model, event: &Event) {
        let role = Profile::Auto.role_of_thread(&event.name);
        let origin = Origin::of(event, role, Recognition::Advice);
        let _ = model.record(event, origin);
    }

    fn to_drop(model: &mut Model) -> Vec<Range<u64>> {
        let look = model.look();
        model.file(FILE).map_or(Vec::new(), |it| it.to_drop(look))
    }

    #[test]
    fn only_pages_that_a_compaction_brought_in_and_nobody_else_read() {
        let mut model = Model::default();
        record(&mut model, &event(What::Added, "rocksdb:low", 10..30));
        record(&mut model, &event(What::Read, "rocksdb:low", 0..21));
        record(&mut model, &event(What::Read, "client", 12..13));
        record(&mut model, &event(What::Added, "client", 40..41));
        model.end_look();
        // Pages 0 to 9 were cached before; 20 is the compaction's last page, the others are read ahead.
        assert_eq!(to_drop(&mut model), [10..12, 13..20]);
        record(&mut model, &event(What::Read, "client", 15..16));
        assert_eq!(to_drop(&mut model), [10..12, 13..15, 16..20]);
        model.file(FILE).unwrap().leave(18..20);
        model.end_look();
        assert_eq!((model.take_left(), model.take_left()), (2, 0));
        // Not those of readers.
        model.forget_pages();
        model.end_look();
        assert_eq!(model.take_left(), 16);
        model.forget_pages();
        assert!(to_drop(&mut model).is_empty());
    }

    #[test]
    fn what_was_just_read_stays_for_a_look_and_what_was_read_ahead_for_ten_seconds() {
        let mut model = Model::default();
        record(&mut model, &event(What::Added, "rocksdb:low0", 0..8));
        record(&mut model, &event(What::Read, "rocksdb:low0", 0..4));
        assert!(to_drop(&mut model).is_empty());
        for _ in 0..REST_LOOKS {
            model.end_look();
        }
        assert_eq!(to_drop(&mut model), vec![0..4; 1]);
        for _ in REST_LOOKS..=ABANDONED_LOOKS {
            model.end_look();
        }
        assert_eq!(to_drop(&mut model), vec![0..8; 1]);
        assert_eq!(model.take_inputs(7), [FILE]);
    }

    #[test]
    fn a_flush_and_a_foreground_scan_are_left_alone_and_advice_tells() {
        let mut model = Model::default();
        for name in ["rocksdb:high", "scanner"] {
            record(&mut model, &event(What::Added, name, 0..8));
            record(&mut model, &event(What::Read, name, 0..8));
        }
        for _ in 0..REST_LOOKS {
            model.end_look();
        }
        assert!(to_drop(&mut model).is_empty());
        for what in [What::ReadAhead(64), What::Added, What::Read] {
            let advised = Event {
                call: Some(Call::Read(9)),
                ..event(what, "", 0..8)
            };
            model.set_usual_readahead(FILE.device, 32);
            record(&mut model, &advised);
        }
        model.end_look();
        assert_eq!(to_drop(&mut model), vec![0..7; 1]);
        assert_eq!(model.file(FILE).unwrap().advised_since, Some(REST_LOOKS));
    }

    #[test]
    fn large_reads_are_done_whole_as_soon_as_the_next_one_comes() {
        let mut model = Model::default();
        record(&mut model, &event(What::Added, "rocksdb:low", 0..64));
        record(&mut model, &event(What::Read, "rocksdb:low", 0..16));
        record(&mut model, &event(What::Read, "rocksdb:low", 16..32));
        model.end_look();
        assert_eq!(to_drop(&mut model), vec![0..31; 1]);
        // A block begins in the page that was held.
        record(&mut model, &event(What::Read, "rocksdb:low", 31..32));
        model.end_look();
        assert_eq!(to_drop(&mut model), vec![0..31; 1]);
    }

    #[test]
    fn an_advised_scan_from_the_middle_protects_what_it_reads() {
        let mut model = Model::default();
        model.set_usual_readahead(FILE.device, 32);
        let whats = [What::ReadAhead(64), What::Added, What::Read];
        for (what, pages) in whats.into_iter().zip([64..65, 64..96, 64..65]) {
            let advised = Event {
                call: Some(Call::Read(9)),
                ..event(what, "", pages)
            };
            let origin = Origin::of(&advised, Role::Foreground, Recognition::Advice);
            let found = model.record(&advised, origin);
            assert_eq!(found == Origin::Foreground, what == What::Read);
        }
        for _ in 0..REST_LOOKS {
            model.end_look();
        }
        assert!(to_drop(&mut model).is_empty());
    }

    #[test]
    fn a_compaction_may_read_its_output_and_a_number_may_be_given_out_again() {
        let mut model = Model::default();
        let by = |call, what, pages| Event {
            call: Some(call),
            ..event(what, "rocksdb:low", pages)
        };
        let output = |model: &mut Model| model.file(FILE).map(|it| it.output);
        record(&mut model, &by(Call::Write(3), What::Added, 0..8));
        record(&mut model, &by(Call::Read(4), What::Read, 7..8));
        assert_eq!(output(&mut model), Some(Output::Grows(7)));
        model.file(FILE).unwrap().finish(7, 0);
        assert_eq!(to_drop(&mut model), vec![0..8; 1]);
        assert_eq!(model.file(FILE).unwrap().hand_over(), 8);
        assert!(to_drop(&mut model).is_empty());
        // Later it is an input. Its pages come in by reads, or by `readahead(2)`.
        record(&mut model, &by(Call::Other, What::Added, 0..2));
        record(&mut model, &by(Call::Read(4), What::Added, 2..4));
        assert_eq!(output(&mut model), Some(Output::HandedOver));
        record(&mut model, &by(Call::Write(5), What::Added, 0..2));
        let found = model.file(FILE).unwrap();
        assert_eq!((found.output, found.written_end), (Output::Grows(7), 2));
    }

    #[test]
    fn what_does_not_go_is_tried_three_times_and_what_is_dirty_is_waited_for() {
        let mut model = Model::default();
        record(&mut model, &event(What::Added, "rocksdb:low", 0..8));
        let pages = model.file(FILE).unwrap();
        let finished = REST_LOOKS + 1;
        pages.finish(7, finished);
        assert!(!pages.try_to_finish(false, finished));
        assert!(!pages.try_to_finish(false, finished + ABANDONED_LOOKS));
        assert!(pages.try_to_finish(false, finished + ABANDONED_LOOKS + 1));
        pages.put_off(0..8);
        assert!(pages.to_drop(finished).is_empty());
        pages.try_again();
        assert_eq!(pages.to_drop(finished), vec![0..8; 1]);
        assert!(!pages.try_to_finish(true, finished));
        assert!(!pages.try_to_finish(true, finished));
        assert!(pages.try_to_finish(true, finished));
        pages.finish(7, finished);
        pages.release(0..8);
        assert!(pages.try_to_finish(true, finished));
    }

    #[test]
    fn inputs_are_wanted_until_each_output_is_on_the_device_and_warmed() {
        let mut model = Model::default();
        let of_input = |inode, event: Event| Event {
            file: FileId { device: 1, inode },
            ..event
        };
        let input = FileId {
            device: 1,
            inode: 9,
        };
        let read = of_input(9, event(What::Read, "rocksdb:low", 0..8));
        record(&mut model, &read);
        record(&mut model, &event(What::Added, "rocksdb:low", 0..8));
        let wanted = |model: &Model, due: Option<u32>| model.wanted_inputs(due.into_iter());
        assert!(wanted(&model, None).is_empty() && wanted(&model, Some(8)).is_empty());
        model.file(FILE).unwrap().finish(7, 0);
        assert_eq!(wanted(&model, None), HashSet::from([input]));
        assert_eq!(model.file(FILE).unwrap().hand_over(), 8);
        assert!(wanted(&model, None).is_empty());
        assert_eq!(wanted(&model, Some(7)), HashSet::from([input]));
    }

    #[test]
    fn time_without_a_processor_is_no_rest() {
        let mut model = Model::default();
        model.set_usual_readahead(FILE.device, 32);
        let by_descriptor = |what, pages| Event {
            call: Some(Call::Read(9)),
            ..event(what, "", pages)
        };
        record(&mut model, &by_descriptor(What::ReadAhead(64), 0..1));
        record(&mut model, &by_descriptor(What::Read, 0..32));
        model.skip_looks(REST_LOOKS);
        // It was read on meanwhile, from far behind the file's beginning.
        let read = by_descriptor(What::Read, 32..64);
        assert_eq!(
            model.record(&read, Origin::Descriptor(9)),
            Origin::Background
        );
    }

    #[test]
    fn outputs_are_looked_at_in_the_order_in_which_they_were_begun() {
        let mut model = Model::default();
        let files = [5, 3, 9, 1, 7].map(|inode| FileId { device: 1, inode });
        for file in files {
            let written = Event {
                file,
                ..event(What::Added, "rocksdb:low", 0..8)
            };
            record(&mut model, &written);
            model.end_look();
        }
        assert_eq!(model.files_to_look_at(), files);
    }

    #[test]
    fn a_writer_is_known_until_its_file_is_read() {
        let mut model = Model::default();
        record(&mut model, &event(What::Added, "rocksdb:low", 0..8));
        assert_eq!(model.file(FILE).unwrap().output, Output::Grows(7));
        record(&mut model, &event(What::Read, "rocksdb:low", 0..1));
        assert_eq!(model.file(FILE).unwrap().output, Output::No);
    }

    #[test]
    fn reads_in_order_without_advice_protect_their_pages() {
        let mut model = Model::default();
        record(&mut model, &event(What::Added, "rocksdb:low", 0..8));
        let read = |page: u64| Event {
            call: Some(Call::Read(9)),
            ..event(What::Read, "", page..page + 1)
        };
        let origins: Vec<Origin> = (0..5)
            .map(|page| model.record(&read(page), Origin::Descriptor(9)))
            .collect();
        assert_eq!(origins[..3], [Origin::Foreground; 3]);
        assert_eq!(origins[3..], [Origin::InOrder; 2]);
        for _ in 0..=ABANDONED_LOOKS {
            model.end_look();
        }
        assert_eq!(to_drop(&mut model), vec![5..8; 1]);
    }
}
