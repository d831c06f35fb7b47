//! The handover to an SSTable of Cassandra: part by part while it is being written, or as a whole.

use super::lineage::{self, Input, Output, Work};
use super::refused::Refused;
use super::sstable_file::SsTableFile;
use super::transfer::Transfer;
use coldstream_handover::SHARE_MIN;
use coldstream_handover::cassandra::{self, Growing, PartHeat};
use coldstream_handover::{Limits, Piece, Plan};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_sstable::ReadAt;
use coldstream_sstable::cassandra::{
    Component, Components, Compression, Descriptor, Format, IndexCursor, Key, SsTable,
};
use coldstream_sstable::memory::{self, TryVec};
use std::ffi::{CStr, CString};
use std::ops::Range;

/// The names of an SSTable's files.
struct Files {
    /// The directory, with its slash.
    directory: Vec<u8>,
    descriptor: Descriptor,
}

impl Files {
    /// Of the SSTable whose `Data.db` is at `path`.
    fn of(path: &CStr) -> Result<Self, Refused> {
        let path = path.to_bytes();
        let name_at = path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1);
        let (directory, name) = path.split_at(name_at);
        let name = std::str::from_utf8(name)
            .map_err(|_| Refused::Declined("a file name that is no text".into()))?;
        Ok(Self {
            directory: memory::copied(directory)?,
            descriptor: Descriptor::parse(name)?,
        })
    }

    /// The last two names of the directory: the keyspace's and the CQL table's. There may be several data
    /// directories.
    fn keyspace_and_table(&self) -> [Option<&[u8]>; 2] {
        let mut names = self.directory.rsplit(|byte| *byte == b'/').skip(1);
        [names.next(), names.next()]
    }

    fn path(&self, component: Component) -> Result<CString, Refused> {
        let (descriptor, end) = (&self.descriptor, component.name());
        let name = memory::formatted(format_args!("{descriptor}-{end}"));
        let name = name.ok_or(Refused::OutOfMemory)?;
        // The path came from the kernel, so there is no NUL in it.
        lineage::c_string(&[&self.directory, name.as_bytes()]).ok_or(Refused::OutOfMemory)
    }
}

/// Whether `index` is the path of the `Index.db` that belongs to the `Data.db` at `data`.
pub(super) fn is_index_of(index: &CStr, data: &CStr) -> bool {
    let expected = Files::of(data).and_then(|files| files.path(Component::Index));
    expected.is_ok_and(|expected| *expected == *index)
}

/// The part of an output that was written since the last handover.
struct Part<'p, 'b> {
    /// The output's number among the thread's.
    output_number: usize,
    /// The output at the last handover.
    before: Output,
    files: &'p Files,
    /// The output's reader, once it is finished.
    finished: Option<&'p SsTable<SsTableFile<'b>>>,
}

impl Part<'_, '_> {
    /// The position in the index at which it begins.
    fn from(&self) -> IndexCursor {
        match self.finished.is_some() && self.before.is_incomplete {
            true => IndexCursor::default(),
            false => self.before.cursor,
        }
    }

    /// Whether keys are searched in the data: BTI's index does not exist yet. The data has keys of all inputs.
    fn is_searched(&self) -> bool {
        self.finished.is_none() && self.files.descriptor.format() == Format::Bti
    }
}

/// What a part of an output gets from the inputs.
struct Carried {
    /// Its hot ranges; `None` if the data is not recognised.
    heat: Option<PartHeat>,
    /// Chunks of the part were not known any more.
    has_lost: bool,
    /// The position in each input at which the next part begins, by the input's number.
    cursors: Vec<(usize, Option<IndexCursor>)>,
}

