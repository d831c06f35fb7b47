//! The handover to an SSTable of Cassandra: part by part while it is being written, or as a whole.

use super::lineage::{self, Input, Output, Work};
use super::sstable_file::SsTableFile;
use super::transfer::{Refused, SHARE_MIN, Transfer};
use coldstream_handover::cassandra::{self, Growing, PartHeat};
use coldstream_handover::{Limits, Piece, Plan};
use coldstream_sstable::ReadAt;
use coldstream_sstable::cassandra::{
    Component, Components, Compression, Descriptor, Format, IndexCursor, Key, SsTable,
};
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
        let name = std::str::from_utf8(name).map_err(|_| Refused::Declined)?;
        Ok(Self {
            directory: directory.to_vec(),
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
        let name = self.descriptor.file_name(component);
        let path = [&self.directory[..], name.as_bytes()].concat();
        CString::new(path).map_err(|_| Refused::Declined)
    }
}

/// Whether `index` is the path of the `Index.db` that belongs to the `Data.db` at `data`.
pub(super) fn is_index_of(index: &CStr, data: &CStr) -> bool {
    let expected = Files::of(data).and_then(|files| files.path(Component::Index));
    expected.is_ok_and(|expected| *expected == *index)
}

/// What has been written of an output since the handover before.
struct Part<'p, 'b> {
    /// The output's number among the thread's.
    output_number: usize,
    /// The output at the handover before.
    before: Output,
    files: &'p Files,
    /// The output's reader, once it is finished.
    finished: Option<&'p SsTable<SsTableFile<'b>>>,
}

impl Part<'_, '_> {
    /// Where BTI's index is not there yet, keys are searched in the data, which is made of all inputs.
    fn is_searched(&self) -> bool {
        self.finished.is_none() && self.files.descriptor.format() == Format::Bti
    }
}

/// Where inputs go on, by their numbers.
type Cursors = Vec<(usize, Option<IndexCursor>)>;

impl<'b> Transfer<'b> {
    /// To the output that is behind the descriptor, part by part.
    pub(super) fn to_partitions(&self, work: &mut Work) -> Result<(), Refused> {
        let Some(number) = work
            .outputs
            .iter()
            .position(|output| output.stamp.same_inode(&self.stamp))
        else {
            return Ok(());
        };
        let Some(before) = work.outputs.get(number).copied() else {
            return Ok(());
        };
        let end = self.stamp.size_bytes;
        // The foreground has read nothing of what is new.
        self.present.heat.forget(self.key(), before.end..end);
        if let Some(output) = work.outputs.get_mut(number) {
            output.end = end;
        }
        work.inputs
            .retain(|input| !input.stamp.same_inode(&self.stamp));
        let path = lineage::path_of(self.descriptor).ok_or(Refused::Gone)?;
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
        if !is_growing {
            work.outputs.remove(number);
        }
        handed_over
    }

    /// To a part of an output.
    fn to_part(&self, work: &mut Work, part: &Part<'_, 'b>) -> Result<(), Refused> {
        if part.is_searched() && !self.may_be_searched(work, part.files) {
            return Ok(());
        }
        let Some((part_heat, cursors)) = self.carry(work, part)? else {
            return Ok(());
        };
        let output = work.outputs.get_mut(part.output_number);
        let Some(part_heat) = part_heat else {
            // Data that is compressed in another way, or without a recognisable partition, is not damaged. The
            // former is not looked at again before the SSTable is finished.
            if let Some(output) = output {
                output.is_declined = part.finished.is_none() && !part.is_searched();
            }
            return Err(Refused::Declined);
        };
        if let Some(output) = output {
            output.cursor = part_heat.cursor;
        }
        if part_heat.last_key.is_some() {
            work.passed = part_heat.last_key;
        }
        self.finish(&self.output()?, &part_heat.pieces, self.stamp.size_bytes);
        for (number, cursor) in cursors {
            if let (Some(input), Some(cursor)) = (work.inputs.get_mut(number), cursor) {
                input.cursor = cursor;
            }
        }
        Ok(())
    }

