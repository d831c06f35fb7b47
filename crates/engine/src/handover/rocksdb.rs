//! The handover to a finished SSTable of RocksDB or LevelDB, and to a blob file.

use super::lineage::{Input, Work};
use super::refused::Refused;
use super::transfer::Transfer;
use crate::mapped::MappedSsTables;
use coldstream_handover::rocksdb::{Contents, Output};
use coldstream_io::alignment::PAGE_BYTES;
use coldstream_io::sys::file;
use coldstream_sstable::memory::TryVec;
use coldstream_sstable::rocksdb::SsTable;

/// How much of an input's keys an output covers.
enum Taken {
    /// None: the file was opened, but not compacted, or was an input of another column family's output.
    NoInput,
    /// The input has keys behind the output's last key.
    Partly,
    /// The input's last key is within the output.
    Wholly,
}

impl Transfer<'_> {
    pub(super) fn to_blocks(&self, work: &mut Work) -> Result<(), Refused> {
        let size_bytes = self.output.stamp.size_bytes;
        self.present.heat.forget(self.key(), 0..size_bytes);
        work.inputs
            .retain(|input| !input.stamp.same_inode(&self.output.stamp));
        // The thread may write a second output in the same key range: RocksDB separates young and old data
        // in this way (`preclude_last_level_data_seconds`). Then the inputs stay for it.
        let is_alone = !work.writes_beside(&self.output.stamp);
        if !work.inputs.iter().any(|input| self.is_hot(input)) {
            return Ok(());
        }
        let file = self.open_output()?;
        let is_over = || self.is_search_over();
        let mut output = Output::read(&SsTable::open(&file)?, &is_over)?;
        let mut looked_at = 0;
        work.inputs.retain(|input| {
            if is_over() {
                return true;
            }
            let stays = !self.is_hot(input)
                || match self.take_over(&mut output, input) {
                    Ok(Taken::Partly) => true,
                    Ok(Taken::Wholly) => !is_alone,
                    Ok(Taken::NoInput) => false,
                    Err(refused) => !self.count_refused(&refused),
                };
            looked_at += usize::from(stays);
            stays
        });
        // Where the time was not enough for all, the next output begins with those that were left out.
        work.inputs.rotate_left(looked_at);
        let metadata = output.metadata();
        let mut pieces = output.pieces()?;
        pieces.try_extend(metadata)?;
        self.finish(&file, &pieces, size_bytes)
    }

    /// Hands over to an SSTable that was written through the page cache, while others are mapped. All of it is in
    /// the page cache; afterwards what is hot is left there. A memtable stays as it is: its keys are the newest.
    pub(super) fn to_cached_blocks(
        &self,
        mapped: &MappedSsTables,
        work: &mut Work,
    ) -> Result<(), Refused> {
        self.present
            .heat
            .forget(self.key(), 0..self.output.stamp.size_bytes);
        let file = self.open_output()?;
        let sstable = SsTable::open(&file)?;
        let is_over = || self.is_search_over();
        let mut output = Output::read(&sstable, &is_over)?;
        file.read_only_cached_below(output.data_bytes());
        let Some(contents) = Contents::read(&sstable, &is_over)? else {
            return self.left_in_cache(&is_over);
        };
        if contents.may_be_a_memtable() {
            return Ok(());
        }
        output.know_contents(contents);
        // Those that were not mapped.
        for input in &work.inputs {
            if self.is_hot(input)
                && let Err(refused) = self.take_over(&mut output, input)
            {
                self.count_refused(&refused);
            }
        }
        self.find_mapped(mapped, &mut work.mapped)?;
        self.take_over_mapped(&mut output, &mut work.mapped)?;
        if is_over() {
            return self.left_in_cache(&is_over);
        }
        let data_bytes = output.data_bytes() & !(PAGE_BYTES - 1);
        let pieces = output.pieces()?;
        // The engine has synced it. Pages that are not clean stay.
        let _ = file::advise(file.number(), 0, data_bytes, libc::POSIX_FADV_DONTNEED);
        self.finish(&file, &pieces, self.output.stamp.size_bytes)
    }

    /// Some heat may not have been found: all of an output of mapped SSTables stays in the page cache.
    fn left_in_cache(&self, is_over: &dyn Fn() -> bool) -> Result<(), Refused> {
        match is_over() {
            true => Err(Refused::OutOfTime),
            false => Ok(()),
        }
    }

    /// Hands over to a finished blob file.
    pub(super) fn to_records(&self, work: &mut Work) -> Result<(), Refused> {
        let size_bytes = self.output.stamp.size_bytes;
        self.present.heat.forget(self.key(), 0..size_bytes);
        match work.blobs.finish(self.key(), size_bytes) {
            Some(pieces) if !pieces.is_empty() => {
                self.finish(&self.open_output()?, &pieces, size_bytes)
            }
            _ => Ok(()),
        }
    }

    /// Takes over an input's heat.
    fn take_over(&self, output: &mut Output, input: &Input) -> Result<Taken, Refused> {
        let file = self.open_input(input)?;
        let sstable = SsTable::open(&file)?;
        if !output.has_comparator_of(&sstable) {
            return Ok(Taken::NoInput);
        }
        if let Some(data_bytes) = sstable.properties().data_bytes {
            if input.lowest_offset >= data_bytes {
                return Ok(Taken::NoInput);
            }
            file.read_only_cached_below(data_bytes);
        }
        let is_finished =
            output.take_over(&sstable, &self.heat_of(input), &|| self.is_search_over())?;
        Ok(if is_finished {
            Taken::Wholly
        } else {
            Taken::Partly
        })
    }
}