impl<'b> Transfer<'b> {
    /// Hands over to the next part of the output that the descriptor names.
    pub(super) fn to_partitions(&self, work: &mut Work) -> Result<(), Refused> {
        let Some(number) = work
            .outputs
            .iter()
            .position(|output| output.stamp.same_inode(&self.output.stamp))
        else {
            return Ok(());
        };
        let Some(before) = work.outputs.get(number).copied() else {
            return Ok(());
        };
        let end = self.output.stamp.size_bytes;
        // The foreground has not read the new part yet: heat there is a deleted file's. The page in which the part before
        // ends has that part's heat.
        let new = before.end.next_multiple_of(PAGE_BYTES)..end;
        self.present.heat.forget(self.key(), new);
        if let Some(output) = work.outputs.get_mut(number) {
            output.end = end;
        }
        work.inputs
            .retain(|input| !input.stamp.same_inode(&self.output.stamp));
        let path = lineage::path_of(self.output.descriptor).ok_or(Refused::Gone)?;
        let files = Files::of(&path)?;
        let finished = self.open_sstable(&files, end);
        let is_growing = matches!(finished, Err(Refused::Gone));
        // A part is handed over once, whether its index is mapped or its data opened first.
        if is_growing && (before.end == end || before.is_declined) {
            return Ok(());
        }
        let part = Part {
            output_number: number,
            before,
            files: &files,
            finished: finished.as_ref().ok(),
        };
        let handed_over = self.to_part(work, &part);
        if is_growing {
            // The inputs stay until all parts are written.
            self.left_cold.set(None);
        } else {
            work.outputs.remove(number);
        }
        handed_over
    }

    /// Hands over to a part of an output.
    fn to_part(&self, work: &mut Work, part: &Part<'_, 'b>) -> Result<(), Refused> {
        if part.is_searched() && !self.may_be_searched(work, part.files) {
            return Ok(());
        }
        let Some(carried) = self.carry(work, part)? else {
            return Ok(());
        };
        let mut output = work.outputs.get_mut(part.output_number);
        if let Some(output) = &mut output {
            output.is_incomplete |= carried.has_lost;
        }
        let Some(part_heat) = carried.heat else {
            // The data is not damaged: it is compressed in another way, or no partition was recognised. In the
            // first case no further part is tried before the SSTable is finished.
            if let Some(output) = output {
                output.is_declined = part.finished.is_none() && !part.is_searched();
            }
            let what = "data that is not compressed as its inputs are";
            return Err(Refused::Declined(what.into()));
        };
        if let Some(output) = output {
            output.cursor = part_heat.cursor;
        }
        if part_heat.last_key.is_some() {
            work.passed = part_heat.last_key;
        }
        self.finish(
            &self.open_output()?,
            &part_heat.pieces,
            self.output.stamp.size_bytes,
        )?;
        for (number, cursor) in carried.cursors {
            if let (Some(input), Some(cursor)) = (work.inputs.get_mut(number), cursor) {
                input.cursor = cursor;
            }
        }
        Ok(())
    }

    /// Finds the ranges of a part that get the inputs' heat, and the position at which each input goes on.
    /// `None` if there is no input.
    fn carry(&self, work: &mut Work, part: &Part<'_, 'b>) -> Result<Option<Carried>, Refused> {
        let is_searched = part.is_searched();
        let sstables = self.open_inputs(work, part.files, is_searched);
        if sstables.is_empty() {
            return Ok(None);
        }
        let from = part.from();
        let is_behind = match part.finished {
            Some(sstable) if from == IndexCursor::default() => {
                is_behind(sstable, work.passed.as_ref())?
            }
            _ => true,
        };
        let mut inputs = Vec::new();
        for (number, sstable, heat) in &sstables {
            if let Some(input) = work.inputs.get(*number) {
                let cursor = if is_behind {
                    input.cursor
                } else {
                    IndexCursor::default()
                };
                inputs.try_push(cassandra::Input::new(sstable, cursor, heat)?)?;
            }
        }
        let (heat, has_lost) = match part.finished {
            Some(sstable) => {
                let is_over = || self.is_search_over();
                let part_heat =
                    cassandra::transfer_to_finished(sstable, from, &mut inputs, &is_over)?;
                (Some(part_heat), false)
            }
            None => {
                let compression = sstables
                    .iter()
                    .find_map(|(_, sstable, _)| sstable.compression());
                self.carry_growing(part.files, &part.before, compression, &mut inputs)?
            }
        };
        let mut cursors = Vec::new();
        // The cursors of a search are ahead of the keys that it found.
        if !is_searched {
            for ((number, ..), input) in sstables.iter().zip(&mut inputs) {
                cursors.try_push((*number, input.cursor()))?;
            }
        }
        Ok(Some(Carried {
            heat,
            has_lost,
            cursors,
        }))
    }

