//! The pages of each SSTable that may be dropped, and the inputs of each compaction. Pure logic.
//!
//! A page may be dropped if a compaction brought it in and is done with it. No other thread may have read it
//! meanwhile. Events before the start are unknown: pages that were cached then are never dropped.

use crate::bits::PageSet;
use crate::event::{Event, FileId, What};
use coldstream_policy::{Profile, Role};
use std::collections::HashMap;
use std::ops::Range;

/// Looks without an event after which a compaction is done with a file: one second.
pub const REST_LOOKS: u64 = 20;
/// Most inputs that are remembered of one thread.
const INPUTS_MAX: usize = 64;
/// Most files that are followed at once.
const FILES_MAX: usize = 100_000;

/// Who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A compaction, or another reader of whole SSTables.
    Background,
    /// A memtable flush: its output stays cached.
    Flush,
    /// All other threads.
    Foreground,
}

impl Origin {
    /// By the thread's name, or by the advice that its descriptor got.
    #[must_use]
    pub fn of(event: &Event, profile: Profile) -> Self {
        match profile.role_of_thread(&event.name) {
            Role::Flush => Self::Flush,
            role if role.is_background_reader() => Self::Background,
            _ if event.is_sequential => Self::Background,
            _ => Self::Foreground,
        }
    }
}

/// The compaction that a thread works for. Where only advice tells, threads say nothing: all are one.
fn worker(event: &Event) -> u32 {
    if event.is_sequential { 0 } else { event.thread }
}

/// One file.
#[derive(Debug, Default)]
pub struct Pages {
    /// A compaction brought them in, and nobody else has used them.
    brought: PageSet,
    /// A compaction is done with them since the last look.
    done_lately: PageSet,
    /// It was before.
    done: PageSet,
    /// The thread that wrote pages of it, if it read none.
    pub writer: Option<u32>,
    /// The page behind the last one that was written.
    pub written_end: u64,
    /// A compaction has read of it.
    pub is_input: bool,
    /// A compaction wrote it: its pages are dirty at first.
    pub was_written: bool,
    last_look: u64,
}

/// All files of one process.
#[derive(Debug, Default)]
pub struct Model {
    files: HashMap<FileId, Pages>,
    inputs: HashMap<u32, Vec<FileId>>,
    look: u64,
}

impl Model {
    /// Takes an event in.
    pub fn record(&mut self, event: &Event, origin: Origin) {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&event.file) {
            return;
        }
        let pages = event.page..event.page.saturating_add(event.pages);
        let file = self.files.entry(event.file).or_default();
        match (origin, event.what) {
            (Origin::Background, What::Added) => {
                file.last_look = self.look;
                file.done.remove(pages.clone());
                file.done_lately.remove(pages.clone());
                file.written_end = file.written_end.max(pages.end);
                file.brought.insert(pages);
                if !file.is_input {
                    file.writer = Some(worker(event));
                }
            }
            (Origin::Background, What::Read) => {
                file.last_look = self.look;
                // The next block may begin in the last page.
                file.done_lately.insert(pages.start..pages.end - 1);
                if !file.is_input {
                    file.is_input = true;
                    file.writer = None;
                }
                let inputs = self.inputs.entry(worker(event)).or_default();
                if !inputs.contains(&event.file) {
                    if inputs.len() >= INPUTS_MAX {
                        inputs.remove(0);
                    }
                    inputs.push(event.file);
                }
            }
            (Origin::Flush | Origin::Foreground, _) => file.brought.remove(pages),
        }
    }

    /// Events were lost: who used which page is unknown. Nothing that was brought in so far is dropped.
    pub fn forget_pages(&mut self) {
        for file in self.files.values_mut() {
            file.brought = PageSet::default();
        }
    }

    /// The files with pages that a compaction brought in.
    #[must_use]
    pub fn files(&self) -> Vec<FileId> {
        let files = self.files.iter();
        let with_pages =
            files.filter(|(_, pages)| !pages.brought.is_empty() || pages.writer.is_some());
        with_pages.map(|(id, _)| *id).collect()
    }

    /// What is known of a file.
    pub fn file(&mut self, id: FileId) -> Option<&mut Pages> {
        self.files.get_mut(&id)
    }

    /// The inputs of a writer's compaction.
    pub fn inputs(&mut self, writer: u32) -> &mut Vec<FileId> {
        self.inputs.entry(writer).or_default()
    }

    /// Forgets a file: it is gone, or no SSTable.
    pub fn forget(&mut self, id: FileId) {
        self.files.remove(&id);
        for inputs in self.inputs.values_mut() {
            inputs.retain(|input| *input != id);
        }
    }

    /// Ends a look. Files without an event and without pages to drop are forgotten, unless they are inputs.
    pub fn end_look(&mut self) {
        self.look += 1;
        for file in self.files.values_mut() {
            let lately = file.done_lately.take();
            file.done.unite(&lately);
        }
        let (look, inputs) = (self.look, &self.inputs);
        self.files.retain(|id, file| {
            let rests = look.saturating_sub(file.last_look) > 10 * REST_LOOKS;
            !(rests && file.brought.is_empty() && file.writer.is_none())
                || inputs.values().any(|inputs| inputs.contains(id))
        });
    }

    /// The number of looks so far.
    #[must_use]
    pub fn look(&self) -> u64 {
        self.look
    }
}

impl Pages {
    /// Whether no compaction has touched the file for a second.
    #[must_use]
    pub fn rests(&self, look: u64) -> bool {
        look.saturating_sub(self.last_look) >= REST_LOOKS
    }

    /// The pages that may be dropped now.
    #[must_use]
    pub fn to_drop(&self, look: u64) -> Vec<Range<u64>> {
        if self.rests(look) {
            self.brought.ranges()
        } else {
            self.brought.common(&self.done).ranges()
        }
    }

    /// The writer is done with these pages.
    pub fn is_done(&mut self, pages: Range<u64>) {
        self.done_lately.insert(pages);
    }

    /// They were dropped, or shall stay.
    pub fn release(&mut self, pages: Range<u64>) {
        self.brought.remove(pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            is_sequential: false,
            file: FILE,
            page: pages.start,
            pages: pages.end - pages.start,
        }
    }

    fn record(model: &mut Model, event: &Event) {
        model.record(event, Origin::of(event, Profile::Auto));
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
        model.forget_pages();
        assert!(to_drop(&mut model).is_empty());
    }

    #[test]
    fn what_was_just_read_stays_for_a_look_and_a_resting_file_is_dropped_whole() {
        let mut model = Model::default();
        record(&mut model, &event(What::Added, "rocksdb:low0", 0..8));
        record(&mut model, &event(What::Read, "rocksdb:low0", 0..4));
        assert!(to_drop(&mut model).is_empty());
        for _ in 0..REST_LOOKS {
            model.end_look();
        }
        assert_eq!(to_drop(&mut model), vec![0..8; 1]);
        assert_eq!(model.inputs(7), &[FILE]);
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
        for what in [What::Added, What::Read] {
            let advised = Event {
                is_sequential: true,
                ..event(what, "pebble", 0..8)
            };
            record(&mut model, &advised);
        }
        model.end_look();
        assert_eq!(to_drop(&mut model), vec![0..7; 1]);
    }

    #[test]
    fn a_writer_is_known_until_its_file_is_read() {
        let mut model = Model::default();
        record(&mut model, &event(What::Added, "rocksdb:low", 0..8));
        assert_eq!(model.file(FILE).unwrap().writer, Some(7));
        record(&mut model, &event(What::Read, "rocksdb:low", 0..1));
        assert_eq!(model.file(FILE).unwrap().writer, None);
    }
}