    /// Finds a part's places of what is hot in the inputs, and where each input goes on, by its number. `None`
    /// without an input; no places in data that is not recognised.
    fn carry(
        &self,
        work: &mut Work,
        part: &Part<'_, 'b>,
    ) -> Result<Option<(Option<PartHeat>, Cursors)>, Refused> {
        let is_searched = part.is_searched();
        let sstables = self.open_inputs(work, part.files, is_searched);
        if sstables.is_empty() {
            return Ok(None);
        }
        let from = part.before.cursor;
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
                inputs.push(cassandra::Input::new(sstable, cursor, heat)?);
            }
        }
        let part_heat = match part.finished {
            Some(sstable) => {
                let is_over = || self.is_search_over();
                let part_heat =
                    cassandra::transfer_to_finished(sstable, from, &mut inputs, &is_over)?;
                Some(part_heat)
            }
            None => {
                let compression = sstables
                    .iter()
                    .find_map(|(_, sstable, _)| sstable.compression());
                self.carry_growing(part.files, &part.before, compression, &mut inputs)?
            }
        };
        let mut cursors = Vec::new();
        // Inputs that were searched are ahead of what was found.
        if !is_searched {
            for ((number, ..), input) in sstables.iter().zip(&mut inputs) {
                cursors.push((*number, input.cursor()));
            }
        }
        Ok(Some((part_heat, cursors)))
    }

    /// Whether to search for hot partitions in the data of an unfinished part. It takes a hot input, and BTI only:
    /// of a BIG SSTable all index entries before the part would be read once more for each part.
    fn may_be_searched(&self, work: &Work, files: &Files) -> bool {
        let formats = || {
            let inputs = work.inputs.iter();
            inputs.filter_map(|input| Some((input, format_if_of_table(input, files)?)))
        };
        formats().all(|(_, format)| format == Format::Bti)
            && formats().any(|(input, _)| self.is_hot(input))
    }

    /// The hot inputs, or all of them where they are `searched`, until the search is over. Each comes with its
    /// number among the thread's inputs, and its heat. An input that can never be read is forgotten.
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
                match self.input(input) {
                    Ok(sstable) => sstables.push((number, sstable, self.heat_of(input))),
                    Err(refused) if self.count_refused(&refused) => return false,
                    Err(_) => {}
                }
            }
            number += 1;
            true
        });
        sstables
    }

    /// The SSTable that was read, if it still is what it was.
    fn input(&self, input: &Input) -> Result<SsTable<SsTableFile<'b>>, Refused> {
        self.open_input(input)?;
        self.open_sstable(&Files::of(&input.path)?, input.stamp.size_bytes)
    }

    /// A finished SSTable; [`Refused::Gone`] if it is not finished, or gone.
    fn open_sstable(
        &self,
        files: &Files,
        data_length: u64,
    ) -> Result<SsTable<SsTableFile<'b>>, Refused> {
        let open = |component| -> Result<SsTableFile<'b>, Refused> {
            let path = files.path(component)?;
            Ok(SsTableFile::open(self.core, &path, self.slot)?)
        };
        let is_missing = |refused: &Refused| matches!(refused, Refused::Gone);
        let format = files.descriptor.format();
        let components = Components::open(format, open, is_missing, || Ok(data_length))?;
        Ok(SsTable::new(&files.descriptor, components)?)
    }

    /// To what has been written since the last part of an output that is compressed as the inputs are.
    fn carry_growing(
        &self,
        files: &Files,
        before: &Output,
        compression: Option<&Compression>,
        inputs: &mut [cassandra::Input<'_, SsTableFile<'b>>],
    ) -> Result<Option<PartHeat>, Refused> {
        let index = match files.descriptor.format() {
            Format::Big => Some(SsTableFile::open(
                self.core,
                &files.path(Component::Index)?,
                self.slot,
            )?),
            // Not there yet.
            Format::Bti => None,
        };
        let data = self.output()?;
        let Some((mut chunks, written)) = self.writes.take_chunk_log(self.core, self.slot) else {
            // It is written by plain calls, and is in the page cache.
            return Err(Refused::Gone);
        };
        let growing = match compression {
            Some(compression) => Growing::Chunks(&chunks, compression),
            None => Growing::Plain(written),
        };
        let from = before.cursor;
        let part_heat = match &index {
            // It is compressed, and the inputs are not.
            _ if compression.is_none() && chunks.count().is_some_and(|count| count > 0) => Ok(None),
            Some(index) => {
                growing.transfer_by_index(index, &data, from, inputs, &|| self.is_search_over())
            }
            None => {
                let is_over = || self.pages_left() == 0 || self.is_search_over();
                let read_ahead = |ranges: &[Range<u64>]| self.read_ahead(&data, ranges);
                cassandra::transfer_by_search(&growing, &data, from, inputs, &is_over, &read_ahead)
            }
        };
        if let (Ok(Some(part_heat)), Some(compression)) = (&part_heat, compression) {
            chunks.forget_before(part_heat.position, compression.chunk_length());
        }
        self.writes
            .give_chunk_log_back(self.core, self.slot, chunks);
        Ok(part_heat?)
    }

    /// Reads ahead what will be searched next in an SSTable that is being written.
    fn read_ahead(&self, sstable: &SsTableFile<'_>, ranges: &[Range<u64>]) {
        let pieces = ranges.iter().map(|range| Piece {
            offset: range.start,
            length: range.end - range.start,
            heat: SHARE_MIN,
        });
        let limits = Limits {
            heat_min: SHARE_MIN,
            pages_max: self.pages_left(),
        };
        self.warm(sstable, &Plan::choose(pieces, limits), self.search_end_ns());
    }
}

/// Whether an SSTable begins behind the one that was handed over to before. It does unless both are written
/// side by side, as incremental repair does. That opens none early: parts are always in order.
fn is_behind<R: ReadAt>(sstable: &SsTable<R>, passed: Option<&Key>) -> Result<bool, Refused> {
    let Some(passed) = passed else {
        return Ok(true);
    };
    let mut partitions = sstable.partitions()?;
    let first = partitions.peek()?;
    // Of BTI only prefixes of keys are known. They may be equal where one SSTable follows the other.
    Ok(first.is_none_or(|first| first.key.compare(passed).is_ge()))
}

/// An input's format. `None` if it is of another CQL table than `files`: this thread has verified such an
/// SSTable before, or compacted it in vain, and it is no input.
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