    /// Whether to search for hot partitions in the data of an unfinished part. It needs a hot input, and
    /// inputs in BTI format only. For a BIG input, each part would read all earlier index entries again.
    fn may_be_searched(&self, work: &Work, files: &Files) -> bool {
        let formats = || {
            let inputs = work.inputs.iter();
            inputs.filter_map(|input| Some((input, format_if_of_table(input, files)?)))
        };
        formats().all(|(_, format)| format == Format::Bti)
            && formats().any(|(input, _)| self.is_hot(input))
    }

    /// Opens the hot inputs, or all of them if they are `searched`, until the search is over. Each comes with
    /// its number among the thread's inputs, and its heat. Forgets an input that can never be read.
    fn open_inputs(
        &self,
        work: &mut Work,
        files: &Files,
        searched: bool,
    ) -> Vec<(
        usize,
        SsTable<SsTableFile<'b>>,
        impl Fn(u64) -> u8 + use<'b>,
    )> {
        let mut sstables = Vec::new();
        let mut number = 0;
        work.inputs.retain(|input| {
            let is_wanted = format_if_of_table(input, files).is_some()
                && (searched || self.is_hot(input))
                && !self.is_search_over();
            if is_wanted {
                let opened = self.input(input).and_then(|sstable| {
                    Ok(sstables.try_push((number, sstable, self.heat_of(input)))?)
                });
                match opened {
                    Ok(()) => {}
                    Err(refused) if self.count_refused(&refused) => return false,
                    Err(_) => {}
                }
            }
            number += 1;
            true
        });
        sstables
    }

    /// Opens an input, if its path still names the same file.
    fn input(&self, input: &Input) -> Result<SsTable<SsTableFile<'b>>, Refused> {
        self.open_input(input)?;
        self.open_sstable(&Files::of(&input.path)?, input.stamp.size_bytes)
    }

    /// Opens a finished SSTable. [`Refused::Gone`] if it is unfinished or deleted.
    fn open_sstable(
        &self,
        files: &Files,
        data_length: u64,
    ) -> Result<SsTable<SsTableFile<'b>>, Refused> {
        let open = |component| -> Result<SsTableFile<'b>, Refused> {
            self.open_file(&files.path(component)?)
        };
        let is_missing = |refused: &Refused| matches!(refused, Refused::Gone);
        let format = files.descriptor.format();
        let components = Components::open(format, open, is_missing, || Ok(data_length))?;
        Ok(SsTable::new(&files.descriptor, components)?)
    }

    /// Hands over to the newest part of an unfinished output. The output is assumed to be compressed as the
    /// inputs are. Returns its hot ranges, and whether chunks were not known any more, as [`Carried`] has them.
    fn carry_growing(
        &self,
        files: &Files,
        before: &Output,
        compression: Option<&Compression>,
        inputs: &mut [cassandra::Input<'_, SsTableFile<'b>>],
    ) -> Result<(Option<PartHeat>, bool), Refused> {
        let index = match files.descriptor.format() {
            Format::Big => Some(self.open_file(&files.path(Component::Index)?)?),
            // BTI's index does not exist yet.
            Format::Bti => None,
        };
        let data = self.open_output()?;
        let Some((mut chunks, written)) = self.writes.take_chunk_log(self.core, self.output.slot)
        else {
            // The output is written by plain calls, and so is in the page cache.
            return Err(Refused::Gone);
        };
        let has_lost = chunks.take_lost();
        let growing = match compression {
            Some(compression) => Growing::Chunks(&chunks, compression),
            None => Growing::Plain(written),
        };
        let from = before.cursor;
        let part_heat = match &index {
            // The output is compressed, but the inputs are not.
            _ if compression.is_none() && chunks.count().is_some_and(|count| count > 0) => Ok(None),
            Some(index) => {
                growing.transfer_by_index(index, &data, from, inputs, &|| self.is_search_over())
            }
            None => {
                let is_over = || self.pages_left_to_search() == 0 || self.is_search_over();
                let read_ahead = |ranges: &[Range<u64>]| self.read_ahead(&data, ranges);
                cassandra::transfer_by_search(&growing, &data, from, inputs, &is_over, &read_ahead)
            }
        };
        if let (Ok(Some(part_heat)), Some(compression)) = (&part_heat, compression) {
            chunks.forget_before(part_heat.position, compression.chunk_length());
        }
        self.writes
            .give_chunk_log_back(self.core, self.output.slot, chunks);
        Ok((part_heat?, has_lost))
    }

    /// Reads ahead what will be searched next in an SSTable that is being written.
    fn read_ahead(&self, sstable: &SsTableFile<'_>, ranges: &[Range<u64>]) {
        let pieces = ranges.iter().map(|range| Piece {
            offset: range.start,
            length: range.end - range.start,
            heat: SHARE_MIN,
            is_one_of_few: false,
        });
        let limits = Limits {
            heat_min: SHARE_MIN,
            pages_max: self.pages_left_to_search(),
        };
        // What there is no memory for is read when it is searched.
        if let Ok(plan) = Plan::choose(pieces, limits) {
            let _ = self.warm(sstable, &plan, self.deadlines.of_search());
        }
    }
}

/// Whether an SSTable's first key comes after the last key of the previous output. This is false only if one
/// thread writes both at the same time, as incremental repair does. Repair opens none early, so parts are
/// always in order.
fn is_behind<R: ReadAt>(sstable: &SsTable<R>, passed: Option<&Key>) -> Result<bool, Refused> {
    let Some(passed) = passed else {
        return Ok(true);
    };
    let mut partitions = sstable.partitions()?;
    let first = partitions.peek()?;
    // BTI's index has only prefixes of keys. The last and the first prefix may be equal.
    Ok(first.is_none_or(|first| first.key.compare(passed).is_ge()))
}

/// An input's format. `None` if the file belongs to another CQL table than `files`: it is no input. The thread
/// read it earlier, for a verification or a compaction without output.
fn format_if_of_table(input: &Input, files: &Files) -> Option<Format> {
    let of_input = Files::of(&input.path).ok()?;
    let is_of_table = of_input.keyspace_and_table() == files.keyspace_and_table();
    is_of_table.then(|| of_input.descriptor.format())
}

#[cfg(test)]
mod tests {
    use super::is_index_of;

    #[test]
    fn an_index_belongs_to_the_data_of_its_directory_version_and_number() {
        let data = c"/data/ks/t-1/nb-3-big-Data.db";
        assert!(is_index_of(c"/data/ks/t-1/nb-3-big-Index.db", data));
        for other in [
            c"/data/ks/t-1/nb-4-big-Index.db",
            c"/data/ks/t-2/nb-3-big-Index.db",
            c"/data/ks/t-1/nb-3-big-Data.db",
            c"/lib/libc.so",
        ] {
            assert!(!is_index_of(other, data), "{other:?}");
        }
        assert!(!is_index_of(
            c"/data/ks/t-1/nb-3-big-Index.db",
            c"/data/other"
        ));
    }
}
